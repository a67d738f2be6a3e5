import { type IncomingMessage, request } from 'node:http';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { hostOf, isLocalhost, portOf, refuseUrl } from '../endpoint.ts';
import { isPublicAddress } from '../ip.ts';
import { ask, type Resolver } from '../smtp/resolver.ts';

/** What came of one call. Either there is a status, or an error that says why there is none. */
export interface Answer {
  status: number | null;
  /** What was read of the body: cleaned, and cut where the log cuts it. */
  body: string | null;
  retryAfter: string | null;
  /** One sentence for the owner of the endpoint; it never says what a name resolved to. */
  error: string | null;
  startedAt: Date;
  durationMs: number;
}

export interface Poster {
  resolver: Pick<Resolver, 'resolve4' | 'resolve6'>;
  /** Lets calls go to addresses outside the public internet. */
  allowPrivate: boolean;
  /** For all of it: look-up, connection, TLS, answer. */
  timeoutMs?: number;
  /** Trusted instead of the usual certification authorities, in PEM. */
  ca?: string;
}

const defaultTimeoutMs = 15_000;
const connectTimeoutMs = 5_000;
const mostAddresses = 4;
const mostRead = 64 * 1024;
const mostKept = 2_048;

/** A call that may not or cannot be made; the message is for the owner of the endpoint. */
class CallError extends Error {}

/**
 * Posts a body once, and does not throw. The host is resolved once, every address that it has is checked, and the
 * connection goes to one of those: nothing is looked up in between. No redirect is followed, no proxy asked, nothing
 * decompressed or kept open. What counts is the status line: a body that does not end is cut off.
 *
 * @param signal ends it early
 */
export async function post(
  poster: Poster,
  call: { url: string; headers: Record<string, string>; body: Buffer },
  signal: AbortSignal,
): Promise<Answer> {
  const startedAt = new Date();
  const start = performance.now();
  const timeoutMs = poster.timeoutMs ?? defaultTimeoutMs;
  const end = endAfter(timeoutMs, signal);
  const answer = { status: null, body: null, retryAfter: null, error: null };
  const done = (fields: Partial<Answer>): Answer => ({
    ...answer,
    ...fields,
    startedAt,
    durationMs: Math.round(performance.now() - start),
  });
  try {
    const url = new URL(call.url);
    const refused = refuseUrl(url, poster.allowPrivate);
    if (refused) throw new CallError(`the URL ${refused}`);
    const addresses = await addressesOf(hostOf(url), poster, end.signal);
    const socket = await open(url, addresses, poster.ca, end.signal);
    try {
      return done(await exchange(socket, url, call, end.signal));
    } finally {
      socket.destroy();
    }
  } catch (error) {
    if (signal.aborted) return done({ error: 'the call was cut short by this server' });
    return done({
      error: end.signal.aborted ? `there was no answer within ${timeoutMs / 1000} seconds` : sentenceOf(error),
    });
  } finally {
    end.clear();
  }
}

