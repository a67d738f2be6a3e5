import { loadDue, loadSuppressed } from '../core/outgoing/outgoing.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';
import { timeOf } from '../ids.ts';
import type { Delivery } from '../smtp/deliver.ts';
import { type AttemptRecord, isSuppressed, type Judgement, record, type Settled } from './attempt-record.ts';
import { isOver, soonestMs } from './schedule.ts';
import type { Source } from './source-addresses.ts';

/** How long claims wait that found no room, and over how long their return is spread, in ms. */
const againMs = 30_000;
const spreadMs = 60_000;
const spreadOver = 4;

/** How long an attempt's result holds for other mail to its destination, in ms. */
const speaksMs = 45_000;
const mostRemembered = 10_000;

interface Unreached {
  /** By the database's clock; `heardAt` is by one that does not jump. */
  begunAt: Date;
  heardAt: number;
  reason: string;
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
  readonly #judgement: Judgement;
  readonly #now: () => number;
  readonly #speaksMs: number;
  readonly #unreached = new Map<string, Unreached>();

  /** @param now milliseconds on a clock that does not jump */
  constructor(db: Database, judgement: Judgement, now: () => number = () => performance.now()) {
    this.#db = db;
    this.#judgement = judgement;
    this.#now = now;
    // Mail that was kept back gets a second try, which the result of its first must not answer.
    this.#speaksMs = Math.min(speaksMs, soonestMs(judgement.policy));
  }

  /**
   * Remembers what an attempt says about its destination, for mail that leaves from the same addresses.
   *
   * @param source what it left from: if addresses of one family were left out, mail that has them may get through
   */
  heard(
    destination: string,
    { verdict, reply, attempts }: Pick<AttemptRecord, 'verdict' | 'reply' | 'attempts'>,
    source: Pick<Source, 'closed'> | null,
  ): void {
    this.#unreached.delete(destination);
    const [first] = attempts;
    if (verdict !== 'unreachable' || !first || source?.closed) return;
    const [oldest] = this.#unreached.keys();
    if (oldest !== undefined && this.#unreached.size >= mostRemembered) this.#unreached.delete(oldest);
    const reason = reply ?? 'it could not be reached';
    this.#unreached.set(destination, { begunAt: first.at, heardAt: this.#now(), reason });
  }

  /**
   * Sorts claims by whether their time is over. It begins when an email is due, which for a scheduled one is long after it was
   * accepted. If the due times cannot be read, none is over, and all are looked at again later.
   *
   * @param room how many may be begun; called once the claims are sorted
   * @param backMs until the site is tried again
   */
  async sort(claims: Claim[], backMs: number, room: () => number): Promise<Sorted> {
    const { policy, clock } = this.#judgement;
    // No email is due before it is accepted, so only the old ones' due times have to be read.
    const old = claims.filter(({ emailId }) => isOver(policy, timeOf(emailId), clock.now()));
    const emails = await this.#read(old, loadDue);
    const unasked: { claim: Claim; email: Settled; said: Unreached }[] = [];
    const over: Claim[] = [];
    for (const claim of old) {
      const email = emails.get(claim.emailId);
      const said = this.#saidOf(claim.destination);
      if (!email || !isOver(policy, email.dueAt, clock.now())) continue;
      if (!said || !isOver(policy, email.dueAt, said.begunAt)) over.push(claim);
      else unasked.push({ claim, email, said });
    }
    const suppressed = await this.#read(
      unasked.map(({ claim }) => claim),
      loadSuppressed,
    );
    const known: Sorted['known'] = [];
    for (const { claim, email, said } of unasked) {
      const now = { suppressed: suppressed.get(claim.emailId) ?? new Set<string>() };
      // No server is asked for a recipient who was suppressed meanwhile.
      if (claim.recipients.some(({ address }) => isSuppressed(now, address))) over.push(claim);
      else known.push({ claim, outcome: record(this.#judgement, claim, asTried(claim, said), email, null) });
    }
    const many = room();
    const ended = new Set([...over, ...known.map(({ claim }) => claim)]);
    const later = [...soon(over.slice(many), backMs), { ms: backMs, claims: claims.filter((one) => !ended.has(one)) }];
    return { now: over.slice(0, many), known, later: later.filter(({ claims }) => claims.length > 0) };
  }

  async #read<Value>(claims: Claim[], load: (db: Database, ids: string[]) => Promise<Map<string, Value>>) {
    if (claims.length === 0) return new Map<string, Value>();
    return load(this.#db, [...new Set(claims.map(({ emailId }) => emailId))]).catch(() => new Map<string, Value>());
  }

  #saidOf(destination: string): Unreached | null {
    const said = this.#unreached.get(destination);
    return said && this.#now() - said.heardAt < this.#speaksMs ? said : null;
  }
}

function soon(claims: Claim[], mostMs: number): Sorted['later'] {
  const each = Math.ceil(claims.length / spreadOver);
  return Array.from({ length: spreadOver }, (_, at) => ({
    ms: Math.min(againMs + (at * spreadMs) / spreadOver, mostMs),
    claims: claims.slice(at * each, (at + 1) * each),
  }));
}

/** The result that the attempt already made would have had for these, too. */
function asTried({ destination, recipients }: Claim, { begunAt, reason: said }: Unreached): Delivery {
  const reason = `Not tried by itself, as its time was over when mail to ${destination} was tried at ${begunAt.toISOString()}: ${said}`;
  const results = recipients.map(({ address: recipient }) => ({
    ...{ recipient, outcome: 'deferred' as const, phase: 'connect' as const, reply: null, reason },
    ...{ enhanced: null, class: 'network' as const, uncertain: false },
  }));
  const session = {
    ...{ startedAt: begunAt, durationMs: 0, host: null, remoteAddress: null, localAddress: null, tls: null },
    ...{ verification: 'none' as const, reused: false, conversation: [], results },
  };
  return { sessions: [session] };
}
