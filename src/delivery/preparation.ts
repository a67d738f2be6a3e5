import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FreshBodies } from '../core/fresh-bodies.ts';
import type { OutgoingEmail } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import { objectionTo } from './attempt.ts';
import { EmailsAhead } from './emails-ahead.ts';
import type { MessageBuilder } from './message.ts';
import { ruleAll } from './room.ts';
import type { Started } from './slots.ts';
import type { Closed, Source, SourceAddresses } from './source-addresses.ts';

const preparedAtOnce = 100;

/** So many are begun ahead in one go: a hundred would hold everything else up for as long as they take to build. */
const begunAtOnce = 16;

/** A claim whose turn it is, with its slot. */
export interface Ready {
  claim: Claim;
  started: Started;
}

/** What comes of those that are prepared. */
interface Outcomes {
  /** @param email none when it does not exist any more */
  run(ready: Ready, email: OutgoingEmail | undefined, source: Source | null): void;
  /** There is no room in its pool. */
  keepBack(ready: Ready, email: OutgoingEmail, closed: Closed): void;
  /** The database is away: they have not begun. */
  handBack(some: Ready[]): void;
  /** The claims behind these whose turn comes soon, about so many. */
  behind(some: Ready[], many: number): Claim[];
}

/**
 * Brings what attempts need: the emails of all claims that became ready together, with one statement, and what they leave
 * from. While those are on their way it has the messages loaded and built that are next, so that no connection waits for the
 * database or for a signature.
 */
export class Preparation {
  readonly #emails: EmailsAhead;
  readonly #messages: MessageBuilder;
  readonly #sources: SourceAddresses;
  readonly #log: Logger;
  readonly #outcomes: Outcomes;
  #ready: Ready[] = [];
  #running = false;

  constructor(
    db: Database,
    { messages, log, fresh }: { messages: MessageBuilder; log: Logger; fresh?: FreshBodies },
    sources: SourceAddresses,
    outcomes: Outcomes,
  ) {
    this.#emails = new EmailsAhead(db, fresh);
    this.#messages = messages;
    this.#sources = sources;
    this.#log = log;
    this.#outcomes = outcomes;
  }

  add(ready: Ready): void {
    this.#ready.push(ready);
    if (!this.#running) void this.#prepareAll();
  }

  async #prepareAll(): Promise<void> {
    this.#running = true;
    await nextTurn();
    while (this.#ready.length > 0) {
      const some = this.#ready.splice(0, preparedAtOnce);
      void this.#lookAhead(some);
      // Whose email is at hand waits for no other's.
      const { atHand = [], missing = [] } = Object.groupBy(some, ({ claim }) =>
        this.#emails.has(claim) ? 'atHand' : 'missing',
      );
      if (atHand.length > 0) await this.#prepare(atHand);
      if (missing.length > 0) await this.#prepare(missing);
    }
    this.#running = false;
  }

  /** Has what comes behind these loaded and built before its turn. */
  async #lookAhead(some: Ready[]): Promise<void> {
    const came = await this.#emails.readAhead(this.#outcomes.behind(some, this.#emails.depth));
    for (const [index, claim] of came.entries()) {
      if (index % begunAtOnce === begunAtOnce - 1) await nextTurn();
      this.#begin(claim);
    }
  }

  async #prepare(some: Ready[]): Promise<void> {
    const claims = some.map(({ claim }) => claim);
    try {
      const emails = await this.#emails.load(claims);
      const rulings = await ruleAll(this.#sources, this.#messages, claims, emails);
      for (const [index, ready] of some.entries()) {
        const email = emails.get(ready.claim.emailId);
        const ruling = rulings[index] ?? { source: null };
        if ('source' in ruling) this.#outcomes.run(ready, email, ruling.source);
        else if (email) this.#outcomes.keepBack(ready, email, ruling.closed);
      }
    } catch (error) {
      this.#log.warn(
        { error: (error as Error).message },
        'emails could not be made ready; their claims are handed back',
      );
      this.#outcomes.handBack(some);
    }
  }

  #begin(claim: Claim): void {
    const email = this.#emails.at(claim);
    const [reader] = claim.recipients;
    if (!email?.signing || !reader || objectionTo(email) !== null) return;
    this.#messages.begin(email, email.signing, this.#messages.isPersonal(email) ? reader : null);
  }
}
