import { getDomain } from 'tldts';
import { ask, type Resolve } from '../../smtp/dns/resolver.ts';
import type { DnsRecord } from './domains.ts';

/**
 * Looks for a missing record where it goes when somebody enters its whole name in the form of a DNS provider that appends the
 * zone to it: `_sendwright.example.com.example.com`. The zone is the domain itself or the registered domain above it.
 *
 * @returns what to do about it; null if it is not there either
 */
export async function findAppended(record: DnsRecord, domain: string, resolve: Resolve): Promise<string | null> {
  for (const zone of new Set([domain, getDomain(domain, { allowPrivateDomains: true }) ?? domain])) {
    const name = `${record.name}.${zone}`;
    const answer = await ask(() => resolve(name, 'TXT'));
    const texts = answer.kind === 'records' ? answer.records.map((chunks) => chunks.join('')) : [];
    if (!texts.includes(record.value)) continue;
    const rest = record.name === zone ? '@' : record.name.slice(0, -`.${zone}`.length);
    return `there is no TXT record at ${record.name}, but it is at ${name}: your DNS provider appends ${zone} to what you enter, so enter ${rest} as the name`;
  }
  return null;
}
