import { load, type OutgoingEmail, type Wanted } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Database } from '../db/client.ts';

/** Of the claims behind those whose turn it is. */
export const aheadAtOnce = 50;
const mostAhead = 1_000;

/** What was read longer ago is read again: a domain, a key or an account may have ended meanwhile. */
const freshMs = 1_000;

/**
 * Loads emails for the claims whose turn it is, with one statement for all of them. It brings along what will be wanted
 * next, so that most find their email at hand and a connection does not wait for the database between two messages.
 */
export class EmailsAhead {
  readonly #db: Database;
  readonly #read = new Map<string, { email: OutgoingEmail; at: number }>();

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * @param next claims whose turn comes soon; large emails among them are left for later
   * @returns the emails of `claims` that exist
   */
  async load(claims: Claim[], next: Claim[]): Promise<Map<string, OutgoingEmail>> {
    const now = performance.now();
    const emails = new Map<string, OutgoingEmail>();
    const wanted = new Map<string, Wanted>();
    for (const claim of claims) {
      const id = claim.emailId;
      const known = this.#read.get(id);
      const tried = wasTried(claim);
      if (known && now - known.at < freshMs && !tried) emails.set(id, known.email);
      else wanted.set(id, { id, tried: tried || wanted.get(id)?.tried === true, ahead: false });
    }
    for (const { emailId } of claims) this.#read.delete(emailId);
    if (wanted.size === 0) return emails;
    for (const claim of next) {
      const id = claim.emailId;
      if (!wasTried(claim) && !wanted.has(id) && !this.#read.has(id)) wanted.set(id, { id, tried: false, ahead: true });
    }
    for (const [id, email] of await load(this.#db, [...wanted.values()])) {
      if (wanted.get(id)?.ahead) this.#read.set(id, { email, at: now });
      else emails.set(id, email);
    }
    for (const id of this.#read.keys()) {
      if (this.#read.size <= mostAhead) break;
      this.#read.delete(id);
    }
    return emails;
  }

  /** The email of a claim whose turn has not come yet, where it is at hand. */
  at({ emailId }: Claim): OutgoingEmail | undefined {
    return this.#read.get(emailId)?.email;
  }
}

const wasTried = ({ recipients }: Claim) => recipients.some(({ attempts }) => attempts > 0);
