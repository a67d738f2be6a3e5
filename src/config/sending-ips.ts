import ipaddr from 'ipaddr.js';
import { canonicalAddress } from '../ip.ts';
import { dayOf, defaultPool, poolName, type SendingAddress, startOf } from '../smtp/connections/sending-pools.ts';
import { hostname } from './values.ts';

const longestPlan = 365;

/** Ranges of ipaddr.js whose addresses belong to no machine, although one can listen on a port of most of them. */
const nobodys = new Set<string>(['unspecified', 'broadcast', 'multicast']);

/** @throws Error that names the entry */
export function parseSendingIps(text: string): Omit<SendingAddress, 'firstDay'>[] {
  const seen = new Set<string>();
  return entriesOf(text).map((entry) => {
    const [, name, address] = /^(?:([^=]*)=)?(.*)$/.exec(entry) ?? [];
    const pool = name?.trim() ?? defaultPool;
    const ip = canonicalAddress(address?.trim() ?? '');
    if (!poolName.test(pool)) throw new Error(`${shown(entry)}: a pool name has 1 to 32 characters: a-z, 0-9 and -`);
    if (ip === null)
      throw new Error(`${shown(entry)} must be an IP address, or a pool and an address: marketing=203.0.113.6`);
    if (nobodys.has(ipaddr.parse(ip).range())) throw new Error(`${shown(entry)}: mail cannot be sent from ${ip}`);
    if (seen.has(ip)) throw new Error(`${shown(entry)}: ${ip} is listed twice, but can be in one pool only`);
    seen.add(ip);
    return { ip, pool };
  });
}

/** @returns the first day of each address. @throws Error that names the entry */
export function parseWarmUp(text: string): Map<string, string> {
  const wanted = 'must be an address and the day of its first mail: 203.0.113.6=2026-11-20';
  return byAddress(text, wanted, (day) => (isDay(day) ? day : null));
}

/** @returns the EHLO name of each address, in lower case. @throws Error that names the entry */
export function parseEhloNames(text: string): Map<string, string> {
  const wanted = 'must be an address and the name of its PTR record: 203.0.113.6=mail2.example.com';
  return byAddress(text, wanted, (name, entry) => (name === '' ? null : ehloName(name, entry)));
}

function ehloName(text: string, entry: string): string {
  try {
    return hostname(text);
  } catch (error) {
    throw new Error(`${shown(entry)}: ${shown(text)} must be ${(error as Error).message}`);
  }
}

/**
 * What stands for each address, from entries such as `203.0.113.6=2026-11-20`.
 *
 * @param read null: it is not what is wanted; it may throw another complaint
 */
function byAddress(
  text: string,
  wanted: string,
  read: (value: string, entry: string) => string | null,
): Map<string, string> {
  const found = new Map<string, string>();
  for (const entry of entriesOf(text)) {
    const [address = '', value = '', ...more] = entry.split('=').map((part) => part.trim());
    const ip = canonicalAddress(address);
    const parsed = ip === null || more.length > 0 ? null : read(value, entry);
    if (ip === null || parsed === null) throw new Error(`${shown(entry)} ${wanted}`);
    if (found.has(ip)) throw new Error(`${shown(entry)}: ${ip} is listed twice`);
    found.set(ip, parsed);
  }
  return found;
}

/** @throws Error that names the entry */
export function parsePlan(text: string): number[] {
  const entries = entriesOf(text);
  if (entries.length > longestPlan)
    throw new Error(`${entries.length} days are listed, but at most ${longestPlan} are allowed`);
  return entries.map((entry) => {
    if (!/^\d{1,8}$/.test(entry) || Number(entry) === 0)
      throw new Error(
        `${shown(entry)} must be the number of messages that a new address may send on that day, 1 or more`,
      );
    return Number(entry);
  });
}

/** @throws Error that names the one that is not listed */
export function demandListed(addresses: { ip: string }[], ips: Iterable<string>): void {
  for (const ip of ips)
    if (!addresses.some((address) => address.ip === ip)) throw new Error(`${ip} is not one of SENDING_IPS`);
}

/** @throws Error that names the entry */
export function withWarmUp(
  addresses: Omit<SendingAddress, 'firstDay'>[],
  firstDays: ReadonlyMap<string, string>,
): SendingAddress[] {
  demandListed(addresses, firstDays.keys());
  return addresses.map((address) => ({ ...address, firstDay: firstDays.get(address.ip) ?? null }));
}

const entriesOf = (text: string) => text.split(',').map((entry) => entry.trim());

const shown = (entry: string) => JSON.stringify(entry.slice(0, 100));

function isDay(text: string): boolean {
  if (!/^20\d\d-\d\d-\d\d$/.test(text)) return false;
  const at = startOf(text);
  return !Number.isNaN(at.getTime()) && dayOf(at) === text;
}
