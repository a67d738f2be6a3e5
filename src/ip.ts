import ipaddr from 'ipaddr.js';

// 2000::/3 is all of IPv6 that is given out. These parts of it carry an IPv4 address inside, are not routed, or are kept
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
 * True only for an address of the public internet: global unicast, and no form of IPv6 that has an IPv4 address
 * inside. Text that is not exactly an IP address is not public.
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
