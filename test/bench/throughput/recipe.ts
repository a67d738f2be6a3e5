/** One round's messages: every process can derive all of them from this. */
export interface Recipe {
  /** Distinguishes one round's messages from another's. */
  round: number;
  count: number;
  /** Bytes of html and text together, half of it each. */
  bytes: number;
  from: string;
  /** Whether the recipients' servers offer STARTTLS. */
  tls: boolean;
  domains: number;
  /** The operators who host the domains: this many, with one host each. */
  sites: number;
  /** All have the same bodies; otherwise each begins and ends with its own words. */
  sameBody: boolean;
}

/** The name of an operator's zone; its domains are `d<n>.` under it, and their host is `mx.` under it. */
export const siteName = (tls: boolean, site: number) => `${tls ? 'tls' : 'plain'}${site}.test`;

export function recipientOf({ round, tls, domains, sites }: Recipe, index: number): string {
  const domain = index % domains;
  return `r${round}.u${index}@d${domain}.${siteName(tls, domain % sites)}`;
}

/** The round and the message of an address from `recipientOf`; null for others. */
export function messageOf(address: string): { round: number; index: number } | null {
  const [, round, index] = /^r(\d+)\.u(\d+)@/.exec(address) ?? [];
  return round === undefined ? null : { round: Number(round), index: Number(index) };
}

export const subjectOf = ({ round }: Recipe, index: number) =>
  `Your order ${4_000_000 + round * 100_000 + index} has left our warehouse`;

/** Milliseconds on a clock that all processes of the machine share. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;
