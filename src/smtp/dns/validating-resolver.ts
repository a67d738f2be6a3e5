import type { DecodedPacket, Answer as DnsRecord, RecordType } from 'dns-packet';
import { askByTcp, askByUdp, failed, type NameServer, nameServerOf, queryFor } from './dns-query.ts';
import { type Answer, DnsCache } from './resolver.ts';

/** What a validating resolver says about a name and a type. */
export interface SecureAnswer {
  /** True if the resolver vouches for the answer by DNSSEC (the AD bit), even for "there is none". */
  secure: boolean;
  records: DnsRecord[];
}

export interface ValidatingResolverOptions {
  /** For each try, in milliseconds. */
  timeoutMs?: number;
  tries?: number;
  /** For all tries together, each of which may ask by UDP and then by TCP, in milliseconds. */
  mostMs?: number;
  cache?: DnsCache;
}

/**
 * Asks one resolver that validates DNSSEC and says so with the AD bit, which `node:dns` does not expose. Its word is
 * trusted: it must run on this machine, or on a network that nobody else can write to (RFC 7672 section 2.1).
 */
export class ValidatingResolver {
  readonly #server: NameServer;
  readonly #options: Required<ValidatingResolverOptions>;

  /** @param server `ip`, `ip:port` or `[ipv6]:port` */
  constructor(server: string, options: ValidatingResolverOptions = {}) {
    this.#server = nameServerOf(server);
    this.#options = { timeoutMs: 3_000, tries: 2, mostMs: 10_000, cache: new DnsCache(), ...options };
  }

  /** One answer as `records`, even if it has none; or `temporary`, which includes an answer that failed validation. */
  query(name: string, type: RecordType): Promise<Answer<SecureAnswer>> {
    return this.#options.cache.get(`secure ${type}:${name}`, async () => [await this.#ask(name, type)]);
  }

  async #ask(name: string, type: RecordType): Promise<SecureAnswer> {
    const { timeoutMs, tries, mostMs } = this.#options;
    const query = queryFor(name, type);
    const until = performance.now() + mostMs;
    const leftMs = () => Math.min(timeoutMs, until - performance.now());
    let failure: unknown = failed('ETIMEOUT');
    for (let left = tries; left > 0 && leftMs() > 0; left--) {
      try {
        const answer = await askByUdp(this.#server, query, leftMs());
        const whole = answer.flag_tc ? await askByTcp(this.#server, query, leftMs()) : answer;
        // An answer truncated over TCP too may lack the records that matter.
        if (whole.flag_tc) throw failed('EBADRESP');
        return read(whole);
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }
}

function read(answer: DecodedPacket): SecureAnswer {
  // dns-packet's types omit the response code.
  const { rcode } = answer as DecodedPacket & { rcode: string };
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN') throw failed(rcode === 'REFUSED' ? 'EREFUSED' : 'ESERVFAIL');
  return { secure: answer.flag_ad, records: answer.answers ?? [] };
}
