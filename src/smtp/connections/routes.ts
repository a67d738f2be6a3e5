import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { isPublicAddress } from '../../ip.ts';

/** One way to reach a host. */
export interface Route {
  address: string;
  /** The address to send from; undefined leaves it to the system. */
  localAddress: string | undefined;
}

/**
 * The addresses that this machine can send to, in the given order. With `sendingIps`, each address gets the first sending
 * IP of its family, and addresses without one are dropped. Otherwise public IPv6 is dropped if this machine has none itself.
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
 * Picks one of these addresses per family, always the same for a sender: greylisting servers go by the pair. Adding
 * or removing an address moves only that address's share of the senders (rendezvous hashing).
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
