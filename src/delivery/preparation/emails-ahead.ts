import type { FreshBodies } from '../../core/emails/fresh-bodies.ts';
import { load, type OutgoingEmail, type Wanted } from '../../core/outgoing/outgoing.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Database } from '../../db/client.ts';

const mostAhead = 1_000;

/** How many emails that go out soon are read ahead, over all sites: fewer if they are large. */
const deepest = 300;
const shallowest = 40;

/** Most characters to read ahead: reading and building them in one go holds up everything else. */
const heaviest = 4_000_000;

/** An email read longer ago is read again: a domain, a key or an account may have ended meanwhile. */
const recentMs = 1_000;

/**
 * Loads the emails of all claims whose turn it is with one statement, and those of the next claims ahead of their turn, so
 * that most find their email at hand and no connection waits for the database between two messages.
 */
export class EmailsAhead {
  readonly #db: Database;
  readonly #bodies: FreshBodies;
  /** An entry without an email is not loaded before its turn. */
  readonly #read = new Map<string, { email: OutgoingEmail | undefined; at: number }>();
  #reading: { ids: ReadonlySet<string>; done: Promise<void> } | null = null;
  #depth = deepest;

  /** @param fresh bodies of emails that this process has accepted */
  constructor(db: Database, fresh: FreshBodies) {
    this.#db = db;
    this.#bodies = fresh;
  }

  /** How many claims to look ahead, if their emails are as large as those read last. */
  get depth(): number {
    return this.#depth;
  }

  /** Whether this claim need not wait for its email. */
  has(claim: Claim): boolean {
    return !wasTried(claim) && this.#recent(claim)?.email !== undefined;
  }

  /** The emails of `claims` that exist. */
  async load(claims: Claim[]): Promise<Map<string, OutgoingEmail>> {
    if (claims.some(({ emailId }) => this.#reading?.ids.has(emailId))) await this.#reading?.done;
    const emails = new Map<string, OutgoingEmail>();
    const wanted = new Map<string, Wanted>();
    for (const claim of claims) {
      const id = claim.emailId;
      const tried = wasTried(claim);
      const email = tried ? undefined : this.#recent(claim)?.email;
      if (email) emails.set(id, email);
      else wanted.set(id, { id, tried: tried || wanted.get(id)?.tried === true, ahead: false });
    }
    for (const { emailId } of claims) this.#read.delete(emailId);
    if (wanted.size > 0) {
      for (const [id, email] of await load(this.#db, [...wanted.values()], this.#bodies)) emails.set(id, email);
    }
    return emails;
  }

  /**
   * Loads the missing emails of claims whose turn comes soon, if at least half are missing; large emails are left for their
   * turn. Does nothing while an earlier call is under way.
   *
   * @returns the claims whose emails were loaded; does not throw, as whoever needs one asks again
   */
  async readAhead(next: Claim[]): Promise<Claim[]> {
    if (this.#reading) return [];
    const missing = next.filter((claim) => !wasTried(claim) && !this.#recent(claim));
    if (missing.length === 0 || missing.length * 2 < next.length) return [];
    const ids = new Set(missing.map(({ emailId }) => emailId));
    const done = this.#readAll(ids);
    this.#reading = { ids, done };
    await done;
    this.#reading = null;
    return missing.filter((claim) => this.has(claim));
  }

  async #readAll(ids: ReadonlySet<string>): Promise<void> {
    const at = performance.now();
    const wanted = [...ids].map((id) => ({ id, tried: false, ahead: true }));
    const emails = await load(this.#db, wanted, this.#bodies).catch(() => null);
    if (!emails) return;
    this.#depth = depthFor([...emails.values()]);
    for (const id of ids) {
      this.#read.delete(id);
      this.#read.set(id, { email: emails.get(id), at });
    }
    for (const [id, known] of this.#read) {
      if (this.#read.size <= mostAhead && at - known.at < recentMs) break;
      this.#read.delete(id);
    }
  }

  /** The email of a claim whose turn has not come yet, if it is at hand. */
  at({ emailId }: Claim): OutgoingEmail | undefined {
    return this.#read.get(emailId)?.email;
  }

  #recent({ emailId }: Claim) {
    const known = this.#read.get(emailId);
    return known && performance.now() - known.at < recentMs ? known : undefined;
  }
}

function depthFor(emails: OutgoingEmail[]): number {
  if (emails.length === 0) return deepest;
  const characters = emails.reduce((sum, { html, text }) => sum + (html?.length ?? 0) + (text?.length ?? 0), 0);
  const most = Math.floor((heaviest * emails.length) / Math.max(characters, 1));
  return Math.min(Math.max(most, shallowest), deepest);
}

const wasTried = ({ recipients }: Claim) => recipients.some(({ attempts }) => attempts > 0);
