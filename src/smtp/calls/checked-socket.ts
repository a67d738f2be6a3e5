import { type Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { isIP, connect as netConnect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { isReachable, type PrivateNetworks } from '../../ip.ts';
import { withResolutionDelay } from '../dns/address-look-up.ts';
import { ask, type Resolver } from '../dns/resolver.ts';
import { ownTrouble } from '../replies/own-trouble.ts';
import { hostOf, isLocalhost, loopback, portOf } from './endpoint.ts';

/** How to look up the host of a URL that somebody else chose. */
export interface CheckedLookUp {
  resolver: Pick<Resolver, 'resolve4' | 'resolve6'>;
  /** Allows addresses outside the public internet. */
  allowPrivate: PrivateNetworks;
}

/** A call that may not or cannot be made; the message is for the owner of the endpoint. */
export class CallError extends Error {}

/** This server could not even look up or connect, which says nothing about the endpoint. */
export class UntriedCall extends CallError {}

/** Begins to open a socket. */
export type Connect = (options: TcpNetConnectOpts) => Socket;

const connectTimeoutMs = 5_000;
const mostAddresses = 4;
/** Answers such as `103 Early Hints` before the one that counts. Read until the deadline, a flood of them takes all the processor's time. */
const mostInterim = 100;

/** A signal that aborts after `ms` or when `other` does; `clear` releases both. */
export function endAfter(ms: number, other: AbortSignal): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController();
  const stop = () => controller.abort(new CallError('the host cannot be reached'));
  const timer = setTimeout(stop, ms);
  if (other.aborted) stop();
  other.addEventListener('abort', stop);
  return {
    signal: controller.signal,
    clear() {
      clearTimeout(timer);
      other.removeEventListener('abort', stop);
    },
  };
}

/**
 * The addresses of a host, looked up once.
 *
 * @throws CallError if it has none, or any that may not be called
 */
export async function addressesOf(host: string, poster: CheckedLookUp, signal: AbortSignal): Promise<string[]> {
  const isAllowed = (address: string) => isReachable(address, poster.allowPrivate);
  const found = isIP(host)
    ? [host]
    : isLocalhost(host)
      ? loopback.filter(isAllowed)
      : await lookUp(host, poster, signal);
  // One internal address is enough to refuse: a mix of both is an attempt to make us call the internal one.
  if (found.length === 0 || !found.every(isAllowed)) {
    throw new CallError('the endpoint is not on the public internet');
  }
  return found.slice(0, mostAddresses);
}

async function lookUp(host: string, { resolver }: CheckedLookUp, signal: AbortSignal): Promise<string[]> {
  const { ipv4, ipv6 } = await before(
    signal,
    withResolutionDelay({ ipv4: ask(() => resolver.resolve4(host)), ipv6: ask(() => resolver.resolve6(host)) }),
  );
  const answers = [ipv4, ipv6];
  const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (found.length > 0) return found;
  for (const answer of answers) {
    if (answer.kind !== 'temporary') continue;
    throw answer.untried ? new UntriedCall(answer.reason) : new CallError(`${host}: ${answer.reason}`);
  }
  throw new CallError(`the host name ${host} has no address`);
}

/** Which certificates a call trusts. */
interface Trust {
  /** Certification authorities to trust instead of the usual ones, in PEM. */
  ca?: string | undefined;
  /** Accepts certificates that nobody vouches for. */
  anyCertificate?: boolean;
}

/** Connects to the first address that accepts, ready for the request. */
export async function openSocket(
  url: URL,
  addresses: string[],
  signal: AbortSignal,
  { connect = netConnect, ...trust }: Trust & { connect?: Connect | undefined },
): Promise<Socket> {
  let failure: unknown;
  for (const address of addresses) {
    const socket = connect({ host: address, port: portOf(url), noDelay: true });
    const soon = endAfter(connectTimeoutMs, signal);
    try {
      await happens(socket, 'connect', soon.signal);
      return url.protocol === 'https:' ? await secure(socket, hostOf(url), trust, signal) : socket;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      const own = ownTrouble(error);
      // An address that does not answer says more.
      if (own === null) failure = error;
      else failure ??= new UntriedCall(own);
    } finally {
      soon.clear();
    }
  }
  throw failure;
}

async function secure(
  socket: Socket,
  host: string,
  { ca, anyCertificate = false }: Trust,
  signal: AbortSignal,
): Promise<Socket> {
  const tls = tlsConnect({
    socket,
    host,
    ...(isIP(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
    ALPNProtocols: ['http/1.1'],
    // Set although it is the default, because an environment variable can change the default.
    rejectUnauthorized: !anyCertificate,
  });
  try {
    await happens(tls, 'secureConnect', signal);
    return tls;
  } catch (error) {
    tls.destroy();
    throw error;
  }
}

/** The result of the work, or a rejection as soon as the signal aborts. */
export function before<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** The request to send over a socket: a POST if it has a body, else a GET. */
export interface Call {
  headers?: Record<string, string>;
  body?: Buffer;
}

/** Sends one request over a ready socket, and resolves when the answer begins. Follows no redirect; keeps nothing open. */
export const exchange = (socket: Socket, url: URL, call: Call, signal: AbortSignal): Promise<IncomingMessage> =>
  answerTo(requestOver({ createConnection: () => socket }, url, call), call, signal);

/**
 * Like `exchange`, but over a connection of this agent. Another call may have used it before; it is kept for the next one
 * once the answer has been read.
 *
 * @throws LostConnection if a reused connection broke before the first byte of the answer: the request may have arrived
 */
export async function exchangeAgain(
  way: { agent: Agent },
  url: URL,
  call: Call,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const sent = requestOver({ ...way, signal }, url, {
    ...call,
    headers: { ...call.headers, Connection: 'keep-alive' },
  });
  let bytesReadBefore = 0;
  sent.once('socket', (socket) => (bytesReadBefore = socket.bytesRead));
  try {
    return await answerTo(sent, call, signal);
  } catch (error) {
    const isUnanswered = (sent.socket?.bytesRead ?? 0) === bytesReadBefore;
    throw sent.reusedSocket && isUnanswered && !signal.aborted && isBreak(error) ? new LostConnection() : error;
  }
}

/** A kept connection turned out to be closed. */
export class LostConnection extends Error {}

const isBreak = (error: unknown) => ['ECONNRESET', 'EPIPE'].includes(String((error as { code?: unknown }).code));

function requestOver(way: RequestOptions, url: URL, { headers, body }: Call): ClientRequest {
  return request({
    ...way,
    host: hostOf(url),
    method: body ? 'POST' : 'GET',
    path: `${url.pathname}${url.search}`,
    setHost: false,
    headers: {
      Host: url.host,
      ...(body && { 'Content-Length': body.length }),
      'User-Agent': 'Sendwright',
      'Accept-Encoding': 'identity',
      Connection: 'close',
      ...headers,
    },
  });
}

/** Sends the request and resolves when its answer begins. */
function answerTo(sent: ClientRequest, { body }: Call, signal: AbortSignal): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    let interim = 0;
    sent.on('information', () => {
      interim += 1;
      if (interim > mostInterim) sent.destroy(new CallError('there were too many interim answers'));
    });
    // Errors after the answer has begun surface where its body is read.
    sent.on('error', reject);
    // An answer that switches protocols emits no response event, only close.
    sent.once('close', () => reject(closed()));
  });
  sent.end(body);
  return before(signal, answered);
}

const closed = () => Object.assign(new Error('closed'), { code: 'ECONNRESET' });

function happens(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<void> {
  return before(
    signal,
    new Promise((resolve, reject) => {
      socket.once(event, () => resolve());
      // Stays attached: a socket that breaks between two steps must not end the process.
      socket.on('error', reject);
      socket.once('close', () => reject(closed()));
    }),
  );
}

const sentences: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed before a response arrived',
  EPIPE: 'the connection was closed before a response arrived',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  ETIMEDOUT: 'the host cannot be reached',
};

/** What went wrong, for people; never reveals what a name resolved to. */
export function sentenceOf(error: unknown): string {
  if (error instanceof CallError) return error.message;
  const { code, message } = error as { code?: unknown; message?: string };
  const text = String(code ?? message ?? 'unknown');
  if (text.startsWith('HPE_')) return `the answer was not HTTP (${text})`;
  if (/CERT|SELF_SIGNED|UNABLE_TO|^ERR_TLS/.test(text)) return `the TLS certificate is not valid (${text})`;
  if (/SSL|TLS/.test(text)) return `the TLS handshake failed (${text})`;
  return sentences[text] ?? `the call failed (${text})`;
}
