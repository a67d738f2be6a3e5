import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FreshBodies } from '../../core/emails/fresh-bodies.ts';
import { objectionTo } from '../../core/outgoing/objection.ts';
import { load, type OutgoingEmail, unbounded } from '../../core/outgoing/outgoing.ts';
import { isPersonal } from '../../core/outgoing/outgoing-message.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Database } from '../../db/client.ts';
import { isAway } from '../../db/errors.ts';
import type { Logger } from '../../log.ts';
import { memoryBytes } from '../../memory.ts';
import type { Lease } from '../claims/lease.ts';
import type { MessageBuilder } from '../message/message.ts';
import type { RetryRules } from '../outcome/attempt-record.ts';
import { isOver } from '../outcome/schedule.ts';
import type { Choice, Closed, Source, SourceAddresses } from '../pools/source-addresses.ts';
import type { Slot } from '../sites/slots.ts';
import { EmailsAhead } from './emails-ahead.ts';
import { LargeEmails } from './large-emails.ts';
import { chooseSources } from './pool-room.ts';

const preparedAtOnce = 100;

/** How many messages are begun ahead in one turn: a hundred would hold up everything else while they are built. */
const builtAheadAtOnce = 16;

const megabyte = 1024 * 1024;

/**
 * Large emails wait only for others of their own lane, each with its own room in bytes: an invoice is not behind a film. A small
 * memory has less of it: a node that is killed for what it reads reads the same after each start.
 */
export const lanesIn = (memory: number) => [
  { upTo: 2 * megabyte, room: Math.min(64 * megabyte, memory / 32) },
  { upTo: Number.POSITIVE_INFINITY, room: Math.min(128 * megabyte, memory / 16) },
];

/** How long an unreadable email is parked. */
const unreadableMs = 60_000;

/** A claim whose turn it is, with its slot. */
export interface Ready {
  claim: Claim;
  slot: Slot;
}

/** What becomes of prepared claims, and which come next. */
interface Dispatching {
  /** @param email undefined if it no longer exists */
  run(ready: Ready, email: OutgoingEmail | undefined, source: Source | null): Promise<void> | void;
  /** The claim has to wait until `closed` opens. */
  park(ready: Ready, email: OutgoingEmail, closed: Closed): void;
  /** The claims cannot go now, for example because the database is away. */
  release(some: Ready[]): void;
  /** The claims after these whose turn comes soon, about `count`. */
  comingAfter(some: Ready[], count: number): Claim[];
}

interface Tools extends RetryRules {
  messages: MessageBuilder;
  lease: Pick<Lease, 'onHold'>;
  log: Logger;
  /** Bodies of emails that this process has accepted. */
  fresh: FreshBodies;
}

/** How emails of one kind, small or large, are prepared. */
interface How {
  load(claims: Claim[]): Promise<Map<string, OutgoingEmail>>;
  /** Called for each claim when its attempt is over, or was not made. */
  done?: (ready: Ready) => void;
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
  readonly #dispatching: Dispatching;
  readonly #small: How;
  readonly #lanes: { upTo: number; emails: LargeEmails<Ready> }[];
  #ready: Ready[] = [];
  #running = false;
  #stopping = false;

  constructor(db: Database, tools: Tools, sources: SourceAddresses, dispatching: Dispatching) {
    this.#db = db;
    this.#tools = tools;
    this.#emails = new EmailsAhead(db, tools.fresh);
    this.#sources = sources;
    this.#dispatching = dispatching;
    this.#small = { load: (claims) => this.#emails.load(claims) };
    const prepare = (some: Ready[], done: (ready: Ready) => void) =>
      this.#prepareLarge(some, { load: (claims) => this.#load(claims, unbounded), done });
    this.#lanes = lanesIn(memoryBytes()).map(({ upTo, room }) => ({ upTo, emails: new LargeEmails(room, prepare) }));
  }

  add(ready: Ready): void {
    this.#ready.push(ready);
    if (!this.#running) void this.#prepareAll();
  }

  /** From now on, large emails that wait for room are released once there is some. */
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

  /** Loads and builds what comes after these before its turn. */
  async #lookAhead(some: Ready[]): Promise<void> {
    const loaded = await this.#emails.readAhead(this.#dispatching.comingAfter(some, this.#emails.depth));
    for (const [index, claim] of loaded.entries()) {
      if (index % builtAheadAtOnce === builtAheadAtOnce - 1) await nextTurn();
      this.#buildAhead(claim);
    }
  }

