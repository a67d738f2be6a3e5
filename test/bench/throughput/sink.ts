import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { selfSignedCertificate } from '../../../src/crypto/certificate.ts';
import { messageOf, now } from './recipe.ts';

/**
 * A separate process: the server that receives all mail. It finds the end of each message and its recipient, and
 * records the time; of a few it keeps the bytes.
 */

/** Where it listens: the second address offers STARTTLS, both have the same port. */
export const sinkHosts = { plain: '127.0.0.1', tls: '127.0.0.2' };

export type SinkOrder =
  | { begin: { round: number; count: number; keepEvery: number; replyMs?: number } }
  | { collect: true };

export type SinkNews =
  | { ready: { port: number } }
  | { begun: number }
  /** The number of different messages of the round so far; reported a few times a second, and at once when complete. */
  | { arrived: number }
  | { collected: Collected };

export interface Collected {
  /** When each message was answered with 250; 0: it never came. */
  arrivedAt: Float64Array;
  /** Messages that arrived again. */
  again: number;
  /** Messages that do not belong to this round. */
  strange: number;
  /** Some of them, as they were sent: dots still stuffed. */
  kept: { index: number; raw: Uint8Array }[];
  connections: number;
  overTls: number;
}

const state = {
  round: -1,
  arrivedAt: new Float64Array(0),
  keepEvery: 0,
  replyMs: 0,
  distinct: 0,
  again: 0,
  strange: 0,
  kept: [] as Collected['kept'],
  connections: 0,
  overTls: 0,
};
const say = (news: SinkNews) => {
  if (process.connected) process.send?.(news);
};
const endOfData = Buffer.from('\r\n.\r\n');

/** One SMTP session, which is given chunks as they arrive. */
class Session {
  #rest: Buffer = Buffer.alloc(0);
  /** The message that is being read; null between messages. */
  #data: { kept: Buffer[] | null } | null = null;
  #recipient = '';
  #socket: Socket;
  readonly #context: SecureContext | null;

  constructor(socket: Socket, context: SecureContext | null) {
    this.#socket = socket;
    this.#context = context;
    this.#listen();
    this.#reply('220 sink.test ESMTP\r\n');
  }

  #listen(): void {
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#socket.on('error', () => this.#socket.destroy());
  }

  #read(chunk: Buffer): void {
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let answer = '';
    for (;;) {
      if (this.#data) {
        const end = rest.indexOf(endOfData);
        if (end < 0) {
          // The end may be split anywhere.
          const whole = Math.max(0, rest.length - endOfData.length + 1);
          this.#data.kept?.push(Buffer.from(rest.subarray(0, whole)));
          rest = rest.subarray(whole);
          break;
        }
        this.#data.kept?.push(Buffer.from(rest.subarray(0, end + 2)));
        rest = rest.subarray(end + endOfData.length);
        this.#note(this.#data.kept);
        this.#data = null;
        answer += '250 2.0.0 taken\r\n';
        continue;
      }
      const end = rest.indexOf(10);
      if (end < 0) break;
      const line = rest.toString('latin1', 0, rest[end - 1] === 13 ? end - 1 : end);
      rest = rest.subarray(end + 1);
      const reply = this.#command(line);
      if (reply === null) return;
      answer += reply;
    }
    this.#rest = rest;
    if (answer !== '') this.#reply(answer);
  }

  #reply(text: string): void {
    const socket = this.#socket;
    if (state.replyMs === 0) socket.write(text);
    else setTimeout(() => socket.write(text), state.replyMs);
  }

  /** Null: what follows is TLS. */
  #command(line: string): string | null {
    switch (line.slice(0, 4).toUpperCase()) {
      case 'EHLO': {
        const offered = ['sink.test', 'PIPELINING', 'SIZE 52428800', '8BITMIME', 'ENHANCEDSTATUSCODES', 'SMTPUTF8'];
        if (this.#context && !(this.#socket instanceof TLSSocket)) offered.push('STARTTLS');
        return offered.map((word, at) => `250${at === offered.length - 1 ? ' ' : '-'}${word}\r\n`).join('');
      }
      case 'MAIL':
        return '250 2.1.0 fine\r\n';
      case 'RCPT':
        this.#recipient = line.slice(line.indexOf('<') + 1, line.indexOf('>'));
        return '250 2.1.5 fine\r\n';
      case 'DATA':
        this.#data = { kept: this.#isKept() ? [] : null };
        return '354 go\r\n';
      case 'STAR':
        this.#startTls();
        return null;
      case 'QUIT':
        this.#socket.end('221 2.0.0 bye\r\n');
        return '';
      default:
        return '250 2.0.0 fine\r\n';
    }
  }

  #startTls(): void {
    if (!this.#context) throw new Error('STARTTLS was not offered');
    this.#socket.removeAllListeners('data');
    this.#rest = Buffer.alloc(0);
    this.#socket.write('220 2.0.0 go\r\n');
    this.#socket = new TLSSocket(this.#socket, { isServer: true, secureContext: this.#context });
    this.#listen();
  }

  #isKept(): boolean {
    const message = messageOf(this.#recipient);
    return message !== null && message.round === state.round && message.index % state.keepEvery === 0;
  }

  #note(kept: Buffer[] | null): void {
    const message = messageOf(this.#recipient);
    if (message === null || message.round !== state.round || message.index >= state.arrivedAt.length) {
      state.strange += 1;
      return;
    }
    if (state.arrivedAt[message.index] !== 0) {
      state.again += 1;
      return;
    }
    state.arrivedAt[message.index] = now();
    if (this.#socket instanceof TLSSocket) state.overTls += 1;
    if (kept) state.kept.push({ index: message.index, raw: Buffer.concat(kept) });
    state.distinct += 1;
    if (state.distinct === state.arrivedAt.length || state.arrivedAt.length <= 200) say({ arrived: state.distinct });
  }
}

function obey(order: SinkOrder): void {
  if ('begin' in order) {
    const { round, count, keepEvery, replyMs = 0 } = order.begin;
    const arrivedAt = new Float64Array(count);
    Object.assign(state, {
      round,
      keepEvery,
      replyMs,
      arrivedAt,
      distinct: 0,
      again: 0,
      strange: 0,
      connections: 0,
      overTls: 0,
    });
    state.kept = [];
    say({ begun: round });
    return;
  }
  const { arrivedAt, again, strange, kept, connections, overTls } = state;
  say({ collected: { arrivedAt, again, strange, kept, connections, overTls } });
}

if (import.meta.main) {
  const context = createSecureContext(selfSignedCertificate('mx.sink.test'));
  let port = 0;
  for (const host of [sinkHosts.plain, sinkHosts.tls]) {
    const server = createServer({ noDelay: true }, (socket) => {
      state.connections += 1;
      new Session(socket, host === sinkHosts.tls ? context : null);
    });
    server.listen({ port, host, backlog: 511 });
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  }
  process.on('message', obey);
  process.on('disconnect', () => process.exit(0));
  setInterval(() => say({ arrived: state.distinct }), 250);
  say({ ready: { port } });
}
