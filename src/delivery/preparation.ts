import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import { load, type OutgoingEmail, unbounded } from '../core/outgoing/outgoing.ts';
import { isPersonal } from '../core/outgoing/outgoing-message.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import { type Database, isAway } from '../db/client.ts';
import type { Logger } from '../log.ts';
import { objectionTo } from './attempt.ts';
import type { Judgement } from './attempt-record.ts';
import { EmailsAhead } from './emails-ahead.ts';
import { LargeEmails } from './large-emails.ts';
import type { Lease } from './lease.ts';
import type { MessageBuilder } from './message.ts';
import { ruleAll } from './room.ts';
import { isOver } from './schedule.ts';
import type { Started } from './slots.ts';
import type { Closed, Ruling, Source, SourceAddresses } from './source-addresses.ts';

const preparedAtOnce = 100;

/** How many messages are begun ahead in one go: a hundred would hold up everything else while they are built. */
const begunAtOnce = 16;

const megabyte = 1024 * 1024;

/** Large emails wait only for others of their own lane, each with its own room in bytes: an invoice is not behind a film. */
const lanes = [
  { upTo: 2 * megabyte, room: 64 * megabyte },
  { upTo: Number.POSITIVE_INFINITY, room: 128 * megabyte },
];

/** How long an unreadable email is left alone. */
const unreadableMs = 60_000;

/** A claim whose turn it is, with its slot. */
export interface Ready {
  claim: Claim;
  started: Started;
}

/** What becomes of prepared claims. */
interface Outcomes {
  /** @param email undefined if it no longer exists */
  run(ready: Ready, email: OutgoingEmail | undefined, source: Source | null): Promise<void> | void;
  /** The claim has to wait until `closed` opens. */
  keepBack(ready: Ready, email: OutgoingEmail, closed: Closed): void;
  /** They have not begun, for example because the database is away. */
  handBack(some: Ready[]): void;
  /** The claims behind these whose turn comes soon, about `many`. */
  behind(some: Ready[], many: number): Claim[];
}

interface Tools extends Judgement {
  messages: MessageBuilder;
  lease: Pick<Lease, 'onHold'>;
  log: Logger;
  fresh?: FreshBodies;
}

/** How emails are prepared. */
interface How {
  load(claims: Claim[]): Promise<Map<string, OutgoingEmail>>;
  /** Called for each claim once it is no longer in hand. */
  gone?: (ready: Ready) => void;
}

/**
 * Provides what attempts need: the emails of all claims that became ready together, loaded with one statement, and the
 * addresses they leave from. While those go out, it loads and builds the next messages, so that no connection waits for the
 * database or for a signature. Large emails are handled apart, and an unreadable one holds up nothing else.
 */
export class Preparation {
  readonly #db: Database;
  readonly #tools: Tools;
  readonly #emails: EmailsAhead;
  readonly #sources: SourceAddresses;
  readonly #outcomes: Outcomes;
  readonly #small: How;
  readonly #lanes: { upTo: number; emails: LargeEmails<Ready> }[];
  #ready: Ready[] = [];
  #running = false;
  #stopping = false;

  constructor(db: Database, tools: Tools, sources: SourceAddresses, outcomes: Outcomes) {
    this.#db = db;
    this.#tools = tools;
    this.#emails = new EmailsAhead(db, tools.fresh);
    this.#sources = sources;
    this.#outcomes = outcomes;
    this.#small = { load: (claims) => this.#emails.load(claims) };
    const prepare = (some: Ready[], gone: (ready: Ready) => void) =>
      this.#prepareLarge(some, { load: (claims) => this.#load(claims, unbounded), gone });
    this.#lanes = lanes.map(({ upTo, room }) => ({ upTo, emails: new LargeEmails(room, prepare) }));
  }

  add(ready: Ready): void {
    this.#ready.push(ready);
    if (!this.#running) void this.#prepareAll();
  }

  /** From now on, claims that wait for room are handed back once there is some. */
  stop(): void {
    this.#stopping = true;
  }

  async #prepareAll(): Promise<void> {
    this.#running = true;
    await nextTurn();
    while (this.#ready.length > 0) {
      const some = this.#ready.splice(0, preparedAtOnce);
      void this.#lookAhead(some);
      // Claims whose email is at hand do not wait for the others.
      const { atHand = [], missing = [] } = Object.groupBy(some, ({ claim }) =>
        this.#emails.has(claim) ? 'atHand' : 'missing',
      );
      if (atHand.length > 0) await this.#prepare(atHand, this.#small);
      if (missing.length > 0) await this.#prepare(missing, this.#small);
    }
    this.#running = false;
  }

