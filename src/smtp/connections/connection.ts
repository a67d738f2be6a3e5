import type { X509Certificate } from 'node:crypto';
import { connect as netConnect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Conversation } from '../replies/conversation.ts';
import { ownTrouble, systemCodeOf } from '../replies/own-trouble.ts';
import { cleanRemoteText, type ParsedReply, ReplyParser } from '../replies/reply.ts';
import type { TlsInfo } from '../replies/result.ts';
import { type Capabilities, noCapabilities } from './capabilities.ts';
import { certificatesOf, startTls, type TlsTerms, tlsInfoOf, usualTerms } from './tls-socket.ts';

/** Why a session cannot go on. `reason` completes a sentence that starts with the host's name. */
export interface Lost {
  /** `ours`: this server could not even try. */
  lost: 'timeout' | 'closed' | 'protocol' | 'aborted' | 'ours';
  reason: string;
}

/** Tells a `Lost` from what was waited for: a reply, a greeted connection, or null for what was written. */
export const isLost = (value: object | null): value is Lost => value !== null && 'lost' in value;

/** What to connect to, and what its TLS must be like. */
export interface Target {
  /** The MX host name: for SNI, for reports, and as the pool's key. */
  host: string;
  /** An IP address, already checked. */
  address: string;
  port: number;
  localAddress?: string | undefined;
  /** The name to ask the server's certificate for; default: the host. */
  serverName?: string | undefined;
  /** Default: the system's authorities. */
  terms?: TlsTerms;
  /** Old and weak TLS will do, as the alternative is none. */
  anyTls?: boolean;
  connect?: ((options: TcpNetConnectOpts) => Socket) | undefined;
}

/** Why this server closed a connection in the middle of an attempt. */
export const attemptEnded = 'was left because this server ended the attempt';

const maxWaitingReplies = 256;
const quitMs = 1_000;

/** Shared by all plaintext connections: each chunk is parsed before the next one is read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536);

/**
 * One TCP connection to an SMTP server: bytes, replies and deadlines. Whatever ends it becomes a `Lost` value, which
 * every reader and writer gets from then on; nothing the server does is thrown. A deadline covers the whole reply or
 * write, so a server gains nothing by dripping bytes.
 */
export class Connection {
  readonly target: Target;
  readonly openedAt = performance.now();
  capabilities: Capabilities = noCapabilities;
  tls: TlsInfo | null = null;
  /** How many messages this connection was asked to carry. */
  transactions = 0;
  /** True from MAIL until a message is accepted: the next transaction starts with RSET. */
  needsReset = false;
  /** True once a message was accepted. */
  tookMail = false;
  /** Records what is said, while somebody wants to know. */
  conversation: Conversation | null = null;
  remoteAddress: string | null = null;
  localAddress: string | null = null;
  #socket: Socket | null = null;
  #parser = new ReplyParser();
  #replies: ParsedReply[] = [];
  #lost: Lost | null = null;
  #certificates: X509Certificate[] | null = null;
  #awaitReply: (() => void) | null = null;
  readonly #ends = new Set<() => void>();
  #detach = () => {};
  #limit = Number.POSITIVE_INFINITY;
  #onIdleEnd: (() => void) | null = null;

  constructor(target: Target) {
    this.target = target;
  }

  /** Why the connection ended, or null while it lives. */
  get lost(): Lost | null {
    return this.#lost;
  }

