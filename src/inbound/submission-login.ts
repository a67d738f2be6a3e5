import * as keys from '../core/keys.ts';
import { type Database, isUnavailable } from '../db/client.ts';
import { ApiError } from '../errors.ts';
import { TokenBuckets } from '../rate-limit.ts';
import { networkOf } from './connection-limit.ts';
import { badCredentials, notNow, Refusal } from './submission-replies.ts';

/** Failed logins of one address: ten at once, and ten more in 15 minutes. */
const failures = { perSecond: 10 / (15 * 60), burst: 10 };

/** Logs clients in with an API key as the password. Failures are counted by address, on this node. */
export class SubmissionLogin {
  readonly #db: Database;
  readonly #failures = new TokenBuckets(failures);

  constructor(db: Database) {
    this.#db = db;
  }

  /** @throws Refusal 535, or 454 when too many failed from this address or the database is away */
  async logIn(key: string | null | undefined, address: string): Promise<keys.KeyHolder> {
    const subject = networkOf(address);
    const seconds = this.#failures.waitSeconds(subject);
    if (seconds > 0)
      throw new Refusal(454, '4.7.0', `too many failed logins from this address: try again in ${seconds} s`);
    try {
      return await this.holderOf(key);
    } catch (error) {
      if (error instanceof Refusal && error.responseCode === 535) this.#failures.take(subject);
      throw error;
    }
  }

  /**
   * Who holds the key, as the database has it now: a connection may be older than the key's end.
   *
   * @throws Refusal 535, or 451 when the database is away
   */
  async holderOf(key: string | null | undefined): Promise<keys.KeyHolder> {
    try {
      const holder = await keys.authenticate(this.#db, key ?? undefined);
      if (!holder.scopes.has('send')) throw badCredentials('this API key lacks the scope send');
      return holder;
    } catch (error) {
      if (error instanceof ApiError && error.status === 403) throw badCredentials('the account is suspended');
      if (error instanceof ApiError) throw badCredentials('the password must be an API key that is valid');
      throw isUnavailable(error) ? notNow() : error;
    }
  }
}