  /** Loads and builds what comes behind these before its turn. */
  async #lookAhead(some: Ready[]): Promise<void> {
    const came = await this.#emails.readAhead(this.#outcomes.behind(some, this.#emails.depth));
    for (const [index, claim] of came.entries()) {
      if (index % begunAtOnce === begunAtOnce - 1) await nextTurn();
      this.#begin(claim);
    }
  }

  async #prepare(some: Ready[], how: How): Promise<void> {
    let emails: Map<string, OutgoingEmail>;
    try {
      emails = await how.load(some.map(({ claim }) => claim));
    } catch (error) {
      this.#prepareApart(some, how, error as Error);
      return;
    }
    const whole = some.filter((ready) => !this.#setApart(ready, emails.get(ready.claim.emailId)));
    try {
      const claims = whole.map(({ claim }) => claim);
      const rulings = await ruleAll(this.#sources, claims, emails);
      for (const [index, ready] of whole.entries())
        this.#goOn(ready, emails.get(ready.claim.emailId), rulings[index] ?? { source: null }, how);
    } catch (error) {
      this.#handBack(whole, how, error as Error);
    }
  }

  /** Prepares claims that have waited for room: sending may have been put on hold meanwhile. */
  async #prepareLarge(some: Ready[], how: How): Promise<void> {
    if (this.#stopping || this.#tools.lease.onHold) this.#handBack(some, how);
    else await this.#prepare(some, how);
  }

  #goOn(ready: Ready, email: OutgoingEmail | undefined, ruling: Ruling, { gone }: How): void {
    if ('source' in ruling) {
      const going = this.#outcomes.run(ready, email, ruling.source);
      if (gone) void Promise.resolve(going).then(() => gone(ready));
    } else if (email) {
      this.#outcomes.keepBack(ready, email, ruling.closed);
      gone?.(ready);
    }
  }

  /** Halves a batch that could not be loaded until what fails is alone. Nobody waits for this: each try may take as long. */
  #prepareApart(some: Ready[], how: How, error: Error): void {
    const [first, second] = some;
    if (isAway(error)) this.#handBack(some, how, error);
    else if (first && !second) void this.#putOff(first, how, error);
    else {
      const middle = some.length >> 1;
      for (const half of [some.slice(0, middle), some.slice(middle)]) void this.#prepare(half, how);
    }
  }

  /** Leaves an email alone for a while if its content cannot be read. */
  async #putOff(ready: Ready, how: How, error: Error): Promise<void> {
    const { log, clock } = this.#tools;
    const { emailId } = ready.claim;
    log.error({ emailId, error: error.message }, 'an email could not be read; it is tried again later');
    try {
      const email = (await this.#load([ready.claim], 0)).get(emailId);
      const opensAt = new Date(clock.now().getTime() + unreadableMs);
      const closed = { opensAt, reason: 'its content could not be read from the database' };
      this.#goOn(ready, email, email ? { closed } : { source: null }, how);
    } catch (error) {
      this.#handBack([ready], how, error as Error);
    }
  }

  /** @returns whether the email is large, and handled elsewhere */
  #setApart(ready: Ready, email: OutgoingEmail | undefined): boolean {
    if (!email?.unread || objectionTo(email) !== null) return false;
    const { unread } = email;
    const { policy, clock } = this.#tools;
    const lane = this.#lanes.find(({ upTo }) => unread.bodies + unread.files <= upTo)?.emails;
    const now = clock.now();
    // An email whose time is over gets its last try now.
    if (lane?.isCrowdedFor(ready, email, unread) && !isOver(policy, email.dueAt, now)) {
      const closed = { opensAt: lane.backAt(unread, now), reason: 'large emails go a few at a time' };
      this.#outcomes.keepBack(ready, email, closed);
    } else lane?.add(ready, email, unread);
    return true;
  }

  /** @param error why they could not be made ready, if that was tried */
  #handBack(some: Ready[], { gone }: How, error?: Error): void {
    if (error)
      this.#tools.log.warn({ error: error.message }, 'emails could not be made ready; their claims are handed back');
    this.#outcomes.handBack(some);
    if (gone) some.forEach(gone);
  }

  /** Large emails wait, so any of them may be for somebody who was suppressed meanwhile. */
  #load(claims: Claim[], most: number): Promise<Map<string, OutgoingEmail>> {
    const ids = new Set(claims.map(({ emailId }) => emailId));
    const wanted = [...ids].map((id) => ({ id, tried: true, ahead: false, most }));
    return load(this.#db, wanted, this.#tools.fresh);
  }

  #begin(claim: Claim): void {
    const email = this.#emails.at(claim);
    const [reader] = claim.recipients;
    if (!email?.signing || !reader || objectionTo(email) !== null) return;
    this.#tools.messages.begin(email, email.signing, isPersonal(email) ? reader : null);
  }
}