  #buildAhead(claim: Claim): void {
    const email = this.#emails.at(claim);
    const [reader] = claim.recipients;
    if (!email?.signing || !reader || objectionTo(email) !== null) return;
    this.#tools.messages.buildAhead(email, email.signing, isPersonal(email) ? reader : null);
  }

  async #prepare(some: Ready[], how: How): Promise<void> {
    let emails: Map<string, OutgoingEmail>;
    try {
      emails = await how.load(some.map(({ claim }) => claim));
    } catch (error) {
      this.#prepareInHalves(some, how, error as Error);
      return;
    }
    const loaded = some.filter((ready) => !this.#divertLarge(ready, emails.get(ready.claim.emailId)));
    try {
      const claims = loaded.map(({ claim }) => claim);
      const choices = await chooseSources(this.#sources, claims, emails);
      for (const [index, ready] of loaded.entries())
        this.#handOver(ready, emails.get(ready.claim.emailId), choices[index] ?? { source: null }, how);
    } catch (error) {
      this.#release(loaded, how, error as Error);
    }
  }

  /** Prepares claims that have waited for room: sending may have been put on hold meanwhile. */
  async #prepareLarge(some: Ready[], how: How): Promise<void> {
    if (this.#stopping || this.#tools.lease.onHold) this.#release(some, how);
    else await this.#prepare(some, how);
  }

  #handOver(ready: Ready, email: OutgoingEmail | undefined, choice: Choice, { done }: How): void {
    if ('source' in choice) {
      const running = this.#dispatching.run(ready, email, choice.source);
      if (done) void Promise.resolve(running).then(() => done(ready));
    } else if (email) {
      this.#dispatching.park(ready, email, choice.closed);
      done?.(ready);
    }
  }

  /** Halves a batch that could not be loaded until what fails is alone. Nobody waits for this: each try may take as long. */
  #prepareInHalves(some: Ready[], how: How, error: Error): void {
    const [first, second] = some;
    if (isAway(error)) this.#release(some, how, error);
    else if (first && !second) void this.#parkUnreadable(first, how, error);
    else {
      const middle = some.length >> 1;
      for (const half of [some.slice(0, middle), some.slice(middle)]) void this.#prepare(half, how);
    }
  }

  /** Parks an email whose content cannot be read. */
  async #parkUnreadable(ready: Ready, how: How, error: Error): Promise<void> {
    const { log, clock } = this.#tools;
    const { emailId } = ready.claim;
    log.error({ emailId, error: error.message }, 'an email could not be read; it is tried again later');
    try {
      const email = (await this.#load([ready.claim], 0)).get(emailId);
      const opensAt = new Date(clock.now().getTime() + unreadableMs);
      const closed = { opensAt, reason: 'its content could not be read from the database' };
      this.#handOver(ready, email, email ? { closed } : { source: null }, how);
    } catch (error) {
      this.#release([ready], how, error as Error);
    }
  }

  /** @returns true if the email is large: it goes on in its lane, or is parked */
  #divertLarge(ready: Ready, email: OutgoingEmail | undefined): boolean {
    if (!email?.unread || objectionTo(email) !== null) return false;
    const { unread } = email;
    const { policy, clock } = this.#tools;
    const lane = this.#lanes.find(({ upTo }) => unread.bodies + unread.files <= upTo)?.emails;
    const now = clock.now();
    // An email whose time is over gets its last try now.
    if (lane?.isCrowdedFor(ready, email, unread) && !isOver(policy, email.dueAt, now)) {
      const closed = { opensAt: lane.backAt(unread, now), reason: 'large emails go a few at a time' };
      this.#dispatching.park(ready, email, closed);
    } else lane?.add(ready, email, unread);
    return true;
  }

  /** @param error why they could not be made ready, if that was tried */
  #release(some: Ready[], { done }: How, error?: Error): void {
    if (error)
      this.#tools.log.warn({ error: error.message }, 'emails could not be made ready; their claims are released');
    this.#dispatching.release(some);
    if (done) some.forEach(done);
  }

  /** As if all were tried before: large emails wait, and meanwhile a recipient may have been suppressed. */
  #load(claims: Claim[], most: number): Promise<Map<string, OutgoingEmail>> {
    const ids = new Set(claims.map(({ emailId }) => emailId));
    const wanted = [...ids].map((id) => ({ id, tried: true, ahead: false, most }));
    return load(this.#db, wanted, this.#tools.fresh);
  }
}
