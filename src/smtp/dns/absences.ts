import type { DecodedPacket, RecordType } from 'dns-packet';
import { askByUdp, nameServerOf, queryFor } from './dns-query.ts';

const recursiveForMs = 3_600_000;
const silentForMs = 60_000;
const longestMs = 1_000;

/** The code of our own for a server that only refers to others. */
export const referral = 'EREFERRAL';

/**
 * Tells "there is none" from what c-ares takes for the same: the referral of a name server that looks nothing up itself, and
 * response codes that it does not know. A server that offers recursion is not asked about AAAA again for an hour: most hosts have
 * none.
 */
export class Absences {
  readonly #known = new Map<string, { isRecursive: boolean; until: number }>();

  /** The error code of what the first of these servers that answers says instead; null: it says that there is none. */
  async saidInstead(servers: string[], name: string, type: RecordType): Promise<string | null> {
    for (const server of servers) {
      const known = this.#known.get(server);
      const isKnown = known !== undefined && known.until > performance.now();
      if (isKnown && known.isRecursive && type === 'AAAA') return null;
      const answer = isKnown && !known.isRecursive ? null : await this.#ask(server, name, type);
      if (answer !== null) return isReferral(answer, type) ? referral : isFailure(answer) ? 'ESERVFAIL' : null;
    }
    return null;
  }

  async #ask(server: string, name: string, type: RecordType): Promise<DecodedPacket | null> {
    const answer = await askByUdp(nameServerOf(server), queryFor(name, type), longestMs).catch(() => null);
    const isRecursive = answer?.flag_ra ?? false;
    const until = performance.now() + (isRecursive ? recursiveForMs : silentForMs);
    if (answer === null || isRecursive) this.#known.set(server, { isRecursive, until });
    return answer;
  }
}

/** c-ares has an error for each; not for YXDOMAIN, which does mean that there is none (RFC 6672 section 2.2). */
const understood = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED', 'YXDOMAIN'];

const isFailure = (answer: DecodedPacket) => !understood.includes(rcodeOf(answer));

/** dns-packet's types omit it. */
const rcodeOf = (answer: DecodedPacket) => (answer as DecodedPacket & { rcode: string }).rcode;

function isReferral(answer: DecodedPacket, type: RecordType): boolean {
  const { flag_ra, flag_aa, answers = [], authorities = [] } = answer;
  if (rcodeOf(answer) !== 'NOERROR' || flag_ra || answers.some((record) => record.type === type)) return false;
  const names = new Set(authorities.map((record) => record.type));
  // The answer to an alias is authoritative for the alias.
  return names.has('NS') && !names.has('SOA') && (!flag_aa || answers.length > 0);
}
