import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContextOptions, TLSSocket } from 'node:tls';
import { certificate } from './sink.ts';

export {
  longPauses,
  mayCloseAfterMs,
  type ReceivedMessage,
  type Sink,
  type SinkOptions,
  startSink,
} from './sink.ts';

/** One connection to a scripted MX, from the server's side. */
export class Peer {
  socket: Socket;
  /** Twice as large each time it is full: joining the chunks of a large message anew with each of them takes seconds. */
  #memory = Buffer.alloc(1_024);
  #length = 0;
  #read = 0;

  constructor(socket: Socket) {
    this.socket = socket;
    this.#listen(socket);
  }

  /** Everything that the client sent. */
  get received(): Buffer {
    return this.#memory.subarray(0, this.#length);
  }

  #listen(socket: Socket): void {
    socket.on('error', () => {});
    socket.on('data', (chunk) => this.#keep(chunk));
  }

  #keep(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > this.#memory.length) {
      const larger = Buffer.allocUnsafe(2 * length);
      this.received.copy(larger);
      this.#memory = larger;
    }
    chunk.copy(this.#memory, this.#length);
    this.#length = length;
  }

  /** Sends these exact bytes; text is Latin-1, so that `\xff` is one byte. */
  send(bytes: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** What the client sends up to and including this text; rejects if the client disconnects before. */
  async until(text: string): Promise<string> {
    for (let from = this.#read; ; ) {
      const { received } = this;
      const at = received.indexOf(text, from, 'latin1');
      if (at !== -1) {
        const found = received.toString('latin1', this.#read, at + text.length);
        this.#read = at + text.length;
        return found;
      }
      from = Math.max(this.#read, received.length - text.length + 1);
      const ended = () => new Error(`the client left while ${JSON.stringify(text)} was awaited`);
      if (this.socket.destroyed || this.socket.readableEnded) throw ended();
      const over = new AbortController();
      const { signal } = over;
      await Promise.race([
        once(this.socket, 'data', { signal }),
        once(this.socket, 'close', { signal }).then(() => Promise.reject(ended())),
      ]).finally(() => over.abort());
    }
  }

  /** The next line without its CRLF. */
  async line(): Promise<string> {
    return (await this.until('\r\n')).slice(0, -2);
  }

  /** Waits for the next line and answers it; QUIT ends the connection, and the script. */
  async answer(reply: string): Promise<string> {
    const line = await this.line();
    if (line === 'QUIT') {
      this.socket.end('221 bye\r\n');
      throw new Error('the client said QUIT');
    }
    this.send(`${reply}\r\n`);
    return line;
  }

  /** Greets and answers EHLO with these keywords. */
  async greet(...keywords: string[]): Promise<void> {
    this.send('220 mx.example.test ESMTP\r\n');
    await this.answer(
      ['mx.example.test', ...keywords]
        .map((line, at) => `250${at === keywords.length ? ' ' : '-'}${line}`)
        .join('\r\n'),
    );
  }

  /** A whole message: answers MAIL, each RCPT, DATA and, unless it is null, the dot. Returns the raw content. */
  async message({
    mail = '250 ok',
    rcpt = ['250 ok'],
    data = '354 go',
    dot = '250 ok' as string | null,
  } = {}): Promise<string> {
    await this.answer(mail);
    for (const reply of rcpt) await this.answer(reply);
    await this.answer(data);
    if (!data.startsWith('354')) return '';
    const content = await this.until('\r\n.\r\n');
    if (dot !== null) this.send(`${dot}\r\n`);
    return content;
  }

  /** Continues inside TLS. */
  async startTls(options: SecureContextOptions = {}): Promise<void> {
    const { key, cert } = certificate();
    this.socket.removeAllListeners('data');
    const secureContext = createSecureContext({ key, cert, ...options });
    const secure = new TLSSocket(this.socket, { isServer: true, secureContext });
    this.socket = secure;
    this.#listen(secure);
    await once(secure, 'secure');
  }
}

export interface ScriptedMx {
  port: number;
  /** Every connection so far. */
  peers: Peer[];
  close(): Promise<void>;
}

/**
 * A raw TCP server whose behaviour is a function of the connection and its number, from 0. After the script it only
 * answers QUIT; a script that fails, for example because the client disconnects, closes the connection.
 */
export async function startScriptedMx(
  script: (peer: Peer, number: number) => Promise<void> | void,
  { host = '127.0.0.1', port = 0 }: { host?: string; port?: number } = {},
): Promise<ScriptedMx> {
  const peers: Peer[] = [];
  const server: Server = createServer((socket) => {
    const peer = new Peer(socket);
    peers.push(peer);
    // A client that disconnects ends its script; that is often the point of the test.
    run(peer, peers.length - 1).catch(() => socket.end());
  });
  const run = async (peer: Peer, number: number) => {
    await script(peer, number);
    await peer.until('QUIT\r\n');
    peer.socket.end('221 bye\r\n');
  };
  server.listen(port, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    peers,
    async close() {
      for (const peer of peers) peer.socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
