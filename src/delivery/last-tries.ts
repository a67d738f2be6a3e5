import { loadDue, loadSuppressed } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Database } from '../db/client.ts';
import { timeOf } from '../ids.ts';
import type { Delivery } from '../smtp/deliver.ts';
import { type AttemptRecord, isSuppressed, type Judgement, record, type Settled } from './attempt-record.ts';
import { isOver, soonestMs } from './schedule.ts';
import type { Source } from './source-addresses.ts';

/** In ms, until those come again that there was no room for, and over how long they are spread. */
const againMs = 30_000;
const spreadMs = 60_000;
const spreadOver = 4;

/** For so long an attempt speaks for others to its destination, in ms. */
const speaksMs = 45_000;
const mostRemembered = 10_000;

interface Unreached {
  /** By the database's clock, and by one that does not jump. */
  begunAt: Date;
  heardAt: number;
  reason: string;
}

/** What becomes of claims whose site is left alone. */
export interface Sorted {
  /** To be begun, as many as there is room for. */
  now: Claim[];
  /** What they came to without being begun. */
  known: { claim: Claim; outcome: AttemptRecord }[];
  /** To be looked at again in so many ms: those that there was no room for, and those whose time is not over. */
  later: { ms: number; claims: Claim[] }[];
}

/**
 * Mail whose time is over at a site that is left alone. It is tried all the same, as nothing ends without that, a few at a
 * time; when nobody was there for one of them, that holds for the others to the same destination, which would hear the same.
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
    // The second try of what was kept back is to be another one than the first.
    this.#speaksMs = Math.min(speaksMs, soonestMs(judgement.policy));
  }

  /**
   * Remembers what an attempt says about its destination, for mail that leaves from the same addresses.
   *
   * @param source what it left from: where addresses of one family were left out, mail that has them may reach somebody
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
   * Of an email that was scheduled its time began when it was due, long after it was accepted. Where that cannot be read none
   * is over, and they are looked at again later.
   *
   * @param room how many may be begun, asked when it is known which
   * @param backMs until the site has its chance again
   */
  async sort(claims: Claim[], backMs: number, room: () => number): Promise<Sorted> {
    const { policy, clock } = this.#judgement;
    // None was due before it was accepted, so that only of the old ones it has to be read when they were.
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
      // For whom came onto the list meanwhile no server is asked anyway.
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

/** As the attempt that was made would have come out for these, too. */
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
