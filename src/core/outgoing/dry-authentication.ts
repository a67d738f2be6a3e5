import { cleanRemoteText } from '../../smtp/replies/reply.ts';
import { findDmarc, isAligned } from '../domains/dmarc.ts';
import type { Surroundings } from '../domains/record-checks.ts';
import { askSpf } from '../domains/spf.ts';
import type { Signing } from './outgoing-message.ts';

/** How a receiver would see the message, and whether what passes is aligned with the `From` domain (RFC 7489 section 3.1). */
export interface Authentication {
  dkim: { domain: string; selector: string; aligned: boolean };
  spf: { domain: string; results: { ip: string; result: string }[]; aligned: boolean };
  dmarc: { record: string | null; wouldPass: boolean };
}

const spfTimeoutMs = 10_000;

/**
 * @param from the domain of the `From` field
 * @param late when it resolves, what is not known yet is no longer waited for
 */
export async function authenticate(
  from: string,
  signing: Pick<Signing, 'domain' | 'keys'>,
  where: Surroundings,
  late: Promise<unknown>,
): Promise<Authentication> {
  const { mailHostname, sendingIps, resolve } = where;
  const sender = `bounces@${mailHostname}`;
  const spfOf = async (ip: string) => {
    const answer = askSpf({ sender, ip, mailHostname, resolve, timeoutMs: spfTimeoutMs });
    const { result } = await Promise.race([answer, late.then(() => ({ result: 'temperror' }))]);
    return { ip, result };
  };
  const [results, found] = await Promise.all([
    Promise.all(sendingIps.map(spfOf)),
    Promise.race([findDmarc(from, where), late.then(() => null)]),
  ]);
  const dkim = {
    domain: signing.domain,
    selector: signing.keys[0]?.selector ?? '',
    aligned: isAligned(signing.domain, from),
  };
  const spfAligned = isAligned(mailHostname, from);
  const spfPasses = results.length > 0 && results.every(({ result }) => result === 'pass');
  // Several records count as none. If the lookup fails now, the email would be sent all the same.
  const [policy, ...others] = found?.kind === 'records' ? found.records : [];
  const record = policy === undefined || others.length > 0 ? null : cleanRemoteText(policy, 500);
  return {
    dkim,
    spf: { domain: mailHostname, results, aligned: spfAligned },
    dmarc: { record, wouldPass: dkim.aligned || (spfAligned && spfPasses) },
  };
}
