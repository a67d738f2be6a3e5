import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { isPublicAddress } from '../ip.ts';

export interface Route {
  address: string;
  /** The address to send from; undefined leaves it to the system. */
  localAddress: string | undefined;
}

/**
 * The addresses that this machine can send to, in the order given. With `sendingIps` each gets the first of its own
 * family, and a family without one is left out; without, public IPv6 is left out where this machine has none itself.
 */
export function routesTo(addresses: string[], sendingIps: readonly string[]): Route[] {
  if (sendingIps.length === 0) {
    const reachable = addresses.filter((address) => !isIPv6(address) || !isPublicAddress(address) || hasIpv6());
    return (reachable.length > 0 ? reachable : addresses).map((address) => ({ address, localAddress: undefined }));
  }
  return addresses.flatMap((address) => {
    const localAddress = sendingIps.find((ip) => isIPv6(ip) === isIPv6(address));
    return localAddress === undefined ? [] : [{ address, localAddress }];
  });
}

/**
 * One of these addresses for each family, the same for the same sender: who greylists knows us by both. Where an address
 * is added or taken away, only its own share moves (rendezvous hashing).
 */
export function steadySources(sendingIps: readonly string[], sender: string): string[] {
  const few =
    sendingIps.length < 2 || (sendingIps.length === 2 && isIPv6(sendingIps[0] ?? '') !== isIPv6(sendingIps[1] ?? ''));
  if (few) return [...sendingIps];
  const draw = (ip: string) => createHash('sha256').update(`${ip} ${sender}`).digest('hex');
  const drawn = sendingIps.map((ip) => ({ ip, lot: draw(ip) })).sort((a, b) => (a.lot < b.lot ? -1 : 1));
  return [false, true].flatMap((ipv6) => drawn.find(({ ip }) => isIPv6(ip) === ipv6)?.ip ?? []);
}

function hasIpv6(): boolean {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.some(({ family, internal, address }) => family === 'IPv6' && !internal && !address.startsWith('fe80:'));
}
