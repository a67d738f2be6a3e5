/** One address that mail leaves from. */
export interface SendingAddress {
  /** In its canonical form, as a socket reports it. */
  ip: string;
  pool: string;
  /** The day (UTC, `2026-11-20`) of its first mail, if it is new; null: it has no cap. */
  firstDay: string | null;
}

/** The addresses in the order configured; none: the system chooses, and there are no pools. */
export interface SendingPools {
  addresses: readonly SendingAddress[];
  /** Messages on the first, second, … day of a new address; after the last there is no cap. */
  plan: readonly number[];
}

/** The system chooses the address of each connection. */
export const noPools: SendingPools = { addresses: [], plan: [] };

/** What decides the pool of an email. */
export interface Stream {
  type: 'transactional' | 'marketing';
  /** The domain's; null: it has none of its own. */
  pool: string | null;
}

/** Where a new address stands on a day. */
export interface WarmUp {
  /** 1 on its first day; 0 before, when it sends nothing. */
  day: number;
  /** Messages on this day. */
  cap: number;
  beginsAt: Date;
  /** From when there is no cap. */
  endsAt: Date;
}

const dayMs = 86_400_000;
/** The pool of addresses that name none. */
export const defaultPool = 'default';
const marketingPool = 'marketing';

/** What a pool may be called. */
export const poolName = /^[a-z0-9-]{1,32}$/;

/** The day of a moment, in UTC. */
export const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

/** The moment at which a day begins, in UTC. */
export const startOf = (day: string): Date => new Date(`${day}T00:00:00Z`);

/** Null if the address is not new, or its plan is over. */
export function warmUpOn(day: string, { firstDay }: SendingAddress, plan: readonly number[]): WarmUp | null {
  if (firstDay === null) return null;
  const begin = startOf(firstDay).getTime();
  const past = (startOf(day).getTime() - begin) / dayMs;
  if (past >= plan.length) return null;
  return {
    day: Math.max(0, past + 1),
    cap: past < 0 ? 0 : (plan[past] ?? 0),
    beginsAt: new Date(begin),
    endsAt: new Date(begin + plan.length * dayMs),
  };
}

/** The pool that an email leaves from, on this node. */
export interface ChosenPool {
  pool: string;
  /** The domain's pool, if it is not configured here. */
  missing: string | null;
}

/**
 * The domain's own pool; otherwise, for marketing mail, the one called `marketing`; otherwise `default`, otherwise the first.
 * Null if no addresses are configured.
 */
export function choosePool({ addresses }: SendingPools, { type, pool: own }: Stream): ChosenPool | null {
  const has = (name: string) => addresses.some(({ pool }) => pool === name);
  const missing = own !== null && !has(own) ? own : null;
  const wanted = [own, type === 'marketing' ? marketingPool : null, defaultPool, addresses[0]?.pool ?? null];
  const pool = wanted.find((name) => name !== null && has(name));
  return pool ? { pool, missing } : null;
}

/** What an email would leave from, in fields and, if there is something to say about it, in words. */
export interface SourceOutlook {
  pool: string;
  ips: string[];
  notes: string[];
}

/** Null if the system chooses. */
export function sourceOutlook(pools: SendingPools, stream: Stream, now: Date): SourceOutlook | null {
  const chosen = choosePool(pools, stream);
  if (!chosen) return null;
  const members = pools.addresses.filter(({ pool }) => pool === chosen.pool);
  const notes = members.flatMap((address) => {
    const warmUp = warmUpOn(dayOf(now), address, pools.plan);
    if (warmUp === null) return [];
    return warmUp.day === 0
      ? [`${address.ip} sends its first mail on ${address.firstDay}.`]
      : [`${address.ip} is on day ${warmUp.day} of its warm-up: at most ${warmUp.cap} messages today.`];
  });
  const missing = chosen.missing === null ? [] : [`${missingPool(chosen.missing)}.`];
  return { pool: chosen.pool, ips: members.map(({ ip }) => ip), notes: [...missing, ...notes] };
}

/** That mail leaves from another pool than its domain's, as a sentence without its full stop. */
export const missingPool = (name: string) => `The pool ${name} of the domain is not configured on this node`;
