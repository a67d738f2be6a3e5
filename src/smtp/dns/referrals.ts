import type { DecodedPacket, RecordType } from 'dns-packet';
import { askByUdp, nameServerOf, queryFor } from './dns-query.ts';

const recursiveForMs = 3_600_000;
const silentForMs = 60_000;
const longestMs = 1_000;

/**
 * Tells "there is none" from the referral of a name server that looks nothing up itself, which c-ares takes for the same. A
 * server that offers recursion is not asked again for an hour.
 */
export class Referrals {
  readonly #known = new Map<string, { isRecursive: boolean; until: number }>();

  /** Whether the first of these servers that answers only refers to others for this name. */
  async isOne(servers: string[], name: string, type: RecordType): Promise<boolean> {
    for (const server of servers) {
      const known = this.#known.get(server);
      const isKnown = known !== undefined && known.until > performance.now();
      if (isKnown && known.isRecursive) return false;
      const answer = isKnown ? null : await this.#ask(server, name, type);
      if (answer !== null) return isReferral(answer, type);
    }
    return false;
  }

  async #ask(server: string, name: string, type: RecordType): Promise<DecodedPacket | null> {
    const answer = await askByUdp(nameServerOf(server), queryFor(name, type), longestMs).catch(() => null);
    const isRecursive = answer?.flag_ra ?? false;
    const until = performance.now() + (isRecursive ? recursiveForMs : silentForMs);
    if (answer === null || isRecursive) this.#known.set(server, { isRecursive, until });
    return answer;
  }
}

function isReferral(answer: DecodedPacket, type: RecordType): boolean {
  // dns-packet's types omit the response code.
  const { rcode, flag_ra, flag_aa, answers = [], authorities = [] } = answer as DecodedPacket & { rcode: string };
  if (rcode !== 'NOERROR' || flag_ra || answers.some((record) => record.type === type)) return false;
  const names = new Set(authorities.map((record) => record.type));
  // The answer to an alias is authoritative for the alias.
  return names.has('NS') && !names.has('SOA') && (!flag_aa || answers.length > 0);
}
