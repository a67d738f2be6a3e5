import { isIP, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A range of addresses: its first one, and how many bits they share. */
export type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Which addresses outside the public internet may be talked to: none, all, or those in these networks. */
export type PrivateNetworks = boolean | readonly Network[];

// 2000::/3 is all of IPv6 that is allocated. These parts of it contain an IPv4 address, are not routed, or are reserved
// for protocols and documentation (RFC 6890, RFC 9637).
const specialBlocks = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '2620:4f:8000::/48'].map((block) =>
  ipaddr.IPv6.parseCIDR(block),
);
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

// ipaddr.js calls these unicast.
const specialIpv4 = ['192.88.99.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.175.48.0/24', '168.63.129.16/32'].map(
  (block) => ipaddr.IPv4.parseCIDR(block),
);

/**
 * True only for an address of the public internet: global unicast, and no form of IPv6 that contains an IPv4 address.
 * Text that is not exactly an IP address is not public.
 */
export function isPublicAddress(ip: string): boolean {
  if (ipaddr.IPv4.isValidFourPartDecimal(ip)) {
    const address = ipaddr.IPv4.parse(ip);
    return address.range() === 'unicast' && !specialIpv4.some((block) => address.match(block));
  }
  if (!ipaddr.IPv6.isValid(ip) || ip.includes('%')) return false;
  const address = ipaddr.IPv6.parse(ip);
  return address.match(globalUnicast) && !specialBlocks.some((block) => address.match(block));
}

/** True for an address that packets leave no machine from or for: 127.0.0.0/8 and ::1. */
export const isLoopback = (ip: string) => rangeOf(ip) === 'loopback';

/** True for an address by which any machine reaches itself: loopback, 0.0.0.0 and ::. */
export const reachesItself = (ip: string) => isLoopback(ip) || rangeOf(ip) === 'unspecified';

const rangeOf = (ip: string) => (ipaddr.isValid(ip) ? ipaddr.process(ip).range() : null);

/** True for an address of the public internet, and for one in a network that is allowed. */
export function isReachable(ip: string, allowed: PrivateNetworks): boolean {
  if (allowed === true) return true;
  return isPublicAddress(ip) || (allowed !== false && allowed.some((network) => contains(network, ip)));
}

/**
 * An address as connections and failed logins are counted: for IPv6 the /64, as whoever has one of its addresses has all.
 * Text that is no address is returned unchanged.
 */
export function networkOf(address: string): string {
  const text = address.split('%', 1)[0] ?? '';
  if (!ipaddr.isValid(text)) return address;
  const parsed = ipaddr.process(text);
  return parsed.kind() === 'ipv6' ? parsed.toNormalizedString().split(':').slice(0, 4).join(':') : parsed.toString();
}

/**
 * An address in one spelling: IPv6 in its shortest form (RFC 5952), an IPv4-mapped one as IPv4. Null if it is not an IP address,
 * or is one of a single link.
 */
export function canonicalAddress(text: string): string | null {
  if (isIP(text) === 0 || text.includes('%')) return null;
  if (!isIPv6(text)) return text;
  // ipaddr.js reads ::10.1.2.3 as an IPv4-mapped address, the system does not. Nobody has one of those any more.
  if (text.startsWith('::') && text.includes('.') && !text.includes(':', 2)) return null;
  const address = ipaddr.IPv6.parse(text);
  return address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : address.toRFC5952String();
}

function contains([first, length]: Network, ip: string): boolean {
  if (ip.includes('%') || !(ipaddr.IPv4.isValidFourPartDecimal(ip) || ipaddr.IPv6.isValid(ip))) return false;
  // ipaddr.js reads ::10.1.2.3 as an IPv4-mapped address, the system does not.
  if (ip.includes(':') && ip.includes('.') && !/^::ffff:/i.test(ip)) return false;
  // A connection to an IPv4-mapped address goes to the IPv4 address in it, so that is the one to check.
  const address = ipaddr.process(ip);
  return address.kind() === first.kind() && address.match(first, length);
}

/**
 * A network in CIDR notation, such as `10.1.0.0/16` or `fd00::/8`. All addresses, and IPv4 written as IPv6, are refused.
 *
 * @throws Error that says what is wrong with it, in words that follow it
 */
export function parseNetwork(text: string): Network {
  const [, ip = '', bits = ''] = /^([0-9a-fA-F:.]{2,45})\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const isIpv4 = ipaddr.IPv4.isValidFourPartDecimal(ip);
  if (!isIpv4 && !ipaddr.IPv6.isValid(ip)) throw new Error('is not a network');
  const length = Number(bits);
  const most = isIpv4 ? 32 : 128;
  if (length > most) throw new Error(`has a length of more than ${most}`);
  if (length === 0) throw new Error('is every address: use true for that');
  const family = isIpv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const given = family.parse(ip);
  const first = family.networkAddressFromCIDR(`${ip}/${length}`);
  if (given.toNormalizedString() !== first.toNormalizedString())
    throw new Error(`is not a network but an address in ${first.toString()}/${length}`);
  if (first instanceof ipaddr.IPv6 && first.isIPv4MappedAddress()) throw new Error('must be written as IPv4');
  return [first, length];
}
