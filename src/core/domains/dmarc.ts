import { getDomain } from 'tldts';
import { ask } from '../../smtp/dns/resolver.ts';
import type { Surroundings } from './record-checks.ts';

/** The organizational domain: `example.co.uk` of `news.shop.example.co.uk`. */
const organizationOf = (domain: string) => getDomain(domain, { allowPrivateDomains: true }) ?? domain;

/** Relaxed alignment: both belong to the same organizational domain. */
export const isAligned = (one: string, other: string): boolean => organizationOf(one) === organizationOf(other);

/** The same for the domain of the return path, which a policy can ask to be the very domain in `From` (RFC 7489 section 3.1.2). */
export const isSpfAligned = (returnPath: string, from: string, policy: string | null): boolean =>
  /;\s*aspf\s*=\s*s\s*(;|$)/i.test(policy ?? '') ? returnPath === from : isAligned(returnPath, from);

/** `records` has the records at `name` that begin like a policy; receivers ignore them if there are several. */
export type DmarcPolicies =
  | { kind: 'records'; name: string; records: string[] }
  | { kind: 'none' }
  | { kind: 'temporary'; reason: string };

/** The policy that receivers apply: the domain's own or, if it has none, its organization's (RFC 7489 section 6.6.3). */
export async function findDmarc(domain: string, { resolve }: Pick<Surroundings, 'resolve'>): Promise<DmarcPolicies> {
  for (const owner of new Set([domain, organizationOf(domain)])) {
    const name = `_dmarc.${owner}`;
    const answer = await ask(() => resolve(name, 'TXT'));
    if (answer.kind === 'temporary') return answer;
    const texts = answer.kind === 'records' ? answer.records.map((chunks) => chunks.join('')) : [];
    const records = texts.filter((text) => /^v=DMARC1\s*(;|$)/.test(text));
    if (records.length > 0) return { kind: 'records', name, records };
  }
  return { kind: 'none' };
}
