import type * as requests from './requests.ts';
import type { Call, CallOptions, SendOptions } from './transport.ts';

/** Operations on one noun. What they take and answer is as on the wire, and as the reference of the service has it. */
export abstract class Resource {
  protected readonly call: Call;

  constructor(call: Call) {
    this.call = call;
  }
}

/** With an API key or a login. */
export class Stats extends Resource {
  get(query: requests.GetStatsQuery = {}, options?: CallOptions) {
    return this.call('getStats', { query }, options);
  }
}

/** With an API key or a login. */
export class Templates extends Resource {
  create(body: requests.CreateTemplateBody, options?: CallOptions) {
    return this.call('createTemplate', { body }, options);
  }

  list(query: requests.PageQuery = {}, options?: CallOptions) {
    return this.call('listTemplates', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getTemplate', { param: id }, options);
  }

  /** Changes the draft. What is not given stays, and null clears. */
  update(id: string, body: requests.ChangeTemplateBody, options?: CallOptions) {
    return this.call('changeTemplate', { param: id, body }, options);
  }

  remove(id: string, options?: CallOptions) {
    return this.call('removeTemplate', { param: id }, options);
  }

  /** From now on emails are made from the draft as it is. */
  publish(id: string, body: requests.PublishTemplateBody = {}, options?: CallOptions) {
    return this.call('publishTemplate', { param: id, body }, options);
  }

  /** What an email would say. Nothing is sent. */
  render(id: string, body: requests.RenderTemplateBody = {}, options?: CallOptions) {
    return this.call('renderTemplate', { param: id, body }, options);
  }
}

/** With a login. */
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

  /** All of the list, as CSV. */
  export(options?: CallOptions) {
    return this.call('exportSuppressions', {}, options);
  }

  remove(address: string, options?: CallOptions) {
    return this.call('removeSuppression', { param: address }, options);
  }
}

/** With a login. */
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

  /** What all of its mail asks of TLS, for what is queued too. */
  change(id: string, body: requests.ChangeDomainBody, options?: CallOptions) {
    return this.call('changeDomain', { param: id, body }, options);
  }

  remove(id: string, options?: CallOptions) {
    return this.call('removeDomain', { param: id }, options);
  }

  /** Looks the records up. What is not right is in the error's `body`, as `VerificationError` has it. */
  verify(id: string, options?: CallOptions) {
    return this.call('verifyDomain', { param: id }, options);
  }

  /** Makes or imports another key, which signs as soon as its record is seen. */
  rotateDkim(id: string, body: requests.RotateDkimBody = {}, options?: CallOptions) {
    return this.call('rotateDkim', { param: id, body }, options);
  }

  /** Removes a key beside the domain's own. */
  removeDkimKey(id: string, options?: CallOptions) {
    return this.call('removeDkimKey', { param: id }, options);
  }
}

/** With a login. */
export class Keys extends Resource {
  /** The answer has the whole key, this once. */
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

/** With a login. */
export class Webhooks extends Resource {
  /** The answer has the secret for `verifyWebhook`, this once. */
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

  /** For 24 hours calls are signed with the previous secret too. */
  rotateSecret(id: string, options?: CallOptions) {
    return this.call('rotateWebhookSecret', { param: id }, options);
  }

  /** Calls it now, and answers with what it said. That can take 17 s. */
  test(id: string, options?: CallOptions) {
    return this.call('testWebhook', { param: id }, options);
  }

  /** Sends everything of a time range again. */
  replay(id: string, body: requests.ReplayWebhookBody, options?: CallOptions) {
    return this.call('replayWebhook', { param: id, body }, options);
  }
}

/** With a login. */
export class WebhookDeliveries extends Resource {
  list(query: requests.ListWebhookDeliveriesQuery = {}, options?: CallOptions) {
    return this.call('listWebhookDeliveries', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getWebhookDelivery', { param: id }, options);
  }

  /** Sends it again, whatever became of it. */
  retry(id: string, options?: CallOptions) {
    return this.call('retryWebhookDelivery', { param: id }, options);
  }
}

/** With the login of an operator of the server. */
export class Accounts extends Resource {
  create(body: requests.CreateAccountBody, options?: CallOptions) {
    return this.call('createAccount', { body }, options);
  }

  list(query: requests.PageQuery = {}, options?: CallOptions) {
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

/** With the login of an operator: where mail goes. A name is a domain's or a site's. */
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
}

/** With the login of an operator: whether all is right for mail to go out. It takes up to 25 seconds. */
export class Doctor extends Resource {
  examine(query: requests.ExamineQuery = {}, options?: CallOptions) {
    return this.call('examine', { query }, options);
  }
}

/** With a login: what arrived while `DELIVERY_MODE` is `sandbox`. */
export class SandboxMessages extends Resource {
  list(query: requests.PageQuery = {}, options?: CallOptions) {
    return this.call('listSandboxMessages', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getSandboxMessage', { param: id }, options);
  }
}

/** In a browser, which keeps the login in a cookie that no script can read. */
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

/** Without a credential: whether it works, and what it can do. */
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

  /** What its button does. */
  unsubscribe(token: string, options?: CallOptions) {
    return this.call('unsubscribe', { param: token }, options);
  }
}