  /** Calls `act` once when the connection has ended; at once if it has. */
  whenLost(act: () => void): void {
    if (this.#lost === null) this.#ends.add(act);
    else act();
  }

  /** True if the server has said something that was not read yet. */
  get pending(): boolean {
    return this.#replies.length > 0 || !this.#parser.empty;
  }

  /** True if it is in clear only because TLS, which the server offers, failed. */
  get lacksTls(): boolean {
    return this.tls === null && this.capabilities.startTls;
  }

  /** Caps all deadlines together, in milliseconds from now; replaces the previous cap. */
  limit(ms: number): void {
    this.#limit = performance.now() + ms;
  }

  /** Opens the TCP connection. Null if it was accepted. */
  async open(ms: number): Promise<Lost | null> {
    if (this.#lost !== null) return this.#lost;
    const { address, port, localAddress, connect = netConnect } = this.target;
    let socket: Socket;
    const onread = {
      buffer: readBuffer,
      callback: (bytes: number) => {
        if (socket === this.#socket) this.#receive(readBuffer.subarray(0, bytes));
        return true;
      },
    };
    try {
      socket = connect({ host: address, port, onread, ...(localAddress === undefined ? {} : { localAddress }) });
    } catch (error) {
      return this.#lose(unreachedBy(error));
    }
    this.#attach(socket);
    await this.#until(ms, 'did not accept the connection in time', (done) => socket.once('connect', done));
    if (this.#lost !== null) return this.#lost;
    socket.setNoDelay(true);
    this.remoteAddress = socket.remoteAddress ?? address;
    this.localAddress = socket.localAddress ?? null;
    return null;
  }

  /** Sends one command or several pipelined ones, given without the final CRLF. @throws Error for control characters */
  send(...commands: string[]): void {
    for (const command of commands) {
      if (/[\x00-\x1f\x7f-\x9f]/.test(command)) throw new Error('a control character in an SMTP command');
    }
    if (this.#lost !== null) return;
    this.conversation?.said(commands);
    this.#socket?.write(`${commands.join('\r\n')}\r\n`, 'utf8');
  }

  /** Waits for the server's next reply. */
  async read(ms: number): Promise<ParsedReply | Lost> {
    if (this.#replies.length === 0 && this.#lost === null) {
      await this.#until(ms, 'did not answer in time', (done) => {
        this.#awaitReply = done;
      });
      this.#awaitReply = null;
    }
    return this.#replies.shift() ?? this.#lost ?? this.#lose({ lost: 'closed', reason: 'sent no reply' });
  }

  /**
   * Hands bytes to the operating system and waits until it has taken them all, or until the server says something
   * (`pending`), since it may have stopped reading. Null unless the connection was lost.
   */
  async write(parts: Uint8Array[], ms: number): Promise<Lost | null> {
    if (this.#lost !== null) return this.#lost;
    await this.#until(ms, 'did not receive the message in time', (done) => {
      this.#awaitReply = done;
      this.#hand(parts, (error) => {
        if (error) this.#lose({ lost: 'closed', reason: `lost the connection (${describe(error)})` });
        done();
      });
    });
    this.#awaitReply = null;
    return this.#lost;
  }

  /** Hands over the last bytes of a message in one piece. Does not wait: the reply tells whether they arrived. */
  finish(...parts: Uint8Array[]): void {
    if (this.#lost === null) this.#hand(parts);
  }

  #hand(parts: Uint8Array[], taken?: (error: Error | null | undefined) => void): void {
    this.#socket?.cork();
    for (const [index, part] of parts.entries())
      this.#socket?.write(part, index === parts.length - 1 ? taken : undefined);
    this.#socket?.uncork();
  }