/** A signal that aborts after a time, or with the other one; `clear` lets go of both. */
function endAfter(ms: number, other: AbortSignal): { signal: AbortSignal; clear(): void } {
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

async function addressesOf(host: string, poster: Poster, signal: AbortSignal): Promise<string[]> {
  const found = isIP(host) ? [host] : isLocalhost(host) ? ['127.0.0.1', '::1'] : await lookUp(host, poster, signal);
  // One inward address is enough: whoever mixes them hopes that we take the wrong one.
  if (!poster.allowPrivate && !found.every(isPublicAddress)) {
    throw new CallError('the endpoint is not on the public internet');
  }
  return found.slice(0, mostAddresses);
}

async function lookUp(host: string, { resolver }: Poster, signal: AbortSignal): Promise<string[]> {
  const answers = await before(
    signal,
    Promise.all([ask(() => resolver.resolve4(host)), ask(() => resolver.resolve6(host))]),
  );
  const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (found.length > 0) return found;
  for (const answer of answers) if (answer.kind === 'temporary') throw new CallError(`${host}: ${answer.reason}`);
  throw new CallError(`the host name ${host} has no address`);
}

/** A connection to the first of the addresses that takes one, ready for the request. */
async function open(url: URL, addresses: string[], ca: string | undefined, signal: AbortSignal): Promise<Socket> {
  let failure: unknown;
  for (const address of addresses) {
    const socket = netConnect({ host: address, port: portOf(url), noDelay: true });
    const soon = endAfter(connectTimeoutMs, signal);
    try {
      await happens(socket, 'connect', soon.signal);
      return url.protocol === 'https:' ? await secure(socket, hostOf(url), ca, signal) : socket;
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

async function secure(socket: Socket, host: string, ca: string | undefined, signal: AbortSignal): Promise<Socket> {
  const tls = tlsConnect({
    socket,
    host,
    ...(isIP(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
    ALPNProtocols: ['http/1.1'],
    // Said although it is the default, because an environment variable can change that.
    rejectUnauthorized: true,
  });
  try {
    await happens(tls, 'secureConnect', signal);
    return tls;
  } catch (error) {
    tls.destroy();
    throw error;
  }
}

async function exchange(
  socket: Socket,
  url: URL,
  call: { headers: Record<string, string>; body: Buffer },
  signal: AbortSignal,
): Promise<Pick<Answer, 'status' | 'body' | 'retryAfter' | 'error'>> {
  const sent = request({
    createConnection: () => socket,
    host: hostOf(url),
    method: 'POST',
    path: `${url.pathname}${url.search}`,
    setHost: false,
    headers: {
      Host: url.host,
      'Content-Type': 'application/json',
      'Content-Length': call.body.length,
      'User-Agent': 'Sendwright',
      'Accept-Encoding': 'identity',
      Connection: 'close',
      ...call.headers,
    },
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    // What breaks after the answer has begun is seen by whoever reads it.
    sent.on('error', reject);
    // An answer that asks for another protocol is followed by nothing.
    sent.once('close', () => reject(Object.assign(new Error('closed'), { code: 'ECONNRESET' })));
  });
  sent.end(call.body);
  const response = await before(signal, answered);
  const status = response.statusCode ?? 0;
  const redirect = status >= 300 && status < 400;
  return {
    status,
    body: clean(await read(response, signal)),
    retryAfter: response.headers['retry-after'] ?? null,
    error: redirect ? 'redirects are not followed: the endpoint must answer itself' : null,
  };
}

/** What can be had of the body, within the bounds of size and time. */
async function read(response: IncomingMessage, signal: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  await new Promise<void>((resolve) => {
    const stop = () => resolve();
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= mostRead) stop();
    });
    response.once('close', stop);
    response.once('end', stop);
    response.on('error', stop);
  });
  response.destroy();
  return Buffer.concat(chunks);
}

/** As text that can be stored and shown: control characters become U+FFFD, as do bytes that are not UTF-8. */
function clean(bytes: Buffer): string | null {
  if (bytes.length === 0) return null;
  // Streaming leaves out a character that the cut went through.
  const text = new TextDecoder().decode(bytes.subarray(0, mostKept), { stream: true });
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (each) => (each === '\r' ? each : '\ufffd'));
}

/** The result of the work, or a rejection as soon as the signal says so. */
function before<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function happens(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<void> {
  return before(
    signal,
    new Promise((resolve, reject) => {
      socket.once(event, () => resolve());
      // It stays: a socket that breaks between two steps must not end the process.
      socket.on('error', reject);
      socket.once('close', () => reject(Object.assign(new Error('closed'), { code: 'ECONNRESET' })));
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

function sentenceOf(error: unknown): string {
  if (error instanceof CallError) return error.message;
  const { code, message } = error as { code?: unknown; message?: string };
  const text = String(code ?? message ?? 'unknown');
  if (text.startsWith('HPE_')) return `the answer was not HTTP (${text})`;
  if (/CERT|SELF_SIGNED|UNABLE_TO|^ERR_TLS/.test(text)) return `the TLS certificate is not good (${text})`;
  if (/SSL|TLS/.test(text)) return `TLS could not be agreed on (${text})`;
  return sentences[text] ?? `the call failed (${text})`;
}
