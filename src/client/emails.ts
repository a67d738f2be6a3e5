import { SendwrightError } from './errors.ts';
import type * as requests from './requests.ts';
import { Resource, untilNoneRests } from './resources.ts';
import type { CallOptions, SendOptions } from './transport.ts';
import type { AccountEmail, DryRun, Email, ListedEmail } from './types.ts';

/** The filters of a list, without an offset; `limit` is the page size. */
type WholeLog<Query> = Omit<Query, 'offset'>;

/** Goes from page to page. Emails sent meanwhile are newer than the first page, and are not included. */
async function* pages<One, Query extends { cursor?: string }>(
  list: (query: Query) => Promise<{ emails: One[]; next_cursor: string | null }>,
  query: Query,
): AsyncGenerator<One, void, undefined> {
  for (let next: Query | null = { limit: 100, ...query }; next; ) {
    const page: { emails: One[]; next_cursor: string | null } = await list(next);
    yield* page.emails;
    next = page.next_cursor === null ? null : { ...next, cursor: page.next_cursor };
  }
}

/** Requires an API key or a login. */
export class Emails extends Resource {
  /** Sends one email, exactly once however often the call is retried. */
  async send(email: requests.SendRequest, options?: SendOptions): Promise<{ email: Email }> {
    return (await this.call('sendEmail', { body: email }, options)) as { email: Email };
  }

  /** Sends up to 1,000 emails. Each is accepted or refused on its own; the refused ones are in `errors`. */
  sendBatch(emails: requests.SendRequest[], options?: SendOptions) {
    return this.call('sendBatch', { body: { emails } }, options);
  }

  /** Returns what would happen to the email, and sends nothing. */
  async dryRun(email: requests.SendRequest, options?: CallOptions): Promise<DryRun> {
    return (await this.call('sendEmail', { body: email, query: { dry_run: 'true' } }, options)) as DryRun;
  }

  /** One page, newest first. */
  list(query: requests.ListEmailsQuery = {}, options?: CallOptions) {
    return this.call('listEmails', { query }, options);
  }

  /** All matching emails, newest first. Pages are requested as they are needed. */
  all(
    query: WholeLog<requests.ListEmailsQuery> = {},
    options?: CallOptions,
  ): AsyncGenerator<ListedEmail, void, undefined> {
    return pages((page) => this.list(page, options), query);
  }

  /** One email, with the status of each recipient. */
  get(id: string, options?: CallOptions) {
    return this.call('getEmail', { param: id }, options);
  }

  /** Every SMTP attempt, with the server's full reply. */
  attempts(id: string, options?: CallOptions) {
    return this.call('listAttempts', { param: id }, options);
  }

  /** The content of the email. */
  content(id: string, options?: CallOptions) {
    return this.call('getEmailContent', { param: id }, options);
  }

  /** Why it has its status, and what happens next. */
  explain(id: string, options?: CallOptions) {
    return this.call('explainEmail', { param: id }, options);
  }

  /** Cancels a scheduled email. */
  async cancel(id: string, options?: CallOptions): Promise<{ email: Email }> {
    try {
      return await this.call('cancelEmail', { param: id }, options);
    } catch (error) {
      // If the answer to the first attempt was lost, the second one finds that the email no longer waits.
      if (!(error instanceof SendwrightError && error.status === 409 && error.attempts > 1)) throw error;
      const { email } = await this.get(id, options);
      if (email.status !== 'canceled') throw error;
      return { email };
    }
  }

  /** Settles a held email as delivered or failed, or sends it again; a `conflict` if it is not held. */
  release(id: string, body: requests.ReleaseEmailBody, options?: CallOptions) {
    return this.call('releaseEmail', { param: id, body }, options);
  }

  /** Gives up the recipients that wait; a `conflict` if none does. */
  stop(id: string, options?: CallOptions) {
    return this.call('stopEmail', { param: id }, options);
  }

  /**
   * Stops all waiting emails that match: recipients that wait fail for good, and scheduled emails are canceled. Repeats the
   * call until nothing is left that it had no time for.
   */
  stopMatching(body: requests.StopEmailsBody, options?: CallOptions) {
    return untilNoneRests(
      () => this.call('stopEmails', { body }, options),
      (before, last) => ({
        ...last,
        stopped: before.stopped + last.stopped,
        canceled: before.canceled + last.canceled,
      }),
    );
  }

  /** Sends a new email with the same content to the same recipients, or to the given ones of them. */
  resend(
    id: string,
    { recipients, ...options }: requests.ResendEmailBody & SendOptions = {},
  ): Promise<{ email: Email }> {
    // An empty list is passed on: the service refuses it, whereas omitting it would send to all.
    const body = recipients === undefined ? {} : { recipients };
    return this.call('resendEmail', { param: id, body }, options);
  }

  /** Changes the time of a scheduled email. */
  reschedule(id: string, body: requests.RescheduleEmailBody, options?: CallOptions) {
    return this.call('rescheduleEmail', { param: id, body }, options);
  }
}

/** The log of all accounts. Requires the login of an operator of the server. */
export class AllEmails extends Resource {
  list(query: requests.ListAllEmailsQuery = {}, options?: CallOptions) {
    return this.call('listAllEmails', { query }, options);
  }

  all(
    query: WholeLog<requests.ListAllEmailsQuery> = {},
    options?: CallOptions,
  ): AsyncGenerator<AccountEmail, void, undefined> {
    return pages((page) => this.list(page, options), query);
  }
}
