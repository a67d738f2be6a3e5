import { X509Certificate } from 'node:crypto';
import { isIP, connect as netConnect, type Socket, type TcpNetConnectOpts } from 'node:net';
import {
  createSecureContext,
  type DetailedPeerCertificate,
  type SecureContext,
  TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import type { Conversation } from './conversation.ts';
import { cleanRemoteText, type ParsedReply, ReplyParser } from './reply.ts';
import type { TlsInfo } from './result.ts';

/** Why a session cannot go on. `reason` is the rest of a sentence that starts with the host's name. */
export interface Lost {
  lost: 'timeout' | 'closed' | 'protocol' | 'aborted';
  reason: string;
}

export const isLost = (value: object | null): value is Lost => value !== null && 'lost' in value;

/** What EHLO offered (RFC 5321 section 4.1.1.1). */
export interface Capabilities {
  startTls: boolean;
  pipelining: boolean;
  eightBitMime: boolean;
  smtpUtf8: boolean;
  enhancedStatusCodes: boolean;
  /** The largest message in bytes, null when none was declared (RFC 1870). */
  size: number | null;
  /** Messages that one connection carries, and recipients that one takes; null where that was not declared (LIMITS, RFC 9422). */
  mails: number | null;
  recipients: number | null;
}

export const noCapabilities: Capabilities = {
  startTls: false,
  pipelining: false,
  eightBitMime: false,
  smtpUtf8: false,
  enhancedStatusCodes: false,
  size: null,
  mails: null,
  recipients: null,
};

export interface Target {
  /** The MX host name: for SNI, for reports, and the pool's key. */
  host: string;
  /** An IP address, already checked. */
  address: string;
  port: number;
  localAddress?: string | undefined;
  /** The name to ask the server's certificate for; the host unless given. */
  serverName?: string | undefined;
  /** Whom to trust; the system's authorities unless given. */
  trust?: SecureContext | undefined;
  connect?: ((options: TcpNetConnectOpts) => Socket) | undefined;
}

/** Why a connection was closed in the middle, where that is this server's own doing. */
export const attemptEnded = 'was left because this server ended the attempt';

const maxWaitingReplies = 256;
const maxCertificates = 10;
const quitMs = 1_000;

let context: SecureContext | null = null;

/** All connections in clear read into this, one after the other: what came is parsed before anything else is read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536);

/**
 * One TCP connection to an SMTP server: bytes, replies and deadlines. Whatever ends it is a `Lost` value, given to
 * every reader and writer from then on; nothing here throws for what the server does. Deadlines are for the whole
 * reply or write, so that a server that drips bytes gains nothing.
 */
export class Connection {
  readonly target: Target;
  readonly openedAt = performance.now();
  capabilities: Capabilities = noCapabilities;
  tls: TlsInfo | null = null;
  /** Messages that this connection was asked to carry. */
  transactions = 0;
  /** True from MAIL until a message was accepted: the next transaction starts with RSET. */
  needsReset = false;
  /** True once a message was accepted. */
  tookMail = false;
  /** Where what is said is written down, while there is somebody who wants to know. */
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

  /** Why the connection is no more, or null while it lives. */
  get lost(): Lost | null {
    return this.#lost;
  }

  /** Has this done, once, when the connection is no more. */
  whenLost(act: () => void): void {
    if (this.#lost === null) this.#ends.add(act);
    else act();
  }

  /** True when the server has said something that was not read yet. */
  get pending(): boolean {
    return this.#replies.length > 0 || !this.#parser.empty;
  }

  /** Caps all deadlines together from now on, in milliseconds, in place of the cap before. */
  limit(ms: number): void {
    this.#limit = performance.now() + ms;
  }

  /** Opens the TCP connection. Null when it was accepted. */
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
      return this.#lose({ lost: 'closed', reason: `could not be reached (${describe(error)})` });
    }
    this.#attach(socket);
    await this.#until(ms, 'did not accept the connection in time', (done) => socket.once('connect', done));
    if (this.#lost !== null) return this.#lost;
    socket.setNoDelay(true);
    this.remoteAddress = socket.remoteAddress ?? address;
    this.localAddress = socket.localAddress ?? null;
    return null;
  }

  /** Sends one command or a group of pipelined ones, without CRLF at the end. Throws for what cannot be a command. */
  send(...commands: string[]): void {
    for (const command of commands) {
      if (/[\x00-\x1f\x7f-\x9f]/.test(command)) throw new Error('a control character in an SMTP command');
    }
    if (this.#lost !== null) return;
    this.conversation?.said(commands);
    this.#socket?.write(`${commands.join('\r\n')}\r\n`, 'utf8');
  }

  /** The next reply of the server. */
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
   * Hands bytes to the operating system and waits until it has taken all of them, or until the server says something
   * (`pending`), for it may have stopped reading. Null unless the connection was lost.
   */
  async write(parts: Uint8Array[], ms: number): Promise<Lost | null> {
    if (this.#lost !== null) return this.#lost;
    await this.#until(ms, 'did not take the message in time', (done) => {
      this.#awaitReply = done;
      this.#hand(parts, (error) => {
        if (error) this.#lose({ lost: 'closed', reason: `lost the connection (${describe(error)})` });
        done();
      });
    });
    this.#awaitReply = null;
    return this.#lost;
  }

  /** Hands over the last bytes of a message in one piece; the reply tells what became of them. */
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
   * Begins TLS, after the 220 to STARTTLS. Any clear text that came with that 220 was put there to be taken for a reply
   * inside TLS and ends the session. The certificate is judged (`tls.authorized`), never required.
   */
  async secure(ms: number): Promise<Lost | null> {
    const plain = this.#socket;
    if (this.#lost !== null || plain === null) return this.#lost;
    if (this.pending) return this.#lose({ lost: 'protocol', reason: 'sent clear text after its reply to STARTTLS' });
    this.#detach();
    const { host, serverName = host, trust } = this.target;
    // Building one reads all root certificates.
    if (trust === undefined) context ??= createSecureContext();
    const secure = tlsConnect({
      socket: plain,
      secureContext: trust ?? context ?? undefined,
      rejectUnauthorized: false,
      ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
    });
    this.#attach(secure);
    await this.#until(ms, 'did not finish the TLS handshake in time', (done) => secure.once('secureConnect', done));
    if (this.#lost !== null) return this.#lost;
    const cipher = secure.getCipher();
    this.tls = {
      version: secure.getProtocol() ?? 'unknown',
      cipher: cipher.standardName,
      authorized: secure.authorized,
      problem: secure.authorized ? null : cleanRemoteText(String(secure.authorizationError ?? 'unknown'), 100),
    };
    const { version, problem } = this.tls;
    this.conversation?.note(
      `${version} with ${cipher.standardName}, certificate ${problem === null ? `valid for ${serverName}` : `not valid (${problem})`}`,
    );
    return null;
  }

  /** What the server showed in the handshake: its own certificate first, then those that issued it. */
  certificates(): X509Certificate[] {
    if (this.#certificates !== null || !(this.#socket instanceof TLSSocket)) return this.#certificates ?? [];
    const chain: X509Certificate[] = [];
    // Not getPeerX509Certificate, which takes the certificates away from OpenSSL: it answers only once.
    let next: DetailedPeerCertificate | undefined = this.#socket.getPeerCertificate(true);
    while (next?.raw !== undefined && chain.length < maxCertificates) {
      chain.push(new X509Certificate(next.raw));
      // One that issued itself is its own issuer.
      next = next.issuerCertificate === next ? undefined : next.issuerCertificate;
    }
    this.#certificates = chain;
    return chain;
  }

  /**
   * Marks the connection as waiting for its next message; from now on any word or end of the server loses it and is
   * told to `onEnd`. False when it cannot wait because it is lost or the server has said too much.
   */
  rest(onEnd: () => void): boolean {
    if (this.pending) this.#lose({ lost: 'protocol', reason: 'sent a reply that nobody asked for' });
    if (this.#lost !== null) return false;
    this.#limit = Number.POSITIVE_INFINITY;
    this.#onIdleEnd = onEnd;
    return true;
  }

  /** Ends `rest`. */
  wake(): void {
    this.#onIdleEnd = null;
  }

  /** Says QUIT as far as the server listens, and closes within a second. */
  async quit(): Promise<void> {
    this.#onIdleEnd = null;
    const socket = this.#socket;
    if (this.#lost !== null || socket === null) return this.destroy();
    this.send('QUIT');
    await this.read(quitMs);
    this.destroy();
  }

  /** Closes at once. Whoever waits gets `aborted`. */
  destroy(reason = 'was left by this server'): void {
    this.#lose({ lost: 'aborted', reason });
  }

  #attach(socket: Socket): void {
    this.#socket = socket;
    const onData = (chunk: Buffer) => this.#receive(chunk);
    const onEnd = () => this.#lose({ lost: 'closed', reason: 'closed the connection' });
    socket.on('data', onData).on('end', onEnd).on('close', onEnd);
    this.#detach = () => socket.off('data', onData).off('end', onEnd).off('close', onEnd);
    // Stays to the end, for a socket's error that nobody listens to ends the process.
    socket.on('error', (error) => {
      this.#lose({ lost: 'closed', reason: `${this.#brokenWhile(socket)} (${describe(error)})` });
    });
  }

  #brokenWhile(socket: Socket): string {
    if (this.remoteAddress === null) return 'could not be reached';
    return socket instanceof TLSSocket && this.tls === null ? 'broke the TLS handshake' : 'lost the connection';
  }

  #receive(chunk: Buffer): void {
    if (this.#lost !== null) return;
    const replies = this.#parser.feed(chunk);
    for (const { reply, lines } of replies) this.conversation?.heard(reply.code, lines);
    this.#replies.push(...replies);
    if (this.#onIdleEnd !== null) this.#lose({ lost: 'protocol', reason: 'sent a reply that nobody asked for' });
    else if (this.#parser.error !== null)
      this.#lose({ lost: 'protocol', reason: `broke the protocol: ${this.#parser.error}` });
    else if (this.#replies.length > maxWaitingReplies)
      this.#lose({ lost: 'protocol', reason: 'sent too many replies' });
    if (this.#replies.length > 0) this.#awaitReply?.();
  }

  /** Waits for `start`'s callback, the end of the connection, or the deadline, which ends the connection. */
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

function describe(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : null;
  return code ?? cleanRemoteText(error instanceof Error ? error.message : String(error), 200);
}
