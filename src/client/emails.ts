import { SendwrightError } from './errors.ts';
import type * as requests from './requests.ts';
import { Resource } from './resources.ts';
import type { CallOptions, SendOptions } from './transport.ts';
import type { AccountEmail, DryRun, Email, ListedEmail } from './types.ts';

/** `limit` is then the size of the pages. */
type WholeLog<Query> = Omit<Query, 'offset'>;

/** Goes from page to page. What is sent meanwhile is newer than where it began, and does not show up. */
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

/** With an API key or a login. */
export class Emails extends Resource {
  /** Sends one email, once, however often it has to be tried. */
  async send(email: requests.SendRequest, options?: SendOptions): Promise<{ email: Email }> {
    return (await this.call('sendEmail', { body: email }, options)) as { email: Email };
  }

  /** Sends up to 1,000, each accepted or refused on its own: those that were not are in `errors`. */
  sendBatch(emails: requests.SendRequest[], options?: SendOptions) {
    return this.call('sendBatch', { body: { emails } }, options);
  }

  /** What would become of it. Nothing is sent. */
  async dryRun(email: requests.SendRequest, options?: CallOptions): Promise<DryRun> {
    return (await this.call('sendEmail', { body: email, query: { dry_run: 'true' } }, options)) as DryRun;
  }

  /** One page, newest first. */
  list(query: requests.ListEmailsQuery = {}, options?: CallOptions) {
    return this.call('listEmails', { query }, options);
  }

  /** All that match, newest first, page by page as they are asked for. */
  all(
    query: WholeLog<requests.ListEmailsQuery> = {},
    options?: CallOptions,
  ): AsyncGenerator<ListedEmail, void, undefined> {
    return pages((page) => this.list(page, options), query);
  }

  /** With where each recipient is. */
  get(id: string, options?: CallOptions) {
    return this.call('getEmail', { param: id }, options);
  }

  /** Every SMTP attempt, with the server's full reply. */
  attempts(id: string, options?: CallOptions) {
    return this.call('listAttempts', { param: id }, options);
  }

  /** What it says. */
  content(id: string, options?: CallOptions) {
    return this.call('getEmailContent', { param: id }, options);
  }

  /** Why it is where it is, and what happens next. */
  explain(id: string, options?: CallOptions) {
    return this.call('explainEmail', { param: id }, options);
  }

  /** Ends one that waits for its time. */
  async cancel(id: string, options?: CallOptions): Promise<{ email: Email }> {
    try {
      return await this.call('cancelEmail', { param: id }, options);
    } catch (error) {
      // Where the answer to the first attempt was lost, the second finds an email that does not wait any more.
      if (!(error instanceof SendwrightError && error.status === 409 && error.attempts > 1)) throw error;
      const { email } = await this.get(id, options);
      if (email.status !== 'canceled') throw error;
      return { email };
    }
  }

  /** Says what became of one that is held because it may have arrived, or sends it again; a `conflict` where it is not held. */
  release(id: string, body: requests.ReleaseEmailBody, options?: CallOptions) {
    return this.call('releaseEmail', { param: id, body }, options);
  }

  /** Gives up those recipients who wait; a `conflict` where nobody does. */
  stop(id: string, options?: CallOptions) {
    return this.call('stopEmail', { param: id }, options);
  }

  /** Sends another with the same content to the same recipients, or to those of them that are named. */
  resend(
    id: string,
    { recipients, ...options }: requests.ResendEmailBody & SendOptions = {},
  ): Promise<{ email: Email }> {
    // What names nobody is refused by the service: it is not to go to all.
    const body = recipients === undefined ? {} : { recipients };
    return this.call('resendEmail', { param: id, body }, options);
  }

  /** Gives one that waits for its time another one. */
  reschedule(id: string, body: requests.RescheduleEmailBody, options?: CallOptions) {
    return this.call('rescheduleEmail', { param: id, body }, options);
  }
}

/** With the login of an operator of the server: the log of all accounts. */
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
