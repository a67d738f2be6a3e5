import type * as requests from './requests.ts';
import type { Call, CallOptions, SendOptions } from './transport.ts';

/** Operations on one noun. They take and return what the reference of the service describes, unchanged. */
export abstract class Resource {
  protected readonly call: Call;

  constructor(call: Call) {
    this.call = call;
  }
}

/**
 * Repeats a call until nothing is left that it had no time for.
 *
 * @param add adds what the calls before did to what the last one did
 */
export async function untilNoneRests<Done extends { rest_waits: boolean }>(
  call: () => Promise<Done>,
  add: (before: Done, last: Done) => Done,
): Promise<Done> {
  let all = await call();
  while (all.rest_waits) all = add(all, await call());
  return all;
}

/** Requires an API key or a login. */
export class Stats extends Resource {
  get(query: requests.GetStatsQuery = {}, options?: CallOptions) {
    return this.call('getStats', { query }, options);
  }
}

/** Requires an API key or a login. */
export class Templates extends Resource {
  create(body: requests.CreateTemplateBody, options?: CallOptions) {
    return this.call('createTemplate', { body }, options);
  }

  list(query: requests.ListTemplatesQuery = {}, options?: CallOptions) {
    return this.call('listTemplates', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getTemplate', { param: id }, options);
  }

  /** Changes the draft. Omitted fields stay, and null clears a field. */
  update(id: string, body: requests.ChangeTemplateBody, options?: CallOptions) {
    return this.call('changeTemplate', { param: id, body }, options);
  }

  remove(id: string, options?: CallOptions) {
    return this.call('removeTemplate', { param: id }, options);
  }

  /** Publishes the draft: emails use its current content from now on. */
  publish(id: string, body: requests.PublishTemplateBody = {}, options?: CallOptions) {
    return this.call('publishTemplate', { param: id, body }, options);
  }

  /** Returns the content that an email would have, and sends nothing. */
  render(id: string, body: requests.RenderTemplateBody = {}, options?: CallOptions) {
    return this.call('renderTemplate', { param: id, body }, options);
  }
}

/** Requires a login. */
export class Suppressions extends Resource {
  list(query: requests.ListSuppressionsQuery = {}, options?: CallOptions) {
    return this.call('listSuppressions', { query }, options);
  }

  add(body: requests.AddSuppressionBody, options?: CallOptions) {
    return this.call('addSuppression', { body }, options);
  }

  /** Up to 10,000 at once. */
  import(body: requests.ImportSuppressionsBody, options?: CallOptions) {
    return this.call('importSuppressions', { body }, options);
  }

  /** The whole list, as CSV. */
  export(options?: CallOptions) {
    return this.call('exportSuppressions', {}, options);
  }

  remove(address: string, options?: CallOptions) {
    return this.call('removeSuppression', { param: address }, options);
  }
}

/** Requires a login. */
export class Domains extends Resource {
  /** The answer has the records to publish. */
  create(body: requests.AddDomainBody, options?: CallOptions) {
    return this.call('addDomain', { body }, options);
  }

  list(query: requests.PartQuery = {}, options?: CallOptions) {
    return this.call('listDomains', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getDomain', { param: id }, options);
  }

  /** The same with `checks`: what DNS has for its records now. Changes nothing, unlike `verify`. */
  lookUp(id: string, options?: CallOptions) {
    return this.call('getDomain', { param: id, query: { checks: 'true' } }, options);
  }

  /** Changes the TLS and the pool for all of its mail, including what is queued. */
  change(id: string, body: requests.ChangeDomainBody, options?: CallOptions) {
    return this.call('changeDomain', { param: id, body }, options);
  }

  remove(id: string, options?: CallOptions) {
    return this.call('removeDomain', { param: id }, options);
  }

  /** Looks up the records. If any is wrong, the error's `body` is a `VerificationError`. */
  verify(id: string, options?: CallOptions) {
    return this.call('verifyDomain', { param: id }, options);
  }

  /** Generates or imports another key, which signs as soon as its record is found. */
  rotateDkim(id: string, body: requests.RotateDkimBody = {}, options?: CallOptions) {
    return this.call('rotateDkim', { param: id, body }, options);
  }

  /** Removes a key other than the domain's own. */
  removeDkimKey(id: string, options?: CallOptions) {
    return this.call('removeDkimKey', { param: id }, options);
  }
}

/** Requires a login. */
export class Keys extends Resource {
  /** The answer has the whole key, which is shown only once. */
  create(body: requests.CreateKeyBody, options?: CallOptions) {
    return this.call('createKey', { body }, options);
  }

  list(query: requests.PartQuery = {}, options?: CallOptions) {
    return this.call('listKeys', { query }, options);
  }

  revoke(id: string, options?: CallOptions) {
    return this.call('revokeKey', { param: id }, options);
  }
}

/** Requires a login. */
export class Webhooks extends Resource {
  /** The answer has the secret for `verifyWebhook`, which is shown only once. */
  create(body: requests.CreateWebhookBody, options?: CallOptions) {
    return this.call('createWebhook', { body }, options);
  }

