import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import dnsPacket, { type Answer, type Packet } from 'dns-packet';
import { listenOnBoth } from '../../src/sandbox/dns.ts';

export interface RawQuestion {
  id: number;
  name: string;
  type: string;
  over: 'udp' | 'tcp';
  /** Whether it has EDNS options (RFC 6891), which old servers refuse. */
  edns: boolean;
}

/** The reply to a question: these packets, one after the other; `hang up` closes the connection. */
export type RawAnswer = Buffer[] | 'hang up';

/** A DNS server on loopback that sends what no decent one would. */
export async function startRawDns(
  t: { teardown(work: () => Promise<void>): void },
  answer: (question: RawQuestion) => RawAnswer,
): Promise<{ address: string }> {
  const { tcp, udp } = await listenOnBoth('127.0.0.1', 0);
  const { port } = tcp.address() as AddressInfo;
  const sockets = new Set<Socket>();
  udp.on('message', (bytes, peer) => {
    const packets = answer(questionIn(bytes, 'udp'));
    for (const packet of Array.isArray(packets) ? packets : []) udp.send(packet, peer.port, peer.address);
  });
  tcp.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    let pending = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      pending = Buffer.concat([pending, bytes]);
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const end = 2 + pending.readUInt16BE(0);
        const packets = answer(questionIn(pending.subarray(2, end), 'tcp'));
        pending = pending.subarray(end);
        if (!Array.isArray(packets)) return void socket.destroy();
        for (const packet of packets)
          socket.write(Buffer.concat([Buffer.from([packet.length >> 8, packet.length & 255]), packet]));
      }
    });
  });
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    const closed = [once(tcp, 'close'), once(udp, 'close')];
    udp.close();
    tcp.close();
    await Promise.all(closed);
  });
  return { address: `127.0.0.1:${port}` };
}

function questionIn(bytes: Buffer, over: 'udp' | 'tcp'): RawQuestion {
  const { id = 0, questions, additionals = [] } = dnsPacket.decode(bytes);
  const { name = '', type = '' } = questions?.[0] ?? {};
  return { id, name: name.toLowerCase(), type, over, edns: additionals.some((record) => record.type === 'OPT') };
}

export const rcodes = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  YXDOMAIN: 6,
  NOTAUTH: 9,
};

/** A well-formed answer, except for these changes. */
export function packet(
  { id, name, type }: RawQuestion,
  answers: Omit<Answer, 'name'>[],
  changed: Partial<Packet> & { rcode?: keyof typeof rcodes } = {},
): Buffer {
  const { rcode = 'NOERROR', flags = 0, ...rest } = changed;
  return dnsPacket.encode({
    id,
    type: 'response',
    flags: dnsPacket.RECURSION_DESIRED | dnsPacket.RECURSION_AVAILABLE | flags | rcodes[rcode],
    questions: [{ name, type: type as 'A' }],
    answers: answers.map((one) => ({ name, ttl: 0, class: 'IN', ...one }) as Answer),
    ...rest,
  });
}
