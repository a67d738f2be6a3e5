import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import dnsPacket, { type DecodedPacket, type Packet, type Question, type StringAnswer } from 'dns-packet';
import { comparableName } from '../smtp/dns/host-name.ts';

/** One record of an answer: `data` as dns-packet takes it, except that a TXT's text may have any length; `ttl` in seconds. */
export interface AnswerRecord {
  type: string;
  data: unknown;
  ttl: number;
  /** The record's owner, if it is not the queried name, as at the end of a CNAME chain. */
  name?: string;
}

/** `drop` sends nothing. NOERROR without records means that the name has none of this type. */
export type Answer =
  | {
      rcode: 'NOERROR' | 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED';
      records: AnswerRecord[];
      /** Sets the AD bit (the answer was validated) if the query asks for it. */
      authentic?: boolean;
    }
  | 'drop';

export interface DnsServer {
  /** `ip:port`, the same for UDP and TCP, as a resolver's server list takes it. */
  address: string;
  close(): Promise<void>;
}

const rcodes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const plainUdpSize = 512;
const maxUdpSize = 1_232;
const idleTcpMs = 10_000;
const maxTcpConnections = 100;

/**
 * A small authoritative DNS server on loopback. `answer` gets the name in lower case without a trailing dot, and the
 * type in capitals; if it throws, the answer is SERVFAIL. Answers too long for UDP are truncated, so that the client asks
 * again over TCP. Packets that are not a query are ignored.
 */
export async function startDnsServer(options: {
  answer: (name: string, type: string) => Promise<Answer> | Answer;
  host?: string;
  port?: number;
}): Promise<DnsServer> {
  const { answer, host = '127.0.0.1', port = 0 } = options;
  const { tcp, udp } = await listenOnBoth(host, port);
  const connections = new Set<Socket>();

  udp.on('message', (packet: Buffer, peer: RemoteInfo) => {
    void reply(packet, answer, true).then((response) => {
      if (response !== null) udp.send(response, peer.port, peer.address, () => {});
    });
  });
  udp.on('error', () => {});
  tcp.on('connection', (socket) => {
    connections.add(socket);
    socket.on('close', () => connections.delete(socket));
    serveTcp(socket, answer);
  });

  const bound = tcp.address() as AddressInfo;
  return {
    address: `${host}:${bound.port}`,
    async close() {
      for (const socket of connections) socket.destroy();
      const closed = [once(tcp, 'close'), once(udp, 'close')];
      tcp.close();
      udp.close();
      await Promise.all(closed);
    },
  };
}

/** A TCP server and a UDP socket on one port; 0: any that is free for both. Throws Node's error when it cannot listen. */
export async function listenOnBoth(host: string, port: number): Promise<{ tcp: Server; udp: UdpSocket }> {
  // A free TCP port may be taken for UDP.
  for (let left = 10; ; left--) {
    const tcp = createServer();
    tcp.maxConnections = maxTcpConnections;
    tcp.listen(port, host);
    await once(tcp, 'listening');
    const udp = createSocket('udp4');
    udp.bind((tcp.address() as AddressInfo).port, host);
    try {
      await once(udp, 'listening');
      return { tcp, udp };
    } catch (error) {
      tcp.close();
      if (port !== 0 || left === 0) throw error;
    }
  }
}

type AnswerFor = (name: string, type: string) => Promise<Answer> | Answer;

function serveTcp(socket: Socket, answer: AnswerFor): void {
  let pending = Buffer.alloc(0);
  socket.setTimeout(idleTcpMs, () => socket.destroy());
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
      const length = pending.readUInt16BE(0);
      const packet = pending.subarray(2, 2 + length);
      pending = pending.subarray(2 + length);
      void reply(packet, answer, false).then((response) => {
        if (response === null || socket.destroyed) return;
        const size = Buffer.alloc(2);
        size.writeUInt16BE(response.length);
        socket.write(Buffer.concat([size, response]));
      });
    }
  });
}

async function reply(packet: Buffer, answerFor: AnswerFor, udp: boolean): Promise<Buffer | null> {
  const query = decode(packet);
  const question = query?.questions?.[0];
  if (query === null || question === undefined || query.type !== 'query' || query.questions?.length !== 1) return null;
  const name = comparableName(question.name);
  const answer = await askFor(answerFor, name, question.type);
  if (answer === 'drop') return null;

  const edns = query.additionals?.find((record) => record.type === 'OPT');
  const asked = edns?.type === 'OPT' ? edns.udpPayloadSize : plainUdpSize;
  const limit = udp ? Math.min(Math.max(asked, plainUdpSize), maxUdpSize) : 65_535;
  const response = responseTo(query, question, answer, edns !== undefined);
  const encoded = encode(response);
  if (encoded !== null && encoded.length <= limit) return encoded;
  const isTruncated = encoded !== null && udp;
  const flags = isTruncated ? response.flags | dnsPacket.TRUNCATED_RESPONSE : (response.flags & ~15) | rcodes.SERVFAIL;
  return encode({ ...response, answers: [], flags });
}

function responseTo(query: DecodedPacket, question: Question, answer: Exclude<Answer, 'drop'>, usesEdns: boolean) {
  const asked = query.flags ?? 0;
  return {
    id: query.id ?? 0,
    type: 'response',
    flags:
      dnsPacket.AUTHORITATIVE_ANSWER |
      // Without it our resolver would ask again whether "there is none" is a referral.
      dnsPacket.RECURSION_AVAILABLE |
      (asked & dnsPacket.RECURSION_DESIRED) |
      (answer.authentic ? asked & dnsPacket.AUTHENTIC_DATA : 0) |
      rcodes[answer.rcode],
    questions: [question],
    answers: answer.records.map((record) => encodable(record, question.name)),
    additionals: usesEdns
      ? [
          {
            type: 'OPT',
            name: '.',
            udpPayloadSize: maxUdpSize,
            extendedRcode: 0,
            ednsVersion: 0,
            flags: 0,
            flag_do: false,
            options: [],
          },
        ]
      : [],
  } satisfies Packet;
}

async function askFor(answerFor: AnswerFor, name: string, type: string): Promise<Answer> {
  try {
    return await answerFor(name, type);
  } catch {
    return { rcode: 'SERVFAIL', records: [] };
  }
}

function encodable(record: AnswerRecord, asked: string): StringAnswer {
  const data = record.type === 'TXT' ? chunks(record.data) : record.data;
  // Cast, because dns-packet has one type per record type; encoding checks whether the data fits.
  return { type: record.type, name: record.name ?? asked, ttl: record.ttl, class: 'IN', data } as StringAnswer;
}

/** A TXT record holds strings of at most 255 bytes (RFC 1035 section 3.3.14). */
function chunks(data: unknown): Buffer[] {
  return (Array.isArray(data) ? data : [data]).flatMap((part) => {
    const bytes = Buffer.isBuffer(part) ? part : Buffer.from(String(part));
    const count = Math.max(1, Math.ceil(bytes.length / 255));
    return Array.from({ length: count }, (_, at) => bytes.subarray(at * 255, at * 255 + 255));
  });
}

function decode(packet: Buffer): DecodedPacket | null {
  try {
    return dnsPacket.decode(packet);
  } catch {
    return null;
  }
}

function encode(packet: Packet): Buffer | null {
  try {
    return dnsPacket.encode(packet);
  } catch {
    return null;
  }
}