  list(query: requests.PartQuery = {}, options?: CallOptions) {
    return this.call('listWebhooks', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getWebhook', { param: id }, options);
  }

  update(id: string, body: requests.ChangeWebhookBody, options?: CallOptions) {
    return this.call('changeWebhook', { param: id, body }, options);
  }

  remove(id: string, options?: CallOptions) {
    return this.call('removeWebhook', { param: id }, options);
  }

  /** For 24 hours, calls are also signed with the previous secret. */
  rotateSecret(id: string, options?: CallOptions) {
    return this.call('rotateWebhookSecret', { param: id }, options);
  }

  /** Calls the endpoint now and returns its answer. That can take 17 s. */
  test(id: string, options?: CallOptions) {
    return this.call('testWebhook', { param: id }, options);
  }

  /** Sends all deliveries of a time range again. */
  replay(id: string, body: requests.ReplayWebhookBody, options?: CallOptions) {
    return this.call('replayWebhook', { param: id, body }, options);
  }
}

/** Requires a login. */
export class WebhookDeliveries extends Resource {
  list(query: requests.ListWebhookDeliveriesQuery = {}, options?: CallOptions) {
    return this.call('listWebhookDeliveries', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getWebhookDelivery', { param: id }, options);
  }

  /** Sends it again, whether or not it succeeded. */
  retry(id: string, options?: CallOptions) {
    return this.call('retryWebhookDelivery', { param: id }, options);
  }
}

/** Requires the login of an operator of the server. */
export class Accounts extends Resource {
  create(body: requests.CreateAccountBody, options?: CallOptions) {
    return this.call('createAccount', { body }, options);
  }

  list(query: requests.ListAccountsQuery = {}, options?: CallOptions) {
    return this.call('listAccounts', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getAccount', { param: id }, options);
  }

  update(id: string, body: requests.ChangeAccountBody, options?: CallOptions) {
    return this.call('changeAccount', { param: id, body }, options);
  }

  addCredit(id: string, body: requests.AddCreditBody, options?: SendOptions) {
    return this.call('addCredit', { param: id, body }, options);
  }
}

/** Where mail goes. Requires the login of an operator. A name is that of a domain or a site. */
export class Destinations extends Resource {
  list(query: requests.ListDestinationsQuery = {}, options?: CallOptions) {
    return this.call('listDestinations', { query }, options);
  }

  pause(name: string, options?: CallOptions) {
    return this.call('pauseDestination', { param: name }, options);
  }

  resume(name: string, options?: CallOptions) {
    return this.call('resumeDestination', { param: name }, options);
  }

  flush(name: string, options?: CallOptions) {
    return this.call('flushDestination', { param: name }, options);
  }

  /** How much waits for a domain, and what `stop` would leave alone. */
  waiting(domain: string, options?: CallOptions) {
    return this.call('getWaitingForDomain', { param: domain }, options);
  }

  /** Gives up what waits for a domain, for good. Repeats the call until nothing is left that it had no time for. */
  stop(domain: string, body: requests.StopDestinationBody = {}, options?: CallOptions) {
    return untilNoneRests(
      () => this.call('stopDestination', { param: domain, body }, options),
      (before, last) => ({ ...last, stopped: before.stopped + last.stopped }),
    );
  }
}

/** Checks everything that mail depends on. Requires the login of an operator, and takes up to 25 seconds. */
export class Doctor extends Resource {
  examine(query: requests.ExamineQuery = {}, options?: CallOptions) {
    return this.call('examine', { query }, options);
  }
}

/** The mail that arrived in the sandbox (`DELIVERY_MODE=sandbox`). Requires a login. */
export class SandboxMessages extends Resource {
  list(query: requests.ListSandboxMessagesQuery = {}, options?: CallOptions) {
    return this.call('listSandboxMessages', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getSandboxMessage', { param: id }, options);
  }
}

/** The login of a browser, which keeps it in a cookie that no script can read. */
export class Session extends Resource {
  create(body: requests.LogInBody, options?: CallOptions) {
    return this.call('createSession', { body }, options);
  }

  get(options?: CallOptions) {
    return this.call('getSession', {}, options);
  }

  end(options?: CallOptions) {
    return this.call('endSession', {}, options);
  }
}

/** Health, reference and pages of the service. Requires no credential. */
export class Service extends Resource {
  isAlive(options?: CallOptions) {
    return this.call('isAlive', {}, options);
  }

  isReady(options?: CallOptions) {
    return this.call('isReady', {}, options);
  }

  openApi(options?: CallOptions) {
    return this.call('getOpenApi', {}, options);
  }

  /** A page for people, as HTML. */
  reference(options?: CallOptions) {
    return this.call('showReference', {}, options);
  }

  /** A page for people, as HTML. */
  welcome(options?: CallOptions) {
    return this.call('showWelcome', {}, options);
  }

  /** The page behind the link in marketing mail, as HTML. */
  unsubscribePage(token: string, options?: CallOptions) {
    return this.call('showUnsubscribe', { param: token }, options);
  }

  /** Does what the button on that page does. */
  unsubscribe(token: string, options?: CallOptions) {
    return this.call('unsubscribe', { param: token }, options);
  }
}
