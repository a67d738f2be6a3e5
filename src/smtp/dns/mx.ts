import { isIP } from 'node:net';
import { isReachable, type PrivateNetworks, reachesItself } from '../../ip.ts';
import { withResolutionDelay } from './address-look-up.ts';
import { comparableName } from './host-name.ts';
import { type Answer, DnsCache, type Resolver } from './resolver.ts';

/** A server that takes mail for a domain; those of the lowest preference are tried first. */
export interface MxHost {
  /** In lower case, without a trailing dot. */
  name: string;
  preference: number;
}

/**
 * Why mail cannot be routed. `enhanced` is an RFC 3463 code; the reason is one sentence. Only `bad_domain` says that
 * the domain itself takes no mail; `network` is a mistake in its records, `sender` a route that leads back to us, or this server
 * could not even ask.
 */
export type Unreachable =
  | { kind: 'permanent'; enhanced: string; class: 'bad_domain' | 'network' | 'sender'; reason: string }
  | { kind: 'temporary'; enhanced: string; class: 'network' | 'sender'; reason: string };

/** Where a domain's mail goes. */
export type Destination = { kind: 'hosts'; hosts: MxHost[] } | Unreachable;

/** How to reach an MX host. `ours`: one of its addresses is our own, so hosts of worse preference would loop mail back. */
export type HostAddresses = ({ kind: 'addresses'; addresses: string[] } | Unreachable) & { ours: boolean };

/** How DNS is asked where mail goes, and where it may not go. */
export interface LookUpOptions {
  resolver: Resolver;
  cache?: DnsCache;
  /** Answers that the cache has kept for longer do not count. */
  mostAgeMs?: number;
  /** Our own host names: mail is never sent to them, nor past them to worse ones. */
  ownHosts?: string[];
  /** Our own addresses; refused unless `allowPrivate` is true. */
  ownAddresses?: string[];
  /** Lets addresses outside the public internet through, for closed networks and tests. */
  allowPrivate?: PrivateNetworks;
  /** Only IPv6 addresses can be used, so that IPv4 ones are no reason to stop waiting for them. */
  onlyIpv6?: boolean;
  random?: () => number;
}

/** Bounds the look-ups of an attempt. What it dials has bounds of its own, which hosts without an address do not use up. */
const maxHosts = 30;
const maxAddresses = 10;

/** How old an answer may be that ends a delivery for good, in milliseconds. */
const finalAgeMs = 1_000;

/** Options for a look-up whose answer may be final: records may have been corrected since they were kept. */
export const afresh = (options: LookUpOptions): LookUpOptions => ({ ...options, mostAgeMs: finalAgeMs });

/** What `find` finds for a name; what would end a delivery for good is looked up again first, if it was kept. */
async function upToDate<Found extends { kind: string }>(
  find: (name: string, options: LookUpOptions) => Promise<Found>,
  spelled: string,
  options: LookUpOptions,
): Promise<Found> {
  const name = comparableName(spelled);
  const found = await find(name, options);
  return found.kind === 'permanent' && options.cache ? find(name, afresh(options)) : found;
}

/**
 * The hosts to try for a domain, in order (RFC 5321 section 5.1): by preference, equal ones shuffled, the domain itself
 * when it has no MX. Thirty at most. A null MX (RFC 7505), a name that does not exist, records that name no host and a list
 * that leads back to us are permanent; anything that DNS could not answer is temporary.
 */
export function resolveDestination(domain: string, options: LookUpOptions): Promise<Destination> {
  return upToDate(findRoute, domain, options);
}

async function findRoute(name: string, options: LookUpOptions): Promise<Destination> {
  const { resolver, cache = new DnsCache(), mostAgeMs, ownHosts = [], random = Math.random } = options;
  if (!isHostName(name)) return badDomain('5.1.2', 'The domain is not a host name.');
  const answer = await cache.get(`mx:${name}`, () => resolver.resolveMx(name), mostAgeMs);
  if (answer.kind === 'temporary') return unanswered(`MX records of ${name}`, answer);
  if (answer.kind === 'nxdomain') return badDomain('5.1.2', `The domain ${name} does not exist.`);
  if (answer.kind === 'nodata') return implicitMx(name, { ...options, cache });

  const named = answer.records.filter((record) => comparableName(record.exchange) !== '');
  if (named.length === 0) return badDomain('5.1.10', `The domain ${name} does not accept mail (null MX).`);
  const hosts = named
    .map((record) => ({ name: comparableName(record.exchange), preference: record.priority, spread: random() }))
    .filter((host) => isHostName(host.name))
    .sort((a, b) => a.preference - b.preference || a.spread - b.spread);
  if (hosts.length === 0) return noRoute(`The MX records of ${name} name no usable host.`);
  const own = new Set(ownHosts.map(comparableName));
  const limit = hosts.find((host) => own.has(host.name))?.preference ?? Number.POSITIVE_INFINITY;
  const others = hosts.filter((host) => host.preference < limit);
  if (others.length === 0) return loop(`Mail to ${name} would come back to this server.`);
  const names = new Map(others.toReversed().map((host) => [host.name, host]));
  const first = others.filter((host) => names.get(host.name) === host).slice(0, maxHosts);
  return { kind: 'hosts', hosts: first.map((host) => ({ name: host.name, preference: host.preference })) };
}

