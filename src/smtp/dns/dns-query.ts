import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { isIPv6, connect as netConnect } from 'node:net';
import dnsPacket, { type DecodedPacket, type RecordType } from 'dns-packet';
import { sameName } from './host-name.ts';

const udpPayloadSize = 1_232;
const bytesOfTcp = 65_535;

/** A question to one name server. */
export interface Query {
  name: string;
  type: RecordType;
  id: number;
}

export interface NameServer {
  address: string;
  port: number;
}

/** An error as those of c-ares. */
export const failed = (code: string) => Object.assign(new Error(code), { code });

export const queryFor = (name: string, type: RecordType): Query => ({ name, type, id: randomInt(65_536) });

/** @param server `ip`, `ip:port` or `[ipv6]:port` */
export function nameServerOf(server: string): NameServer {
  const [, v6, v4, port = '53'] = /^(?:\[([^\]]+)\]|([0-9.]+))(?::(\d+))?$/.exec(server) ?? [];
  return { address: v6 ?? v4 ?? server, port: Number(port) };
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

/** Whether it is a response to this query, by its header and its question alone. */
function answers({ name, type, id }: Query, bytes: Buffer): boolean {
  try {
    // Without its counts of records, none is decoded.
    const packet = dnsPacket.decode(Buffer.from(bytes).fill(0, 6, 12));
    const [question, ...more] = packet.questions ?? [];
    const fits = packet.type === 'response' && packet.id === id && more.length === 0;
    return fits && question?.type === type && sameName(question.name, name);
  } catch {
    return false;
  }
}

/** Decodes an answer. Rejects with EBADRESP if it cannot be read. */
async function read(bytes: Buffer): Promise<DecodedPacket> {
  try {
    return dnsPacket.decode(bytes);
  } catch {
    throw failed('EBADRESP');
  }
}

/** The answer by UDP; other packets are ignored. Rejects with an error that has a `code`, after `ms` with ETIMEOUT. */
export function askByUdp({ address, port }: NameServer, query: Query, ms: number): Promise<DecodedPacket> {
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
      if (answers(query, bytes)) end(() => resolve(read(bytes)));
    });
    // No callback of `connect`: it would be called with an error too, which then is no event.
    socket.once('connect', () => socket.send(encode(query)));
    // A connected socket receives from this server only.
    socket.connect(port, address);
  });
}

/** The same by TCP. */
export function askByTcp({ address, port }: NameServer, query: Query, ms: number): Promise<DecodedPacket> {
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
      const message = received.subarray(2, 2 + length);
      if (answers(query, message)) end(() => resolve(read(message)));
      else broken('EBADRESP');
    });
    socket.once('connect', () => {
      const bytes = encode(query);
      const size = Buffer.alloc(2);
      size.writeUInt16BE(bytes.length);
      socket.write(Buffer.concat([size, bytes]));
    });
  });
}
