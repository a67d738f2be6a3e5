import type { ApiKey, Domain } from '../../../client/index.ts';
import { standing } from './key-standing.ts';

/** A key and a domain for a first email, and why there is no key, as a sentence. */
export interface FirstSender {
  /** Verified; undefined: no domain is. */
  domain: Domain | undefined;
  /** Undefined: no key may send from a verified domain. */
  key: ApiKey | undefined;
  lacking: string | null;
}

/** Whether a key may send from this domain. */
export const maySendFrom = ({ scopes, domains }: Pick<ApiKey, 'scopes' | 'domains'>, domain: string): boolean =>
  scopes.includes('send') && (domains.length === 0 || domains.includes(domain));

/** Chooses the newest key that may send from a verified domain, and the newest such domain. Both lists are newest first. */
export function chooseSender(domains: Domain[], keys: ApiKey[]): FirstSender {
  const verified = domains.filter(({ status }) => status === 'verified');
  const active = keys.filter((key) => standing(key) === 'active');
  for (const key of active) {
    const domain = verified.find((one) => maySendFrom(key, one.domain));
    if (domain) return { domain, key, lacking: null };
  }
  const [domain] = verified;
  const sending = active.filter(({ scopes }) => scopes.includes('send'));
  // Whatever domain is verified next, such a key may send from it.
  const key = domain ? undefined : sending.find((one) => one.domains.length === 0);
  return { domain, key, lacking: key ? null : whyNone(sending[0], active[0]) };
}

function whyNone(sending: ApiKey | undefined, active: ApiKey | undefined): string | null {
  if (sending) {
    const { name, domains } = sending;
    const unverified = domains.length === 1 ? 'which is not verified' : 'and none of these is verified';
    return `“${name}” may send only from ${domains.join(', ')}, ${unverified}.`;
  }
  return active ? `“${active.name}” has no permission to send.` : null;
}
