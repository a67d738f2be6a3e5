import { BoundedMap } from '../../bounded-map.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { type Logger, silentLog } from '../../log.ts';
import { within } from '../../pace/within.ts';
import { ask, type Resolver } from '../dns/resolver.ts';
import { expiresAt, readStsId, type StsFile, type StsPolicy } from './mta-sts.ts';
import type { Objection } from './tls-policy.ts';

/** Keeps policies beyond the process's life: an attacker who hides a domain's record must not make us forget its policy. */
export interface StsStore {
  load(domain: string): Promise<StsPolicy | null>;
  save(domain: string, policy: StsPolicy): Promise<void>;
}

export interface StsPoliciesOptions {
  resolver: Pick<Resolver, 'resolveTxt'>;
  /** Fetches a domain's policy file; does not throw. */
  fetch: (domain: string, signal: AbortSignal) => Promise<StsFile | Objection>;
  store: StsStore;
  /** The clock by which policies expire: that of the store, which other nodes share. */
  clock?: Clock;
  log?: Logger;
  /** How many domains are kept in memory at most. */
  maxEntries?: number;
}

/** What is known about a domain: its policy, or that it has none; and why a newer one could not be learned. */
export interface StsFinding {
  policy: StsPolicy | null;
  problem: Objection | null;
}

interface Entry extends StsFinding {
  checkedAt: number;
  /** For some minutes from then on a policy with this id is not fetched again. */
  failed: { id: string; at: number } | null;
}

const recheckMs = 60_000;
/** RFC 8461 section 3.3 asks for such a pause. */
const failurePauseMs = 300_000;
const lookUpMs = 5_000;

/**
 * The MTA-STS policies of domains. Each domain's TXT record is looked up again after a minute; the policy is fetched when
 * the id has changed or half of `max_age` is over. An unexpired policy stays in force whatever DNS and the web server say; one
 * whose `max_age` is shorter stays for a minute.
 */
export class StsPolicies {
  readonly #options: Required<StsPoliciesOptions>;
  readonly #entries: Map<string, Entry>;
  readonly #running = new Map<string, Promise<StsFinding>>();
  readonly #closing = new AbortController();

  constructor(options: StsPoliciesOptions) {
    this.#options = { clock: systemClock, log: silentLog, maxEntries: 10_000, ...options };
    this.#entries = new BoundedMap(this.#options.maxEntries);
  }

  /** @throws whatever the store throws; the domain's policy is then unknown */
  async find(domain: string): Promise<StsFinding> {
    // Before the cache: a message must not get past a policy that is still being fetched for another message.
    const running = this.#running.get(domain);
    if (running !== undefined) return running;
    const known = this.#entries.get(domain);
    if (known !== undefined && this.#isWithin(recheckMs, known.checkedAt)) return this.#inForce(known);
    const check = this.#check(domain, known ?? null).finally(() => this.#running.delete(domain));
    this.#running.set(domain, check);
    return check;
  }

  /** Aborts fetches under way. */
  close(): void {
    this.#closing.abort();
  }

  async #check(domain: string, known: Entry | null): Promise<StsFinding> {
    const { store } = this.#options;
    // Another node may have fetched it since.
    const policy = (known && this.#inForce(known).policy) ?? (await store.load(domain));
    const entry: Entry = { policy, problem: null, checkedAt: this.#now(), failed: known?.failed ?? null };
    this.#entries.set(domain, entry);
    const current = this.#inForce(entry).policy;
    const id = await this.#lookUpId(domain);
    if (id === null) return this.#inForce(entry);
    if (entry.failed !== null && entry.failed.id === id && this.#isWithin(failurePauseMs, entry.failed.at)) {
      entry.problem = known?.problem ?? null;
      return this.#inForce(entry);
    }
    if (current?.id !== id) return this.#fetch(domain, id, entry);
    const halfOver = this.#now() > (current.fetchedAt.getTime() + expiresAt(current).getTime()) / 2;
    if (halfOver) void this.#fetch(domain, id, entry);
    return this.#inForce(entry);
  }

  /** Null if there is no policy or DNS gave no answer: in both cases the known policy stays in force. */
  async #lookUpId(domain: string): Promise<string | null> {
    const { resolver } = this.#options;
    const asked = ask(() => resolver.resolveTxt(`_mta-sts.${domain}`));
    const answer = await within(lookUpMs, asked, null);
    return answer?.kind === 'records' ? readStsId(answer.records.map((chunks) => chunks.join(''))) : null;
  }

  async #fetch(domain: string, id: string, entry: Entry): Promise<StsFinding> {
    const { fetch, store, clock, log } = this.#options;
    const found = await fetch(domain, this.#closing.signal);
    if ('reason' in found) {
      entry.problem = { ...found, reason: `the MTA-STS policy of ${domain} ${found.reason}` };
      entry.failed = { id, at: this.#now() };
      log.info({ domain, reason: found.reason }, 'an MTA-STS policy could not be fetched');
      return this.#inForce(entry);
    }
    const policy = { ...found, id, fetchedAt: clock.now() };
    Object.assign(entry, { policy, problem: null, failed: null });
    await store.save(domain, policy).catch((error: Error) => {
      log.warn({ domain, error: error.message }, 'an MTA-STS policy could not be stored; only this process knows it');
    });
    return { policy, problem: null };
  }

  #now(): number {
    return this.#options.clock.now().getTime();
  }

  /** Not of a time to come either: the clock was set back since, perhaps by days. */
  #isWithin(ms: number, at: number): boolean {
    return Math.abs(this.#now() - at) < ms;
  }

  /** A policy that expires sooner than a minute after it was fetched would otherwise be fetched for each message, or not apply to it. */
  #inForce({ policy, problem }: Entry): StsFinding {
    if (policy === null) return { policy, problem };
    const until = Math.max(expiresAt(policy).getTime(), policy.fetchedAt.getTime() + recheckMs);
    return { policy: until > this.#now() ? policy : null, problem };
  }
}
