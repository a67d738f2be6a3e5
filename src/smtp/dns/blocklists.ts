import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { cleanRemoteText } from '../replies/reply.ts';
import { type Answer, ask, type Resolver } from './resolver.ts';

/** Whether an address is on a list; `unknown`: the list did not answer, or does not answer queries from our resolver. */
export type Listing =
  | { kind: 'clean' }
  | { kind: 'listed'; code: string; reason: string | null }
  | { kind: 'unknown'; reason: string };

const reasonLength = 300;

/**
 * Looks an address up in a DNS blocklist (RFC 5782). An answer counts only if the list also returns the test address that
 * every working list has (section 5): a dead list, or one that ignores queries from this resolver, would otherwise call
 * everything clean. A code that means "query refused" is not a listing.
 */
export async function lookUp(zone: string, ip: string, resolver: Resolver): Promise<Listing> {
  const [answer, test] = await Promise.all([
    addressesOf(`${reversed(ip)}.${zone}`, resolver),
    addressesOf(`${reversed(isIPv6(ip) ? '::ffff:7f00:2' : '127.0.0.2')}.${zone}`, resolver),
  ]);
  const unable = refusalIn(answer) ?? refusalIn(test);
  if (unable !== null) return { kind: 'unknown', reason: unable };
  if (test.kind !== 'records') return { kind: 'unknown', reason: 'it does not list its own test address' };
  if (answer.kind !== 'records') return { kind: 'clean' };
  const texts = await ask(() => resolver.resolveTxt(`${reversed(ip)}.${zone}`));
  const reason = texts.kind === 'records' ? cleanRemoteText(texts.records[0]?.join('') ?? '', reasonLength) : '';
  return { kind: 'listed', code: answer.records.join(', '), reason: reason || null };
}

const addressesOf = (name: string, resolver: Resolver) => ask(() => resolver.resolve4(name));

/** Listings are in 127.0.0.0/8; 127.0.0.1 and 127.255.255.0/24 mean that the query was refused; no list answers otherwise. */
function refusalIn(answer: Answer<string>): string | null {
  if (answer.kind === 'temporary') return answer.reason;
  if (answer.kind !== 'records') return null;
  const refused = answer.records.find((code) => code === '127.0.0.1' || code.startsWith('127.255.255.'));
  if (refused !== undefined) return `it refuses queries from this resolver (${refused})`;
  const strange = answer.records.find((code) => !code.startsWith('127.'));
  return strange === undefined ? null : `its answer ${cleanRemoteText(strange, 50)} is not that of a blocklist`;
}

/** The reversed octets or nibbles that the address's name in DNS begins with. */
export function reversed(ip: string): string {
  const address = ipaddr.parse(ip);
  if (address.kind() === 'ipv4') return [...address.toByteArray()].reverse().join('.');
  const digits = Buffer.from(address.toByteArray()).toString('hex');
  return [...digits].reverse().join('.');
}
