import { type Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { hostOf, isLocalhost, loopback, portOf } from '../endpoint.ts';
import { isReachable, type PrivateNetworks } from '../ip.ts';
import { ask, type Resolver } from './resolver.ts';

/** How the host of a URL that others name is looked up. */
export interface CheckedLookUp {
  resolver: Pick<Resolver, 'resolve4' | 'resolve6'>;
  /** Lets calls go to addresses outside the public internet. */
  allowPrivate: PrivateNetworks;
}

/** A call that may not or cannot be made; the message is for the owner of the endpoint. */
export class CallError extends Error {}

const connectTimeoutMs = 5_000;
const mostAddresses = 4;

/** A signal that aborts after a time, or with the other one; `clear` lets go of both. */
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
 * @throws CallError where it has none, or one that may not be talked to
 */
export async function addressesOf(host: string, poster: CheckedLookUp, signal: AbortSignal): Promise<string[]> {
  const isAllowed = (address: string) => isReachable(address, poster.allowPrivate);
  const found = isIP(host)
    ? [host]
    : isLocalhost(host)
      ? loopback.filter(isAllowed)
      : await lookUp(host, poster, signal);
  // One inward address is enough: whoever mixes them hopes that we take the wrong one.
  if (found.length === 0 || !found.every(isAllowed)) {
    throw new CallError('the endpoint is not on the public internet');
  }
  return found.slice(0, mostAddresses);
}

async function lookUp(host: string, { resolver }: CheckedLookUp, signal: AbortSignal): Promise<string[]> {
  const answers = await before(
    signal,
    Promise.all([ask(() => resolver.resolve4(host)), ask(() => resolver.resolve6(host))]),
  );
  const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (found.length > 0) return found;
  for (const answer of answers) if (answer.kind === 'temporary') throw new CallError(`${host}: ${answer.reason}`);
  throw new CallError(`the host name ${host} has no address`);
}

/**
 * A connection to the first of the addresses that takes one, ready for the request.
 *
 * @param ca trusted instead of the usual certification authorities, in PEM
 * @param anyCertificate lets the server show a certificate that nobody vouches for
 */
export async function openSocket(
  url: URL,
  addresses: string[],
  ca: string | undefined,
  signal: AbortSignal,
  { anyCertificate = false }: { anyCertificate?: boolean } = {},
): Promise<Socket> {
  let failure: unknown;
  for (const address of addresses) {
    const socket = netConnect({ host: address, port: portOf(url), noDelay: true });
    const soon = endAfter(connectTimeoutMs, signal);
    try {
      await happens(socket, 'connect', soon.signal);
      return url.protocol === 'https:' ? await secure(socket, hostOf(url), { ca, anyCertificate }, signal) : socket;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      failure = error;
    } finally {
      soon.clear();
    }
  }
  throw failure;
}

async function secure(
  socket: Socket,
  host: string,
  { ca, anyCertificate }: { ca: string | undefined; anyCertificate: boolean },
  signal: AbortSignal,
): Promise<Socket> {
  const tls = tlsConnect({
    socket,
    host,
    ...(isIP(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
    ALPNProtocols: ['http/1.1'],
    // Said although it is the default, because an environment variable can change that.
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

/** The result of the work, or a rejection as soon as the signal says so. */
export function before<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** What is asked over a socket; without a body it is a GET, with one a POST. */
export interface Call {
  headers?: Record<string, string>;
  body?: Buffer;
}

/** Sends one request over a socket that is ready for it, and has the answer as soon as it begins; nothing is followed or kept open. */
export const exchange = (socket: Socket, url: URL, call: Call, signal: AbortSignal): Promise<IncomingMessage> =>
  answerTo(requestOver({ createConnection: () => socket }, url, call), call, signal);

/**
 * The same over a connection of this agent, which may be one that another call has used, and is kept for the next once the answer was read.
 *
 * @throws LostConnection where that broke before a byte of the answer: what it was used for may have arrived, or not
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
  let heard = 0;
  sent.once('socket', (socket) => (heard = -socket.bytesRead));
  try {
    return await answerTo(sent, call, signal);
  } catch (error) {
    heard += sent.socket?.bytesRead ?? 0;
    throw sent.reusedSocket && heard === 0 && !signal.aborted && isBreak(error) ? new LostConnection() : error;
  }
}

/** A connection that was kept was not there any more. */
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

/** The answer to a request that is about to be sent, as soon as it begins. */
function answerTo(sent: ClientRequest, { body }: Call, signal: AbortSignal): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    // What breaks after the answer has begun is seen by whoever reads it.
    sent.on('error', reject);
    // An answer that asks for another protocol is followed by nothing.
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
      // It stays: a socket that breaks between two steps must not end the process.
      socket.on('error', reject);
      socket.once('close', () => reject(closed()));
    }),
  );
}

const sentences: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed before an answer came',
  EPIPE: 'the connection was closed before an answer came',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  ETIMEDOUT: 'the host cannot be reached',
};

/** What went wrong, for a person; it never says what a name resolved to. */
export function sentenceOf(error: unknown): string {
  if (error instanceof CallError) return error.message;
  const { code, message } = error as { code?: unknown; message?: string };
  const text = String(code ?? message ?? 'unknown');
  if (text.startsWith('HPE_')) return `the answer was not HTTP (${text})`;
  if (/CERT|SELF_SIGNED|UNABLE_TO|^ERR_TLS/.test(text)) return `the TLS certificate is not good (${text})`;
  if (/SSL|TLS/.test(text)) return `TLS could not be agreed on (${text})`;
  return sentences[text] ?? `the call failed (${text})`;
}
