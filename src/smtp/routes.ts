import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { isPublicAddress } from '../ip.ts';

export interface Route {
  address: string;
  /** The address to send from; undefined leaves it to the system. */
  localAddress: string | undefined;
}

/**
 * The addresses that this machine can send to, in the order given. With `sendingIps` each gets a random one of its own
 * family, and a family without one is left out; without, public IPv6 is left out where this machine has none itself.
 */
export function routesTo(addresses: string[], sendingIps: string[], random: () => number = Math.random): Route[] {
  if (sendingIps.length === 0) {
    const reachable = addresses.filter((address) => !isIPv6(address) || !isPublicAddress(address) || hasIpv6());
    return (reachable.length > 0 ? reachable : addresses).map((address) => ({ address, localAddress: undefined }));
  }
  return addresses.flatMap((address) => {
    const ofFamily = sendingIps.filter((ip) => isIPv6(ip) === isIPv6(address));
    const localAddress = ofFamily[Math.floor(random() * ofFamily.length)];
    return localAddress === undefined ? [] : [{ address, localAddress }];
  });
}

function hasIpv6(): boolean {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.some(({ family, internal, address }) => family === 'IPv6' && !internal && !address.startsWith('fe80:'));
}
