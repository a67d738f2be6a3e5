import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { isIPv6, connect as netConnect } from 'node:net';
import dnsPacket, { type DecodedPacket, type Answer as DnsRecord, type RecordType } from 'dns-packet';
import { sameName } from './host-name.ts';
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

const udpPayloadSize = 1_232;
const bytesOfTcp = 65_535;

/**
 * Asks one resolver that validates DNSSEC and says so with the AD bit, which `node:dns` does not expose. Its word is
 * trusted: it must run on this machine, or on a network that nobody else can write to (RFC 7672 section 2.1).
 */
export class ValidatingResolver {
  readonly #server: { address: string; port: number };
  readonly #options: Required<ValidatingResolverOptions>;

  /** @param server `ip`, `ip:port` or `[ipv6]:port` */
  constructor(server: string, options: ValidatingResolverOptions = {}) {
    const [, v6, v4, port = '53'] = /^(?:\[([^\]]+)\]|([0-9.]+))(?::(\d+))?$/.exec(server) ?? [];
    this.#server = { address: v6 ?? v4 ?? server, port: Number(port) };
    this.#options = { timeoutMs: 3_000, tries: 2, mostMs: 10_000, cache: new DnsCache(), ...options };
  }

  /** One answer as `records`, even if it has none; or `temporary`, which includes an answer that failed validation. */
  query(name: string, type: RecordType): Promise<Answer<SecureAnswer>> {
    return this.#options.cache.get(`secure ${type}:${name}`, async () => [await this.#ask(name, type)]);
  }

  async #ask(name: string, type: RecordType): Promise<SecureAnswer> {
    const { timeoutMs, tries, mostMs } = this.#options;
    const query: Query = { name, type, id: randomInt(65_536) };
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

interface Query {
  name: string;
  type: RecordType;
  id: number;
}

interface Server {
  address: string;
  port: number;
}

const failed = (code: string) => Object.assign(new Error(code), { code });

function read(answer: DecodedPacket): SecureAnswer {
  // dns-packet's types omit the response code.
  const { rcode } = answer as DecodedPacket & { rcode: string };
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN') throw failed(rcode === 'REFUSED' ? 'EREFUSED' : 'ESERVFAIL');
  return { secure: answer.flag_ad, records: answer.answers ?? [] };
}

function encode({ name, type, id }: Query): Buffer {
  return dnsPacket.encode({
    type: 'query',
    id,
    flags: dnsPacket.RECURSION_DESIRED | dnsPacket.AUTHENTIC_DATA,
    questions: [{ name, type }],
    additionals: [
      {
        type: 'OPT',
        name: '.',
        udpPayloadSize,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: dnsPacket.DNSSEC_OK,
        flag_do: true,
        options: [],
      },
    ],
  });
}

/** Decodes the answer to this query; null for any other packet. */
function answerTo({ name, type, id }: Query, bytes: Buffer): DecodedPacket | null {
  try {
    const packet = dnsPacket.decode(bytes);
    const [question, ...more] = packet.questions ?? [];
    const fits = packet.type === 'response' && packet.id === id && more.length === 0;
    return fits && question?.type === type && sameName(question.name, name) ? packet : null;
  } catch {
    return null;
  }
}

function askByUdp({ address, port }: Server, query: Query, ms: number): Promise<DecodedPacket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    const timer = setTimeout(() => end(() => reject(failed('ETIMEOUT'))), ms);
    const end = (settle: () => void) => {
      clearTimeout(timer);
      socket.close();
      settle();
    };
    socket.once('error', (error: NodeJS.ErrnoException) => end(() => reject(failed(error.code ?? 'ESERVFAIL'))));
    socket.on('message', (bytes) => {
      const answer = answerTo(query, bytes);
      if (answer !== null) end(() => resolve(answer));
    });
    // No callback of `connect`: it would be called with an error too, which then is no event.
    socket.once('connect', () => socket.send(encode(query)));
    // A connected socket receives from this server only.
    socket.connect(port, address);
  });
}

function askByTcp({ address, port }: Server, query: Query, ms: number): Promise<DecodedPacket> {
  return new Promise((resolve, reject) => {
    const socket = netConnect({ host: address, port });
    const timer = setTimeout(() => end(() => reject(failed('ETIMEOUT'))), ms);
    const end = (settle: () => void) => {
      clearTimeout(timer);
      socket.destroy();
      settle();
    };
    const broken = (code: string) => end(() => reject(failed(code)));
    let received = Buffer.alloc(0);
    socket.on('error', (error: NodeJS.ErrnoException) => broken(error.code ?? 'ESERVFAIL'));
    socket.on('close', () => broken('EBADRESP'));
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const length = received.length < 2 ? bytesOfTcp : received.readUInt16BE(0);
      if (received.length < 2 + length) return;
      const answer = answerTo(query, received.subarray(2, 2 + length));
      if (answer === null) broken('EBADRESP');
      else end(() => resolve(answer));
    });
    socket.once('connect', () => {
      const bytes = encode(query);
      const size = Buffer.alloc(2);
      size.writeUInt16BE(bytes.length);
      socket.write(Buffer.concat([size, bytes]));
    });
  });
}
