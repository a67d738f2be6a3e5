import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dialog } from './dialog.ts';
import type { Ledger } from './ledger.ts';
import { Traps } from './traps.ts';

/**
 * The points where a conversation can be held: `connect` before the greeting, `tls` in the handshake, `mail`, `rcpt`,
 * `data` and `dot` before the reply to each, `content` once some of the message has come, with the rest of it unread.
 */
export type MxPhase = 'connect' | 'tls' | 'mail' | 'rcpt' | 'data' | 'content' | 'dot';

/** A message as received, with its dots still stuffed. */
interface Kept {
  tag: string;
  content: Buffer;
}

const mostKept = 200;
const mostKeptBytes = 100_000;

/**
 * The servers of all receiving domains: one in clear at 127.0.0.1, one with STARTTLS at 127.0.0.2. Addresses say how
 * they behave: `no-` is refused for good, `later-` is deferred once at RCPT and `dot-` once at the dot, `slow-` answers
 * the dot late. Each message is in the ledger before it gets an answer.
 */
export class Mx {
  readonly traps = new Traps<MxPhase, string[]>();
  /** Some of the messages, for checking their signatures. */
  readonly kept: Kept[] = [];
  /** The envelope sender of each message, by tag: where bounces go. */
  readonly returnPaths = new Map<string, string>();
  /** Failures of the harness itself, not of the service. */
  readonly errors: string[] = [];
  readonly #ledger: Ledger;
  readonly #servers: Server[] = [];
  readonly #dialogs = new Set<Dialog>();
  readonly #refusedOnce = new Set<string>();
  #copies = 0;

  private constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  static async start(ledger: Ledger): Promise<Mx> {
    const mx = new Mx(ledger);
    await mx.#listen('127.0.0.1', 0, false);
    await mx.#listen('127.0.0.2', mx.port, true);
    return mx;
  }

  get port(): number {
    const [first] = this.#servers;
    return first ? (first.address() as AddressInfo).port : 0;
  }

  async close(): Promise<void> {
    this.traps.liftAll();
    for (const dialog of this.#dialogs) dialog.end();
    for (const server of this.#servers) {
      server.close();
      await once(server, 'close');
    }
  }

  async #listen(host: string, port: number, tls: boolean): Promise<void> {
    const server = createServer((socket) => {
      const dialog = new Dialog(socket);
      this.#dialogs.add(dialog);
      // A killed client ends its conversation; that is the point of it all.
      this.#converse(dialog, tls)
        .catch((error: Error) => dialog.over || this.errors.push(error.stack ?? error.message))
        .finally(() => {
          this.#dialogs.delete(dialog);
          dialog.end();
        });
    });
    server.listen(port, host);
    await once(server, 'listening');
    this.#servers.push(server);
  }

  async #converse(dialog: Dialog, tls: boolean): Promise<void> {
    await this.traps.pass('connect', []);
    dialog.send('220 mx.example.test ESMTP\r\n');
    const keywords = ['mx.example.test', 'PIPELINING', '8BITMIME', 'SIZE 50000000', ...(tls ? ['STARTTLS'] : [])];
    let from = '';
    let to: string[] = [];
    for (;;) {
      const line = (await dialog.until('\r\n')).toString('latin1').slice(0, -2);
      const address = /<(.*?)>/.exec(line)?.[1] ?? '';
      const verb = line.slice(0, 4).toUpperCase();
      if (verb === 'EHLO') {
        const lines = keywords.map((keyword, at) => `250${at === keywords.length - 1 ? ' ' : '-'}${keyword}`);
        dialog.send(`${lines.join('\r\n')}\r\n`);
      } else if (verb === 'STAR') {
        dialog.send('220 go\r\n');
        await this.traps.pass('tls', []);
        await dialog.startTls();
      } else if (verb === 'MAIL') {
        [from, to] = [address, []];
        await this.traps.pass('mail', to);
        dialog.send('250 2.1.0 ok\r\n');
      } else if (verb === 'RCPT') {
        await this.traps.pass('rcpt', [address]);
        const refusal = this.#refusalOf(address);
        if (!refusal) to.push(address);
        dialog.send(`${refusal ?? '250 2.1.5 ok'}\r\n`);
      } else if (verb === 'DATA') {
        await this.traps.pass('data', to);
        if (to.length === 0) dialog.send('503 5.5.1 nobody to send it to\r\n');
        else await this.#message(dialog, from, to);
      } else if (verb === 'QUIT') {
        dialog.send('221 bye\r\n');
        return;
      } else dialog.send('250 2.0.0 ok\r\n');
    }
  }

  #refusalOf(address: string): string | null {
    if (address.startsWith('no-')) return '550 5.1.1 no such user';
    if (!address.startsWith('later-') || this.#refusedOnce.has(address)) return null;
    this.#refusedOnce.add(address);
    return '451 4.7.1 greylisted, come back';
  }

  async #message(dialog: Dialog, from: string, to: string[]): Promise<void> {
    dialog.send('354 go\r\n');
    if (!dialog.pending) await dialog.more();
    const passing = this.traps.pass('content', to);
    dialog.pause();
    await passing;
    dialog.resume();
    const content = await dialog.until('\r\n.\r\n');
    const [first = ''] = to;
    const refused = first.startsWith('dot-') && !this.#refusedOnce.has(first);
    if (refused) this.#refusedOnce.add(first);
    const copy = ++this.#copies;
    const header = content.toString('latin1', 0, content.indexOf('\r\n\r\n'));
    const tag = /^Subject: (.*)$/im.exec(header)?.[1]?.trim() ?? '';
    this.#ledger.write({
      is: 'arrived',
      copy,
      tag,
      messageId: /^Message-ID: (.*)$/im.exec(header)?.[1]?.trim() ?? '',
      to,
      sha256: createHash('sha256').update(content).digest('hex'),
      refused,
      wire: flawOf(content),
    });
    this.returnPaths.set(tag, from);
    if (this.kept.length < mostKept && content.length < mostKeptBytes) this.kept.push({ tag, content });
    if (first.startsWith('slow-')) await sleep(20 + ((copy * 37) % 180));
    await this.traps.pass('dot', to);
    if (dialog.over) throw new Error('the client has disconnected');
    if (!refused) this.#ledger.write({ is: 'replied', copy });
    dialog.send(refused ? '451 4.3.0 not now\r\n' : '250 2.0.0 taken\r\n');
  }
}

/** How this message violates RFC 5321 on the wire, or null. */
function flawOf(content: Buffer): string | null {
  const text = content.toString('latin1');
  if (/\r(?!\n)|(?<!\r)\n/.test(text)) return 'a bare CR or LF';
  const long = text.split('\r\n').find((line) => line.length > 998);
  return long === undefined ? null : `a line of ${long.length} octets`;
}
