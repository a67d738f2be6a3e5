import * as keys from '../core/accounts/keys.ts';
import type { Database } from '../db/client.ts';
import { isUnavailable } from '../db/errors.ts';
import { ApiError } from '../errors.ts';
import { networkOf } from '../ip.ts';
import { TokenBuckets } from '../pace/rate-limit.ts';
import { notNow, Refusal } from './refusal.ts';
import { badCredentials } from './submission-replies.ts';

/** Failed logins per network: a burst of ten, refilled at ten per 15 minutes. */
const failures = { perSecond: 10 / (15 * 60), burst: 10 };
/** How many times a connection may try to log in. */
const mostOfConnection = 3;

/** Logs clients in with an API key as the password. */
export class SubmissionLogin {
  readonly #db: Database;
  readonly #failures = new TokenBuckets(failures);

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Whether a connection may try again after this many failed logins, including the last: it has three attempts, or only one
   * if many have failed from its network lately. A valid key is always let in; otherwise one forgotten program with an old
   * key would lock out all others on its host.
   */
  mayTryAgain(failed: number, address: string): boolean {
    return this.#failures.take(networkOf(address)).waitSeconds === 0 && failed < mostOfConnection;
  }

  /**
   * Who holds the key, according to the database now: the key may have ended after the connection logged in.
   *
   * @throws Refusal 535, or 451 when the database is away
   */
  async holderOf(key: string | null | undefined): Promise<keys.KeyHolder> {
    try {
      const holder = await keys.authenticate(this.#db, key ?? undefined);
      if (!holder.scopes.has('send'))
        throw badCredentials('this API key lacks the scope send: use another key, or create one with this scope');
      return holder;
    } catch (error) {
      if (error instanceof Refusal) throw error;
      if (error instanceof ApiError && error.status === 403) throw badCredentials('the account is suspended');
      if (error instanceof ApiError) throw badCredentials('the password must be a valid API key');
      throw isUnavailable(error) ? notNow() : error;
    }
  }
}