async function implicitMx(name: string, options: LookUpOptions): Promise<Destination> {
  const own = (options.ownHosts ?? []).map(comparableName);
  if (own.includes(name)) return loop(`Mail to ${name} would come back to this server.`);
  const found = await lookUpAddresses(name, options);
  const temporary = found.find((answer) => answer.kind === 'temporary');
  if (found.some((answer) => answer.kind === 'records')) return { kind: 'hosts', hosts: [{ name, preference: 0 }] };
  if (temporary !== undefined) return unanswered(`Addresses of ${name}`, temporary);
  return badDomain('5.1.2', `The domain ${name} has neither an MX nor an address.`);
}

/**
 * The addresses of an MX host, IPv6 and IPv4 alternating, ten at most. Leaves out addresses outside the public internet
 * unless `allowPrivate` permits them, and our own unless it permits everything. If only private ones are left, the result
 * is temporary: a wrong setting must not cost anybody their mail. No setting leads from loopback to another machine.
 */
export function resolveHost(host: string, options: LookUpOptions): Promise<HostAddresses> {
  return upToDate(findAddresses, host, options);
}

async function findAddresses(name: string, options: LookUpOptions): Promise<HostAddresses> {
  const answers = await lookUpAddresses(name, options);
  const families = answers.map((answer) => (answer.kind === 'records' ? answer.records : []));
  // An IPv4-mapped address is an IPv4 address in disguise, and would escape the comparison with our own.
  const found = interleave(families).filter((address) => isIP(address) !== 0 && !/^::ffff:/i.test(address));
  const { allowPrivate = false } = options;
  const own = new Set(allowPrivate === true ? [] : options.ownAddresses);
  const ours = found.some((address) => own.has(address));
  const allowed = found.filter((address) => isReachable(address, allowPrivate) && !own.has(address));
  if (allowed.length > 0) return { kind: 'addresses', addresses: allowed.slice(0, maxAddresses), ours };

  const temporary = answers.find((answer) => answer.kind === 'temporary');
  if (temporary !== undefined) return { ...unanswered(`Addresses of ${name}`, temporary), ours };
  if (ours) return { ...loop(`The host ${name} has the address of this server.`), ours };
  if (found.length === 0) return { ...noRoute(`The host ${name} has no address.`), ours };
  if (found.every(reachesItself)) {
    return { ...noRoute(`The host ${name} has only addresses by which a machine reaches itself (${found[0]}).`), ours };
  }
  const reason = `The host ${name} has only private or reserved addresses, which ALLOW_PRIVATE_NETWORKS does not allow.`;
  return { kind: 'temporary', enhanced: '4.4.4', class: 'network', reason, ours };
}

type Reason = (reason: string) => Unreachable;

const noRoute: Reason = (reason) => ({ kind: 'permanent', enhanced: '5.4.4', class: 'network', reason });
const loop: Reason = (reason) => ({ kind: 'permanent', enhanced: '5.4.6', class: 'sender', reason });

function unanswered(question: string, { reason, untried }: { reason: string; untried: boolean }): Unreachable {
  const kind = untried ? 'sender' : 'network';
  return { kind: 'temporary', enhanced: '4.4.3', class: kind, reason: `${question}: ${reason}.` };
}

function badDomain(enhanced: string, reason: string): Unreachable {
  return { kind: 'permanent', enhanced, class: 'bad_domain', reason };
}

async function lookUpAddresses(name: string, options: LookUpOptions): Promise<Answer<string>[]> {
  const { resolver, cache = new DnsCache(), mostAgeMs, onlyIpv6 = false } = options;
  const ipv6 = cache.get(`aaaa:${name}`, () => resolver.resolve6(name), mostAgeMs);
  const ipv4 = cache.get(`a:${name}`, () => resolver.resolve4(name), mostAgeMs);
  const answers = await withResolutionDelay({ ipv6, ipv4 }, { onlyIpv6 });
  return [answers.ipv6, answers.ipv4];
}

function interleave(lists: string[][]): string[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
}

/** Letters, digits, hyphens and underscores in labels; no IP address, no empty label, nothing to inject. */
function isHostName(name: string): boolean {
  return name.length <= 253 && /^([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}$/.test(name) && !/(^|\.)\d+$/.test(name);
}
