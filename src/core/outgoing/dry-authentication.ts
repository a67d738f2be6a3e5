import type { Domain } from '../../generated/prisma/client.ts';
import { cleanRemoteText } from '../../smtp/replies/reply.ts';
import { findDmarc, isAligned, isSpfAligned } from '../domains/dmarc.ts';
import { checkSigning, type Surroundings } from '../domains/record-checks.ts';
import { askSpf } from '../domains/spf.ts';

/** How a receiver would see the message, and whether what passes is aligned with the `From` domain (RFC 7489 section 3.1). */
export interface Authentication {
  /** `problem`: why the signature could not be verified; null if it could. */
  dkim: { domain: string; selector: string; aligned: boolean; problem: string | null };
  spf: { domain: string; results: { ip: string; result: string }[]; aligned: boolean };
  dmarc: { record: string | null; wouldPass: boolean };
}

const spfTimeoutMs = 10_000;

/**
 * A verified domain still sends when its records are gone, so they are looked up now.
 *
 * @param from the domain of the `From` field
 * @param late when it resolves, what is not known yet is no longer waited for
 */
export async function authenticate(
  from: string,
  signing: Domain,
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
  const unanswered = { problem: 'the lookup of the key did not answer in time' };
  const [results, { problem }, found] = await Promise.all([
    Promise.all(sendingIps.map(spfOf)),
    Promise.race([checkSigning(signing, where), late.then(() => unanswered)]),
    Promise.race([findDmarc(from, where), late.then(() => null)]),
  ]);
  const dkim = {
    domain: signing.domain,
    selector: signing.dkimSelector,
    aligned: isAligned(signing.domain, from),
    problem,
  };
  const spfPasses = results.length > 0 && results.every(({ result }) => result === 'pass');
  // Several records count as none. If the lookup fails now, the email would be sent all the same.
  const [first = null, ...others] = found?.kind === 'records' ? found.records : [];
  const policy = others.length > 0 ? null : first;
  const spfAligned = isSpfAligned(mailHostname, from, policy);
  return {
    dkim,
    spf: { domain: mailHostname, results, aligned: spfAligned },
    dmarc: {
      record: policy && cleanRemoteText(policy, 500),
      wouldPass: (dkim.aligned && problem === null) || (spfAligned && spfPasses),
    },
  };
}
