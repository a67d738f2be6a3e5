import * as keys from '../core/keys.ts';
import { type Database, isUnavailable } from '../db/client.ts';
import { ApiError } from '../errors.ts';
import { networkOf } from '../ip.ts';
import { TokenBuckets } from '../rate-limit.ts';
import { notNow, Refusal } from './refusal.ts';
import { badCredentials } from './submission-replies.ts';

/** Failed logins of one network: ten at once, and ten more in 15 minutes. */
const failures = { perSecond: 10 / (15 * 60), burst: 10 };
const mostOfConnection = 3;

/** Logs clients in with an API key as the password. */
export class SubmissionLogin {
  readonly #db: Database;
  readonly #failures = new TokenBuckets(failures);

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Whether a connection may try again after this many failed logins, the last one counted in: three times, but only once
   * where many failed from its network lately. A good key is let in nevertheless, or one forgotten program with an old key
   * would keep all others of its host out.
   */
  mayTryAgain(failed: number, address: string): boolean {
    return this.#failures.take(networkOf(address)).waitSeconds === 0 && failed < mostOfConnection;
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
      if (error instanceof Refusal) throw error;
      if (error instanceof ApiError && error.status === 403) throw badCredentials('the account is suspended');
      if (error instanceof ApiError) throw badCredentials('the password must be an API key that is valid');
      throw isUnavailable(error) ? notNow() : error;
    }
  }
}
