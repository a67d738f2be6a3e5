import { getDomain } from 'tldts';
import { ask } from '../../smtp/resolver.ts';
import type { Surroundings } from './record-checks.ts';

/** The domain below which names belong together: `example.co.uk` of `news.shop.example.co.uk`. */
const organisationOf = (domain: string) => getDomain(domain, { allowPrivateDomains: true }) ?? domain;

/** Relaxed alignment: both belong to one organisation's domain. */
export const isAligned = (one: string, other: string): boolean => organisationOf(one) === organisationOf(other);

/** `records` has what stands at `name` and begins as a policy does; several count as none. */
export type DmarcPolicies =
  | { kind: 'records'; name: string; records: string[] }
  | { kind: 'none' }
  | { kind: 'temporary'; reason: string };

/** What receivers go by: what the domain has itself or, where it has none, its organisation's (RFC 7489 section 6.6.3). */
export async function findDmarc(domain: string, { resolve }: Pick<Surroundings, 'resolve'>): Promise<DmarcPolicies> {
  for (const owner of new Set([domain, organisationOf(domain)])) {
    const name = `_dmarc.${owner}`;
    const answer = await ask(async () => (await resolve(name, 'TXT')) as string[][]);
    if (answer.kind === 'temporary') return answer;
    const texts = answer.kind === 'records' ? answer.records.map((chunks) => chunks.join('')) : [];
    const records = texts.filter((text) => /^v=DMARC1\s*(;|$)/.test(text));
    if (records.length > 0) return { kind: 'records', name, records };
  }
  return { kind: 'none' };
}
