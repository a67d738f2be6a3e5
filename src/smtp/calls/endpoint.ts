import { isIP } from 'node:net';
import { isReachable, type PrivateNetworks } from '../../ip.ts';

const ownPorts = new Set([80, 443]);

/** Services that must not be called from here, and that read parts of an HTTP request as commands. */
const deniedPorts = new Set([
  2049, 2375, 2376, 2379, 2380, 3306, 3389, 5432, 5672, 6379, 9200, 9300, 10250, 11211, 27017,
]);

/**
 * Why this URL must not be called, or null if it may be. It must be parsed already: parsing turns every way of writing an
 * IP address (decimal, octal, hexadecimal, full-width) into the one that is checked here. A name is checked again when it
 * has been resolved.
 */
export function refuseUrl(url: URL, allowPrivate: PrivateNetworks): string | null {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must be an http or https address';
  if (url.username || url.password) return 'must not contain a user name or a password';
  const port = portOf(url);
  if (!ownPorts.has(port) && (port < 1024 || deniedPorts.has(port))) return `must not use port ${port}`;
  const host = hostOf(url);
  if (isIP(host) !== 0 && !isReachable(host, allowPrivate))
    return 'must be on the public internet: this address is private (see ALLOW_PRIVATE_NETWORKS)';
  if (isLocalhost(host) && !loopback.some((address) => isReachable(address, allowPrivate)))
    return 'must be on the public internet: this name belongs to the server itself (see ALLOW_PRIVATE_NETWORKS)';
  return null;
}

/** The port that a call to this http or https address connects to. */
export function portOf(url: URL): number {
  return Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
}

/** The host without the brackets of IPv6 and without a trailing dot. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** RFC 6761 section 6.3: a name that is loopback without a lookup. */
export const isLocalhost = (host: string) => /^(.+\.)?localhost$/i.test(host);

/** The addresses that such a name has. */
export const loopback = ['127.0.0.1', '::1'];
