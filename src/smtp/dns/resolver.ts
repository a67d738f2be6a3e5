import { createSocket } from 'node:dgram';
import { DESTRUCTION, Resolver as NodeResolver } from 'node:dns/promises';
import type { RecordType } from 'dns-packet';
import { BoundedMap } from '../../bounded-map.ts';
import { ownTrouble, systemCodeOf } from '../replies/own-trouble.ts';
import { Absences, referral } from './absences.ts';

/** The look-ups that sending mail needs; the Resolver of `node:dns/promises` has them all. Errors carry c-ares's `code`. */
export interface Resolver {
  resolveMx(name: string): Promise<{ exchange: string; priority: number }[]>;
  resolve4(name: string): Promise<string[]>;
  resolve6(name: string): Promise<string[]>;
  resolveTxt(name: string): Promise<string[][]>;
  resolve(name: string, rrtype: string): Promise<unknown>;
}

/** How long, and how often, a resolver asks. */
export interface Patience {
  /** How long the first try lasts; later ones are longer. */
  timeoutMs: number;
  tries: number;
  /** For all tries together. */
  mostMs: number;
}

/**
 * A resolver that asks these servers (`ip`, `ip:port` or `[v6]:port`), or the system's if null, until one of them answers. It
 * never reads the hosts file. By default a query is tried twice, the first try lasts 5 seconds, and the query fails after 10
 * seconds.
 */
export function createResolver(
  servers: string[] | null,
  { timeoutMs = 5_000, tries = 2, mostMs = 10_000 }: Partial<Patience> = {},
): Resolver {
  const all = new ServersInTurn(servers, { timeoutMs, tries, mostMs });
  return {
    resolveMx: (name) => all.ask(name, 'MX', (resolver) => resolver.resolveMx(name)),
    resolve4: (name) => all.ask(name, 'A', (resolver) => resolver.resolve4(name)),
    resolve6: (name) => all.ask(name, 'AAAA', (resolver) => resolver.resolve6(name)),
    resolveTxt: (name) => all.ask(name, 'TXT', (resolver) => resolver.resolveTxt(name)),
    resolve: (name, rrtype) => all.ask(name, rrtype, (resolver) => resolver.resolve(name, rrtype)),
  };
}

type Query<T> = (resolver: NodeResolver) => Promise<T>;

/** Name servers, the next of which is asked if one has no answer. */
class ServersInTurn {
  readonly #servers: string[] | null;
  readonly #patience: Patience;
  readonly #usual: NodeResolver;
  readonly #absences = new Absences();
  /** For each server behind the first, a resolver that begins with it. */
  #behind: NodeResolver[] | null = null;
  /** One that has not had answers yet. */
  #patient: NodeResolver | null = null;

  constructor(servers: string[] | null, patience: Patience) {
    this.#servers = servers;
    this.#patience = patience;
    this.#usual = this.#make();
  }

  /** The answer, in time, of the first server that looks the name up itself. */
  ask<T>(name: string, type: string, query: Query<T>): Promise<T> {
    const answered = async (resolver: NodeResolver) => {
      const answer = query(resolver);
      if (!(await isNone(answer))) return answer;
      const instead = await this.#absences.saidInstead(resolver.getServers(), name, type as RecordType);
      if (instead !== null) throw Object.assign(new Error('no answer'), { code: instead });
      return answer;
    };
    return bounded(this.#patience.mostMs, this.#askAll(answered));
  }

  #make(servers = this.#servers): NodeResolver {
    const { timeoutMs, tries } = this.#patience;
    const resolver = new NodeResolver({ timeout: timeoutMs, tries });
    if (servers !== null) resolver.setServers(servers);
    return resolver;
  }

