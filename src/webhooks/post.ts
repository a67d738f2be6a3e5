import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import {
  addressesOf,
  CallError,
  type CheckedLookUp,
  type Connect,
  endAfter,
  exchange,
  exchangeAgain,
  LostConnection,
  openSocket,
  sentenceOf,
  UntriedCall,
} from '../smtp/calls/checked-socket.ts';
import { hostOf, refuseUrl } from '../smtp/calls/endpoint.ts';
import type { KeptSockets, Way } from './kept-sockets.ts';

/** What came of one call. */
export type Answer = (Answered | Unanswered) & { durationMs: number };

interface Answered {
  status: number;
  /** What was read of it: cleaned, and cut to what the log keeps. */
  body: string | null;
  retryAfter: string | null;
  /** One sentence for the owner of the endpoint, if the status does not say what is wrong. */
  error: string | null;
}

/** There was no answer, or not in time. */
interface Unanswered {
  status: null;
  body: null;
  retryAfter: null;
  /** True if this server could not even call: the endpoint is not to blame. */
  untried: boolean;
  /** One sentence for the owner of the endpoint; it never says what a name resolved to. */
  error: string;
}

export interface Poster extends CheckedLookUp {
  /** Connections for calls that others follow; without it each call opens its own. */
  kept?: KeptSockets;
  /** For the whole call: look-up, connection, TLS, answer. */
  timeoutMs?: number;
  /** Trusted instead of the usual certification authorities, in PEM. */
  ca?: string;
  connect?: Connect;
  /** Told when this server could not even call. */
  onUntried?: () => void;
}

/** One POST to an endpoint. */
export interface PostedCall {
  url: string;
  headers: Record<string, string>;
  body: Buffer;
}

const defaultTimeoutMs = 15_000;
const mostRead = 64 * 1024;
const mostKept = 2_048;

/**
 * Posts a body once, and does not throw. The host is resolved once, all its addresses are checked, and the connection goes to
 * one of those, without another look-up in between. Redirects are not followed, no proxy is used, and nothing is
 * decompressed. The status line decides: a body that does not end is cut off.
 *
 * @param signal ends it early
 * @param line names a line of calls that follow soon: this call may use a connection kept by them, and keeps its own for them.
 *   If a kept connection is gone without an answer, the body is posted once more, because it is not known whether it arrived
 */
export async function post(
  poster: Poster,
  call: PostedCall,
  signal: AbortSignal,
  line: string | null = null,
): Promise<Answer> {
  const start = performance.now();
  const timeoutMs = poster.timeoutMs ?? defaultTimeoutMs;
  const end = endAfter(timeoutMs, signal);
  const answer = await postInTime(poster, call, end.signal, line)
    .catch((error: unknown) => {
      if (signal.aborted) return unanswered('the call was cut short by this server');
      if (end.signal.aborted) return unanswered(`there was no answer within ${timeoutMs / 1000} seconds`);
      const untried = error instanceof UntriedCall;
      if (untried) poster.onUntried?.();
      return unanswered(sentenceOf(error), untried);
    })
    .finally(() => end.clear());
  return { ...answer, durationMs: Math.round(performance.now() - start) };
}

/** @param error one sentence for the owner of the endpoint */
export const unanswered = (error: string, untried = false): Unanswered => ({
  status: null,
  body: null,
  retryAfter: null,
  untried,
  error,
});

/** @throws whatever keeps it from being answered */
async function postInTime(
  poster: Poster,
  call: PostedCall,
  signal: AbortSignal,
  line: string | null,
): Promise<Answered> {
  const url = new URL(call.url);
  const refused = refuseUrl(url, poster.allowPrivate);
  if (refused) throw new CallError(`the URL ${refused}`);
  const open = async () => {
    const addresses = await addressesOf(hostOf(url), poster, signal);
    return openSocket(url, addresses, signal, { ca: poster.ca, connect: poster.connect });
  };
  // What an endpoint did to a connection must not affect another account's endpoint on the same host.
  const way = line !== null && poster.kept ? { agent: poster.kept, name: `${line} ${url.origin}`, open } : null;
  const answered = way && (await postOverKept(way, url, call, signal));
  if (answered) return answered;
  const socket = await open();
  try {
    return await answerOf(await exchange(socket, url, requestOf(call), signal), signal);
  } finally {
    socket.destroy();
  }
}

/** @returns null if the kept connection was gone before an answer came */
async function postOverKept(way: Way, url: URL, call: PostedCall, signal: AbortSignal): Promise<Answered | null> {
  try {
    return await answerOf(await exchangeAgain(way, url, requestOf(call), signal), signal);
  } catch (error) {
    if (error instanceof LostConnection) return null;
    throw error;
  }
}

const requestOf = ({ headers, body }: PostedCall) => ({
  headers: { 'Content-Type': 'application/json', ...headers },
  body,
});

async function answerOf(response: IncomingMessage, signal: AbortSignal): Promise<Answered> {
  const status = response.statusCode ?? 0;
  const redirect = status >= 300 && status < 400;
  return {
    status,
    body: clean(await read(response, signal)),
    retryAfter: response.headers['retry-after'] ?? null,
    error: redirect ? 'redirects are not followed: the endpoint must answer itself' : null,
  };
}

/**
 * Reads as much of the body as size and time allow, and keeps its beginning. Its pieces are copied: in chunks of one octet, each
 * an object, 64 kB took 30 MB, and an account has hundreds of calls under way.
 */
async function read(response: IncomingMessage, signal: AbortSignal): Promise<Buffer> {
  const kept = Buffer.alloc(mostKept);
  let length = 0;
  const { socket: from } = response;
  const readBefore = from.bytesRead;
  await new Promise<void>((resolve) => {
    const stop = () => resolve();
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    response.on('data', (chunk: Buffer) => {
      length += chunk.copy(kept, length);
      // Off the wire: what frames such chunks is five times as long as they are.
      if (from.bytesRead - readBefore >= mostRead) stop();
    });
    response.once('close', stop);
    response.once('end', stop);
    response.on('error', stop);
  });
  if (!response.readableEnded) response.destroy();
  // A body read to its end has given its connection back, unless the endpoint has not taken the whole request yet.
  const socket: Socket | null = response.socket;
  socket?.destroy();
  return kept.subarray(0, length);
}

/** As text that can be stored and shown: control characters become U+FFFD, as do bytes that are not UTF-8. */
function clean(bytes: Buffer): string | null {
  if (bytes.length === 0) return null;
  // Streaming leaves out a character that was cut in two.
  const text = new TextDecoder().decode(bytes, { stream: true });
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (each) => (each === '\r' ? each : '\ufffd'));
}
