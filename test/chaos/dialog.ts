import { once } from 'node:events';
import type { Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { certificate } from '../support/sink.ts';

/** The server's side of an SMTP conversation, fast enough for messages of many megabytes. */
export class Dialog {
  #socket: Socket;
  #chunks: Buffer[] = [];
  #arrived = Promise.withResolvers<void>();
  #over = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen(socket);
  }

  /** The client has disconnected, or says nothing more. */
  get over(): boolean {
    return this.#over;
  }

  send(text: string): void {
    if (!this.#socket.destroyed) this.#socket.write(text);
  }

  /** The bytes up to and including this text. @throws Error if the client disconnects before */
  async until(text: string): Promise<Buffer> {
    for (let at = 0, length = 0; ; ) {
      for (; at < this.#chunks.length; at += 1) {
        const chunk = this.#chunks[at] ?? Buffer.alloc(0);
        // The text may begin at the end of the previous chunk.
        const tail = Buffer.concat(this.#chunks.slice(Math.max(0, at - text.length), at)).subarray(-(text.length - 1));
        const found = Buffer.concat([tail, chunk]).indexOf(text, 0, 'latin1');
        if (found !== -1) return this.#take(length - tail.length + found + text.length);
        length += chunk.length;
      }
      await this.more();
    }
  }

  /** Waits for more data. @throws Error if there is none */
  async more(): Promise<void> {
    if (this.#over) throw new Error('the client has left');
    await this.#arrived.promise;
  }

  /** True if there are unread bytes. */
  get pending(): boolean {
    return this.#chunks.length > 0;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  end(): void {
    this.#socket.destroy();
  }

  /** Continues inside TLS. */
  async startTls(): Promise<void> {
    this.#socket.removeAllListeners('data');
    const secure = new TLSSocket(this.#socket, { isServer: true, secureContext: createSecureContext(certificate()) });
    this.#socket = secure;
    this.#listen(secure);
    await once(secure, 'secure').catch((error: Error) => {
      // A client that is killed in the handshake.
      this.#over = true;
      throw error;
    });
  }

  #take(length: number): Buffer {
    const all = Buffer.concat(this.#chunks);
    this.#chunks = all.length > length ? [all.subarray(length)] : [];
    return all.subarray(0, length);
  }

  #listen(socket: Socket): void {
    const news = () => {
      const { resolve } = this.#arrived;
      this.#arrived = Promise.withResolvers();
      resolve();
    };
    const leave = () => {
      this.#over = true;
      news();
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      this.#chunks.push(chunk);
      news();
    });
    socket.once('end', leave);
    socket.once('close', leave);
  }
}
