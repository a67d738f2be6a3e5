import { isIP, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** One address that mail leaves from. */
export interface SendingAddress {
  /** In its canonical form, as a socket reports it. */
  ip: string;
  pool: string;
  /** The day (UTC, `2026-11-20`) of its first mail, where it is new; null: it has no cap. */
  firstDay: string | null;
}

/** The addresses in the order configured; none: the system chooses, and there are no pools. */
export interface SendingPools {
  addresses: readonly SendingAddress[];
  /** Messages on the first, second, … day of a new address; after the last there is no cap. */
  plan: readonly number[];
}

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
const defaultPool = 'default';
const marketingPool = 'marketing';
const longestPlan = 365;

/** Ranges of ipaddr.js whose addresses belong to no machine, although a port of most of them can be listened on. */
const nobodys = new Set<string>(['unspecified', 'broadcast', 'multicast']);

/** What a pool may be called. */
export const poolName = /^[a-z0-9-]{1,32}$/;

/** The day of a moment, in UTC. */
export const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

export const startOf = (day: string): Date => new Date(`${day}T00:00:00Z`);

/** Null when the address is not new, or its plan is over. */
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

/**
 * The domain's own pool; else for marketing mail the one called `marketing`; else `default`, else the first. Null where no
 * addresses are configured.
 *
 * @returns `missing`: the domain's pool, where it is not configured here
 */
export function choosePool(
  { addresses }: SendingPools,
  { type, pool: own }: Stream,
): { pool: string; missing: string | null } | null {
  const has = (name: string) => addresses.some(({ pool }) => pool === name);
  const missing = own !== null && !has(own) ? own : null;
  const wanted = [own, type === 'marketing' ? marketingPool : null, defaultPool, addresses[0]?.pool ?? null];
  const pool = wanted.find((name) => name !== null && has(name));
  return pool ? { pool, missing } : null;
}

/** What an email would leave from, in fields and, where something is to be said about it, in words. */
export interface SourceOutlook {
  pool: string;
  ips: string[];
  notes: string[];
}

/** Null where the system chooses. */
export function sourceOutlook(pools: SendingPools, stream: Stream, now: Date = new Date()): SourceOutlook | null {
  const chosen = choosePool(pools, stream);
  if (!chosen) return null;
  const members = pools.addresses.filter(({ pool }) => pool === chosen.pool);
  const notes = members.flatMap((address) => {
    const warmUp = warmUpOn(dayOf(now), address, pools.plan);
    if (warmUp === null) return [];
    return warmUp.day === 0
      ? [`${address.ip} sends its first mail on ${address.firstDay}.`]
      : [`${address.ip} is on day ${warmUp.day} of its warm-up: ${warmUp.cap} messages today at the most.`];
  });
  const missing = chosen.missing === null ? [] : [`${missingPool(chosen.missing)}.`];
  return { pool: chosen.pool, ips: members.map(({ ip }) => ip), notes: [...missing, ...notes] };
}

export const missingPool = (name: string) => `The pool ${name} of the domain is not configured on this node`;

/** @throws Error that names the entry */
export function parseSendingIps(text: string): Omit<SendingAddress, 'firstDay'>[] {
  const seen = new Set<string>();
  return entriesOf(text).map((entry) => {
    const [, name, address] = /^(?:([^=]*)=)?(.*)$/.exec(entry) ?? [];
    const pool = name?.trim() ?? defaultPool;
    const ip = canonical(address?.trim() ?? '');
    if (!poolName.test(pool)) throw new Error(`${shown(entry)}: a pool's name is 1 to 32 of a-z, 0-9 and -`);
    if (ip === null) throw new Error(`${shown(entry)} must be an IP address, or a pool and one: marketing=203.0.113.6`);
    if (nobodys.has(ipaddr.parse(ip).range())) throw new Error(`${shown(entry)}: no mail can leave from ${ip}`);
    if (seen.has(ip)) throw new Error(`${shown(entry)}: ${ip} is listed twice, and can be in one pool only`);
    seen.add(ip);
    return { ip, pool };
  });
}

/** @returns the first day of each address. @throws Error that names the entry */
export function parseWarmUp(text: string): Map<string, string> {
  const days = new Map<string, string>();
  for (const entry of entriesOf(text)) {
    const [address = '', day = '', ...more] = entry.split('=').map((part) => part.trim());
    const ip = canonical(address);
    if (ip === null || !isDay(day) || more.length > 0)
      throw new Error(`${shown(entry)} must be an address and the day of its first mail: 203.0.113.6=2026-11-20`);
    if (days.has(ip)) throw new Error(`${shown(entry)}: ${ip} is listed twice`);
    days.set(ip, day);
  }
  return days;
}

/** @throws Error that names the entry */
export function parsePlan(text: string): number[] {
  const entries = entriesOf(text);
  if (entries.length > longestPlan) throw new Error(`${entries.length} days are listed, and ${longestPlan} may be`);
  return entries.map((entry) => {
    if (!/^\d{1,8}$/.test(entry) || Number(entry) === 0)
      throw new Error(`${shown(entry)} must be how many messages a new address may send on that day, 1 or more`);
    return Number(entry);
  });
}

/** @throws Error that names the entry */
export function withWarmUp(
  addresses: Omit<SendingAddress, 'firstDay'>[],
  firstDays: ReadonlyMap<string, string>,
): SendingAddress[] {
  for (const ip of firstDays.keys())
    if (!addresses.some((address) => address.ip === ip)) throw new Error(`${ip} is not one of SENDING_IPS`);
  return addresses.map((address) => ({ ...address, firstDay: firstDays.get(address.ip) ?? null }));
}

const entriesOf = (text: string) => text.split(',').map((entry) => entry.trim());

const shown = (entry: string) => JSON.stringify(entry.slice(0, 100));

function isDay(text: string): boolean {
  if (!/^20\d\d-\d\d-\d\d$/.test(text)) return false;
  const at = startOf(text);
  return !Number.isNaN(at.getTime()) && dayOf(at) === text;
}

/** Null for what is not an IP address, or is one of a single link. */
function canonical(text: string): string | null {
  if (isIP(text) === 0 || text.includes('%')) return null;
  if (!isIPv6(text)) return text;
  // ipaddr.js takes ::10.1.2.3 for an IPv4-mapped address, and the system does not. Nobody has one of those any more.
  if (text.startsWith('::') && text.includes('.') && !text.includes(':', 2)) return null;
  const address = ipaddr.IPv6.parse(text);
  return address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : address.toRFC5952String();
}
