/** One round's messages: from this alone everybody knows all of them. */
export interface Recipe {
  /** Tells the messages of one round from another's. */
  round: number;
  count: number;
  /** Bytes of html and text together, half of it each. */
  bytes: number;
  from: string;
  /** Whether the recipients' servers offer STARTTLS. */
  tls: boolean;
  domains: number;
  /** Whose servers the domains belong to: so many operators, with a host each. */
  sites: number;
  /** All have the same bodies; else each begins and ends with words of its own. */
  sameBody: boolean;
}

/** The name of an operator's zone; its domains are `d<n>.` in front of it, their host is `mx.` in front of it. */
export const siteName = (tls: boolean, site: number) => `${tls ? 'tls' : 'plain'}${site}.test`;

export function recipientOf({ round, tls, domains, sites }: Recipe, index: number): string {
  const domain = index % domains;
  return `r${round}.u${index}@d${domain}.${siteName(tls, domain % sites)}`;
}

/** The round and the message that an address of `recipientOf` names; null: it is none. */
export function messageOf(address: string): { round: number; index: number } | null {
  const [, round, index] = /^r(\d+)\.u(\d+)@/.exec(address) ?? [];
  return round === undefined ? null : { round: Number(round), index: Number(index) };
}

export const subjectOf = ({ round }: Recipe, index: number) =>
  `Your order ${4_000_000 + round * 100_000 + index} has left our warehouse`;

/** Milliseconds on a clock that all processes of the machine share. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;