  /** c-ares asks the next server only if one is silent; the system's own resolver does so, too, if one has no answer. */
  #askAll<T>(query: Query<T>): Promise<T> {
    this.#behind ??= this.#usual
      .getServers()
      .slice(1)
      .map((_, at, others) => this.#make(others.slice(at)));
    return this.#behind.reduce(
      (asked, next) => asked.catch((error: unknown) => (isNoAnswer(error) ? query(next) : Promise.reject(error))),
      this.#lookUp(query),
    );
  }

  /**
   * After a few quick answers c-ares waits about a second for the next, whatever it was told, and a name that the server first
   * has to look up itself takes longer. Such a query is made again, by a resolver that has not had answers yet.
   */
  async #lookUp<T>(query: Query<T>): Promise<T> {
    const began = performance.now();
    try {
      return await query(this.#usual);
    } catch (error) {
      // When the lone name server of this machine has refused a query, Node takes back what else it asks there, to read resolv.conf again.
      if (systemCodeOf(error) === DESTRUCTION) return query(this.#usual);
      if (!isTimeout(error) || performance.now() - began >= this.#patience.timeoutMs) throw error;
    }
    this.#patient ??= this.#make();
    const asked = this.#patient;
    let isAnswer = true;
    try {
      return await query(asked);
    } catch (error) {
      isAnswer = !isTimeout(error);
      throw error;
    } finally {
      if (isAnswer && this.#patient === asked) this.#patient = null;
    }
  }
}

const isTimeout = (error: unknown) => systemCodeOf(error) === 'ETIMEOUT';

/** True if there are no records of this type; for an alias c-ares says so without an error. */
const isNone = (answer: Promise<unknown>): Promise<boolean> =>
  answer.then(
    (found) => Array.isArray(found) && found.length === 0,
    (error: unknown) => systemCodeOf(error) === 'ENODATA',
  );

/** True if the server has answered, but not the question: another one may know more. */
const isNoAnswer = (error: unknown) =>
  ['ESERVFAIL', 'EREFUSED', 'ENOTIMP', 'EFORMERR', 'EBADRESP', referral].includes(systemCodeOf(error) ?? '');

/** Asks for records of any type, as mailauth does: the answers are typed loosely, as `node:dns/promises` returns them. */
export type Resolve = (name: string, type: string) => Promise<string[][]>;

/** Look-ups with this resolver, its servers and its time limits, for code that expects those of Node. */
export const resolveWith =
  (resolver: Resolver): Resolve =>
  async (name, type) =>
    (await resolver.resolve(name, type)) as string[][];

/**
 * c-ares gives each try more time than the one before, for each server anew. Later answers are discarded. It also says that the
 * server refused if it could open no socket, which only another socket can tell apart.
 */
async function bounded<T>(ms: number, answer: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(Object.assign(new Error('queryTimeout'), { code: 'ETIMEOUT' })), ms);
  try {
    return await Promise.race([answer, late]);
  } catch (error) {
    throw (systemCodeOf(error) === 'ECONNREFUSED' && (await findOwnTrouble())) || error;
  } finally {
    clearTimeout(timer);
  }
}

/** The error of opening a socket if this server is in trouble; null: it is not. */
function findOwnTrouble(): Promise<Error | null> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    const end = (error: Error | null) => {
      socket.close();
      resolve(error);
    };
    socket.once('error', (error) => end(ownTrouble(error) === null ? null : error));
    socket.bind({ address: '127.0.0.1', exclusive: true }, () => end(null));
  });
}

/** What DNS says about a name: records, none of this type, no such name, or no answer. `untried`: this server could not even ask. */
export type Answer<T> =
  | { kind: 'records'; records: T[] }
  | { kind: 'nodata' }
  | { kind: 'nxdomain' }
  | { kind: 'temporary'; reason: string; untried: boolean };

/** Runs one look-up and turns c-ares's errors into an answer. Throws only errors without a code, which are defects. */
export async function ask<T>(lookUp: () => Promise<T[]>): Promise<Answer<T>> {
  try {
    const records = await lookUp();
    return records.length > 0 ? { kind: 'records', records } : { kind: 'nodata' };
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === null) throw error;
    if (code === 'ENODATA') return { kind: 'nodata' };
    // A name that cannot even be put into a query does not exist.
    if (code === 'ENOTFOUND' || code === 'EBADNAME') return { kind: 'nxdomain' };
    const own = ownTrouble(error);
    const reason = own ?? temporaryReasons[code] ?? `the DNS look-up failed (${code})`;
    return { kind: 'temporary', reason, untried: own !== null || code === referral };
  }
}

const temporaryReasons: Record<string, string> = {
  ESERVFAIL: 'the name server failed (SERVFAIL)',
  ETIMEOUT: 'the name server did not answer in time',
  EREFUSED: 'the name server refused to answer',
  ECONNREFUSED: 'the name server could not be reached',
  EBADRESP: 'the name server sent a malformed answer',
  [referral]: 'the name server only refers to others: DNS_SERVERS must name resolvers, which look names up themselves',
};

const positiveMs = 60_000;
const negativeMs = 10_000;

/**
 * Caches DNS answers in this process: records for 60 seconds, "there is none" for 10, failures not at all. Concurrent
 * look-ups of one key share one query. Beyond `maxEntries`, the oldest answers go.
 */
export class DnsCache {
  readonly #entries: Map<string, { answer: Answer<unknown>; since: number; until: number }>;
  readonly #running = new Map<string, Promise<Answer<unknown>>>();
  readonly #now: () => number;

  constructor({
    maxEntries = 10_000,
    now = () => performance.now(),
  }: { maxEntries?: number; now?: () => number } = {}) {
    this.#entries = new BoundedMap(maxEntries);
    this.#now = now;
  }

  /**
   * The cached answer for this key, else that of `lookUp`. A key must always stand for the same record type.
   *
   * @param mostAgeMs answers that have been kept for longer do not count
   */
  async get<T>(key: string, lookUp: () => Promise<T[]>, mostAgeMs = Number.POSITIVE_INFINITY): Promise<Answer<T>> {
    const kept = this.#entries.get(key);
    const now = this.#now();
    if (kept !== undefined && kept.until > now && now - kept.since <= mostAgeMs) return kept.answer as Answer<T>;
    const running = this.#running.get(key) ?? this.#start(key, lookUp);
    return (await running) as Answer<T>;
  }

  #start(key: string, lookUp: () => Promise<unknown[]>): Promise<Answer<unknown>> {
    const query = ask(lookUp)
      .then((answer) => {
        this.#keep(key, answer);
        return answer;
      })
      .finally(() => this.#running.delete(key));
    this.#running.set(key, query);
    return query;
  }

  #keep(key: string, answer: Answer<unknown>): void {
    this.#entries.delete(key);
    if (answer.kind === 'temporary') return;
    const since = this.#now();
    this.#entries.set(key, { answer, since, until: since + (answer.kind === 'records' ? positiveMs : negativeMs) });
  }
}
