import { BoundedMap } from '../../bounded-map.ts';
import { loadDue, loadSuppressed } from '../../core/outgoing/outgoing.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Database } from '../../db/client.ts';
import { timeOf } from '../../ids.ts';
import type { Delivery } from '../../smtp/deliver.ts';
import type { Failure } from '../../smtp/replies/result.ts';
import {
  type AttemptedEmail,
  type AttemptRecord,
  isSuppressed,
  type RetryRules,
  record,
} from '../outcome/attempt-record.ts';
import type { Judgment } from '../outcome/outcome.ts';
import { isOver, soonestMs } from '../outcome/schedule.ts';
import type { Source } from '../pools/source-addresses.ts';
import { unasked } from './attempt.ts';

/** Claims that found no room are parked in so many groups: the first for `againMs`, the others spread over `spreadMs` after it. */
const groups = 4;
const againMs = 30_000;
const spreadMs = 60_000;

/** For how long a destination that was not reached counts as such for other mail to it, in ms. */
const speaksMs = 45_000;
const mostRemembered = 10_000;

/** An attempt that did not reach its destination. */
interface Unreached {
  /** By the database's clock; `heardAt` is by one that does not jump. */
  begunAt: Date;
  heardAt: number;
  reason: string;
}

/** A claim whose time is over. */
interface Over {
  claim: Claim;
  email: AttemptedEmail;
}

/** What becomes of claims whose site is in back-off. */
export interface Sorted {
  /** To be begun, as many as there is room for. */
  now: Claim[];
  /** Claims whose result is known without an attempt. */
  known: { claim: Claim; outcome: AttemptRecord }[];
  /** To be looked at again in `ms`: claims that found no room, and those whose time is not over. */
  later: { ms: number; claims: Claim[] }[];
}

/**
 * Last tries for mail whose time is over while its site is in back-off. It is tried all the same, a few at a time, as no
 * email ends without a try. If one finds the destination unreachable, that holds for the others to the same destination.
 */
export class LastTries {
  readonly #db: Database;
  readonly #rules: RetryRules;
  readonly #now: () => number;
  readonly #speaksMs: number;
  readonly #unreached = new BoundedMap<string, Unreached>(mostRemembered);

  /** @param now milliseconds on a clock that does not jump */
  constructor(db: Database, rules: RetryRules, now: () => number = () => performance.now()) {
    this.#db = db;
    this.#rules = rules;
    this.#now = now;
    // Mail that was kept back gets a second try (see `nextAttempt`), which the result of its own first must not answer.
    this.#speaksMs = Math.min(speaksMs, soonestMs(rules.policy));
  }

  /**
   * Remembers what an attempt says about its destination, for mail that leaves from the same addresses.
   *
   * @param source what it left from: if addresses of one family were left out, mail that has them may get through
   */
  heard(
    destination: string,
    { verdict, reply, attempts }: Judgment & Pick<AttemptRecord, 'attempts'>,
    source: Pick<Source, 'closed'> | null,
  ): void {
    this.#unreached.delete(destination);
    const [first] = attempts;
    if (verdict !== 'unreachable' || !first || source?.closed) return;
    this.#unreached.set(destination, { begunAt: first.at, heardAt: this.#now(), reason: reply });
  }

  /**
   * Sorts claims by whether their time is over. It begins when an email is due, which for a scheduled one is long after it was
   * accepted. If the due times cannot be read, none is over, and all are looked at again later.
   *
   * @param room how many may be begun; called once the claims are sorted
   * @param backMs until the site is tried again
   */
  async sort(claims: Claim[], backMs: number, room: () => number): Promise<Sorted> {
    const over = await this.#findOver(claims);
    const { known, open } = await this.#answer(over);
    const now = open.slice(0, room());
    const ended = new Set(over.map(({ claim }) => claim));
    const notOver = claims.filter((claim) => !ended.has(claim));
    const later = [...spreadOut(open.slice(now.length), backMs), { ms: backMs, claims: notOver }];
    return { now, known, later: later.filter(({ claims }) => claims.length > 0) };
  }

  async #findOver(claims: Claim[]): Promise<Over[]> {
    const { policy, clock } = this.#rules;
    // No email is due before it is accepted, so only the old ones' due times have to be read.
    const old = claims.filter(({ emailId }) => isOver(policy, timeOf(emailId), clock.now()));
    const emails = await this.#read(old, loadDue);
    return old.flatMap((claim) => {
      const email = emails.get(claim.emailId);
      return email && isOver(policy, email.dueAt, clock.now()) ? [{ claim, email }] : [];
    });
  }

  /** The claims whose result is known, and those that need an attempt. */
  async #answer(over: Over[]): Promise<{ known: Sorted['known']; open: Claim[] }> {
    const known: Sorted['known'] = [];
    const open: Claim[] = [];
    const unreached: (Over & { tried: Unreached })[] = [];
    for (const one of over) {
      const tried = this.#triedFor(one);
      if (tried) unreached.push({ ...one, tried });
      else open.push(one.claim);
    }
    const claims = unreached.map(({ claim }) => claim);
    const suppressed = await this.#read(claims, loadSuppressed);
    for (const { claim, email, tried } of unreached) {
      const current = { suppressed: suppressed.get(claim.emailId) ?? new Set<string>() };
      // The attempt asks no server for a recipient who was suppressed meanwhile, and says so.
      if (claim.recipients.some(({ address }) => isSuppressed(current, address))) open.push(claim);
      else known.push({ claim, outcome: record(this.#rules, claim, asTried(claim, tried), email, null) });
    }
    return { known, open };
  }

  /** The last attempt that did not reach the destination, if it is recent and began when the claim's time was over. */
  #triedFor({ claim, email }: Over): Unreached | null {
    const last = this.#unreached.get(claim.destination);
    if (!last || this.#now() - last.heardAt >= this.#speaksMs) return null;
    return isOver(this.#rules.policy, email.dueAt, last.begunAt) ? last : null;
  }

  async #read<Value>(claims: Claim[], load: (db: Database, ids: string[]) => Promise<Map<string, Value>>) {
    if (claims.length === 0) return new Map<string, Value>();
    return load(this.#db, [...new Set(claims.map(({ emailId }) => emailId))]).catch(() => new Map<string, Value>());
  }
}

/** Divides claims that found no room into groups that come back one after the other, the last within `mostMs`. */
function spreadOut(claims: Claim[], mostMs: number): Sorted['later'] {
  const each = Math.ceil(claims.length / groups);
  return Array.from({ length: groups }, (_, at) => ({
    ms: Math.min(againMs + (at * spreadMs) / groups, mostMs),
    claims: claims.slice(at * each, (at + 1) * each),
  }));
}

/** The result that this claim gets from an attempt that was made for other mail. */
function asTried({ destination, recipients }: Claim, { begunAt, reason: said }: Unreached): Delivery {
  const reason = `Not tried by itself, as its time was over when mail to ${destination} was tried at ${begunAt.toISOString()}: ${said}`;
  const addresses = recipients.map(({ address }) => address);
  const failure: Failure = {
    phase: 'connect',
    reply: null,
    reason,
    enhanced: null,
    class: 'network',
    permanent: false,
  };
  return unasked(addresses, failure, begunAt);
}