  /**
   * Starts TLS after the 220 to STARTTLS. Clear text that came along with the 220 was injected to pass for a reply inside
   * TLS, and ends the session. The certificate is judged (`tls.authorized`) but not required.
   */
  async secure(ms: number): Promise<Lost | null> {
    const plain = this.#socket;
    if (this.#lost !== null || plain === null) return this.#lost;
    if (this.pending) return this.#lose({ lost: 'protocol', reason: 'sent clear text after its reply to STARTTLS' });
    this.#detach();
    const { host, serverName = host, terms = usualTerms, anyTls = false } = this.target;
    const secure = startTls(plain, serverName, anyTls ? terms.any : terms.modern);
    this.#attach(secure);
    await this.#until(ms, 'did not finish the TLS handshake in time', (done) => secure.once('secureConnect', done));
    if (this.#lost !== null) return this.#lost;
    this.tls = tlsInfoOf(secure);
    const { version, cipher, problem } = this.tls;
    this.conversation?.note(
      `${version} with ${cipher}, certificate ${problem === null ? `valid for ${serverName}` : `not valid (${problem})`}`,
    );
    return null;
  }

  /** The certificates from the handshake: the server's own first, then its issuers. */
  certificates(): X509Certificate[] {
    if (this.#certificates === null && this.#socket instanceof TLSSocket)
      this.#certificates = certificatesOf(this.#socket);
    return this.#certificates ?? [];
  }

  /**
   * Marks the connection as idle until its next message. If the server meanwhile says anything or closes, the connection is
   * lost and `onEnd` is called. Returns false if the connection cannot wait: it is lost, or has unread replies.
   */
  rest(onEnd: () => void): boolean {
    if (this.pending) this.#lose({ lost: 'protocol', reason: 'sent an unexpected reply' });
    if (this.#lost !== null) return false;
    this.#limit = Number.POSITIVE_INFINITY;
    this.#onIdleEnd = onEnd;
    return true;
  }

  /** Ends `rest`. */
  wake(): void {
    this.#onIdleEnd = null;
  }

  /** Says QUIT if the server still listens, and closes within a second. */
  async quit(): Promise<void> {
    this.#onIdleEnd = null;
    const socket = this.#socket;
    if (this.#lost !== null || socket === null) return this.destroy();
    this.send('QUIT');
    await this.read(quitMs);
    this.destroy();
  }

  /** Closes at once. Pending reads and writes get `aborted`. */
  destroy(reason = 'was left by this server'): void {
    this.#lose({ lost: 'aborted', reason });
  }

  #attach(socket: Socket): void {
    this.#socket = socket;
    const onData = (chunk: Buffer) => this.#receive(chunk);
    const onEnd = () => this.#lose({ lost: 'closed', reason: 'closed the connection' });
    socket.on('data', onData).on('end', onEnd).on('close', onEnd);
    this.#detach = () => socket.off('data', onData).off('end', onEnd).off('close', onEnd);
    // Stays attached: an unhandled socket error would end the process.
    socket.on('error', (error) => this.#lose(this.#brokenBy(error, socket)));
  }

  #brokenBy(error: Error, socket: Socket): Lost {
    if (this.remoteAddress === null) return unreachedBy(error);
    const inHandshake = socket instanceof TLSSocket && this.tls === null;
    const what = inHandshake ? 'broke the TLS handshake' : 'lost the connection';
    return { lost: 'closed', reason: `${what} (${describe(error)})` };
  }

  #receive(chunk: Buffer): void {
    if (this.#lost !== null) return;
    const replies = this.#parser.feed(chunk);
    for (const { reply, lines } of replies) this.conversation?.heard(reply.code, lines);
    this.#replies.push(...replies);
    if (this.#onIdleEnd !== null) this.#lose({ lost: 'protocol', reason: 'sent an unexpected reply' });
    else if (this.#parser.error !== null)
      this.#lose({ lost: 'protocol', reason: `broke the protocol: ${this.#parser.error}` });
    else if (this.#replies.length > maxWaitingReplies)
      this.#lose({ lost: 'protocol', reason: 'sent too many replies' });
    if (this.#replies.length > 0) this.#awaitReply?.();
  }

  /** Waits for `start`'s callback, the connection's end, or the deadline, which ends the connection. */
  async #until(ms: number, late: string, start: (done: () => void) => void): Promise<void> {
    const left = Math.max(0, Math.min(ms, this.#limit - performance.now()));
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => this.#lose({ lost: 'timeout', reason: late }), left);
    this.#ends.add(resolve);
    start(() => resolve());
    await promise;
    clearTimeout(timer);
    this.#ends.delete(resolve);
  }

  #lose(lost: Lost): Lost {
    if (this.#lost !== null) return this.#lost;
    this.#lost = lost;
    if (lost.lost !== 'aborted') this.conversation?.note(`${this.target.host} ${lost.reason}`);
    this.#socket?.destroy();
    for (const end of this.#ends) end();
    this.#onIdleEnd?.();
    return lost;
  }
}

function unreachedBy(error: unknown): Lost {
  const own = ownTrouble(error);
  return own === null
    ? { lost: 'closed', reason: `could not be reached (${describe(error)})` }
    : { lost: 'ours', reason: `was not reached: ${own}` };
}

function describe(error: unknown): string {
  return systemCodeOf(error) ?? cleanRemoteText(error instanceof Error ? error.message : String(error), 200);
}
