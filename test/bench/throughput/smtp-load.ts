import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { bodiesOf, submittedOf } from './bodies.ts';
import type { Load } from './load.ts';
import { recipientOf } from './recipe.ts';

/** A message ready to be submitted: the commands up to DATA in one piece, and the content with its final dot. */
export interface Submission {
  first: number;
  count: 1;
  envelope: string;
  content: Buffer;
}

export function submissions({ recipe }: Load): Submission[] {
  const bodies = bodiesOf(recipe);
  return Array.from({ length: recipe.count }, (_, index) => ({
    first: index,
    count: 1,
    envelope: `MAIL FROM:<${recipe.from}> BODY=8BITMIME\r\nRCPT TO:<${recipientOf(recipe, index)}>\r\nDATA\r\n`,
    content: submittedOf(recipe, bodies, index),
  }));
}

/** An SMTP session that submits one message after the other, and reconnects after a number of them. */
export class SmtpConnection {
  readonly #load: Load;
  #socket: Socket | null = null;
  #sent = 0;
  #text = '';
  #wanted = 0;
  #settle: { resolve(last: string): void; reject(error: Error): void } | null = null;

  constructor(load: Load) {
    this.#load = load;
  }

  /** @throws Error if it is not accepted */
  async send({ envelope, content }: Submission): Promise<void> {
    if (this.#sent === this.#load.perSession) this.close();
    if (!this.#socket) await this.#open();
    this.#sent += 1;
    await this.#ask(envelope, 3, '354');
    await this.#ask(content, 1, '250');
  }

  close(): void {
    this.#settle = null;
    const socket = this.#socket;
    // Nobody reads what it still says.
    this.#socket = null;
    this.#sent = 0;
    socket?.end('QUIT\r\n');
  }

  async #open(): Promise<void> {
    const { host, port, key, startTls } = this.#load.target;
    this.#listen(connect({ port, host, noDelay: true }));
    await this.#ask('', 1, '220');
    const offers = await this.#ask('EHLO generator.test\r\n', 1, '250');
    if (!offers.includes('PIPELINING')) throw new Error('the server does not offer PIPELINING');
    if (!startTls) return;
    await this.#ask('STARTTLS\r\n', 1, '220');
    const plain = this.#socket as Socket;
    plain.removeAllListeners('data');
    // Its peer is on this machine, and has just started.
    const secured = connectTls({ socket: plain, rejectUnauthorized: false });
    await once(secured, 'secureConnect');
    this.#listen(secured);
    await this.#ask('EHLO generator.test\r\n', 1, '250');
    if (key === null) return;
    await this.#ask(`AUTH PLAIN ${Buffer.from(`\0key\0${key}`).toString('base64')}\r\n`, 1, '235');
  }

  #listen(socket: Socket): void {
    this.#socket = socket;
    const fail = (error: Error) => socket === this.#socket && this.#settle?.reject(error);
    socket.on('data', (chunk: Buffer) => socket === this.#socket && this.#read(chunk));
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('the server hung up')));
  }

  /** Writes, and reads this many replies; the last one must begin with the code. */
  async #ask(bytes: string | Buffer, replies: number, code: string): Promise<string> {
    const last = await new Promise<string>((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#wanted = replies;
      if (bytes.length > 0) this.#socket?.write(bytes);
    });
    if (!last.startsWith(code)) throw new Error(`the server said ${last}`);
    return last;
  }

  #read(chunk: Buffer): void {
    this.#text += chunk.toString('latin1');
    if (!this.#text.endsWith('\n')) return;
    // The last line of a reply has a space after its code; an earlier refusal is the one to report.
    const ends = this.#text.split('\r\n').filter((line) => /^\d{3} /.test(line));
    if (ends.length < this.#wanted) return;
    const refused = ends.find((line) => /^[45]/.test(line));
    const last = refused ?? (this.#wanted === 1 ? this.#text.slice(this.#text.search(/\d{3}/)) : (ends.at(-1) ?? ''));
    this.#text = '';
    this.#settle?.resolve(last);
  }
}
