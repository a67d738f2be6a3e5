import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer } from './resolver.ts';

/**
 * How long IPv6 addresses are still waited for once there are IPv4 ones, in milliseconds: some name servers never answer for
 * AAAA. RFC 8305 section 3 proposes 50, for people who wait; this is enough for a resolver to ask once more.
 */
const resolutionDelayMs = 500;

type Family = 'ipv6' | 'ipv4';

/**
 * Both answers of look-ups that have begun. IPv6 ones that come much later than IPv4 addresses count as no answer.
 *
 * @param onlyIpv6 IPv4 addresses are of no use, and no reason not to wait
 */
export async function withResolutionDelay(
  { ipv6, ipv4 }: Record<Family, Promise<Answer<string>>>,
  { onlyIpv6 = false, delayMs = resolutionDelayMs }: { onlyIpv6?: boolean; delayMs?: number } = {},
): Promise<Record<Family, Answer<string>>> {
  const over = new AbortController();
  const late = ipv4.then(({ kind }) =>
    kind === 'records' && !onlyIpv6 ? sleep(delayMs, silent, { signal: over.signal }) : ipv6,
  );
  // The wait that is no longer needed ends with an error.
  late.catch(() => undefined);
  try {
    const [ofIpv6, ofIpv4] = await Promise.all([Promise.race([ipv6, late]), ipv4]);
    return { ipv6: ofIpv6, ipv4: ofIpv4 };
  } finally {
    over.abort();
  }
}

const silent: Answer<string> = { kind: 'temporary', reason: 'the name server did not answer in time', untried: false };
