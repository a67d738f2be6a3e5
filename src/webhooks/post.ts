import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { hostOf, refuseUrl } from '../endpoint.ts';
import {
  addressesOf,
  CallError,
  type CheckedLookUp,
  endAfter,
  exchange,
  exchangeAgain,
  LostConnection,
  openSocket,
  sentenceOf,
} from '../smtp/checked-socket.ts';
import type { KeptSockets, Way } from './kept-sockets.ts';

/** What came of one call. Either there is a status, or an error that says why there is none. */
export interface Answer {
  status: number | null;
  /** What was read of the body: cleaned, and cut where the log cuts it. */
  body: string | null;
  retryAfter: string | null;
  /** One sentence for the owner of the endpoint; it never says what a name resolved to. */
  error: string | null;
  durationMs: number;
}

export interface Poster extends CheckedLookUp {
  /** Connections for calls that others follow; without it each call has one of its own. */
  kept?: KeptSockets;
  /** For all of it: look-up, connection, TLS, answer. */
  timeoutMs?: number;
  /** Trusted instead of the usual certification authorities, in PEM. */
  ca?: string;
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
 * Posts a body once, and does not throw. The host is resolved once, every address that it has is checked, and the
 * connection goes to one of those: nothing is looked up in between. No redirect is followed, no proxy asked, nothing
 * decompressed. What counts is the status line: a body that does not end is cut off.
 *
 * @param signal ends it early
 * @param line of calls that follow soon: the connection may be one that was kept of these, and is kept for them. Where one that was
 *   kept turns out to be gone, without a word, it is posted once more, as nobody can say whether it had arrived
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
  const answer = { status: null, body: null, retryAfter: null, error: null };
  const done = (fields: Partial<Answer>): Answer => ({
    ...answer,
    ...fields,
    durationMs: Math.round(performance.now() - start),
  });
  try {
    const url = new URL(call.url);
    const refused = refuseUrl(url, poster.allowPrivate);
    if (refused) throw new CallError(`the URL ${refused}`);
    const open = async () => openSocket(url, await addressesOf(hostOf(url), poster, end.signal), poster.ca, end.signal);
    // What an endpoint has done to a connection must not be of concern to another account's, on the same host.
    const way = line !== null && poster.kept ? { agent: poster.kept, name: `${line} ${url.origin}`, open } : null;
    const again = way && (await askAgain(way, url, call, end.signal));
    if (again) return done(again);
    const socket = await open();
    try {
      return done(await answerOf(await exchange(socket, url, requestOf(call), end.signal), end.signal));
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

type Said = Pick<Answer, 'status' | 'body' | 'retryAfter' | 'error'>;

/** @returns null where a connection that was kept was gone */
async function askAgain(way: Way, url: URL, call: PostedCall, signal: AbortSignal): Promise<Said | null> {
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

async function answerOf(response: IncomingMessage, signal: AbortSignal): Promise<Said> {
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
  if (!response.readableEnded) response.destroy();
  // One that was read to its end has given its connection back, unless the endpoint has not taken all of the request yet.
  const socket: Socket | null = response.socket;
  socket?.destroy();
  return Buffer.concat(chunks);
}

/** As text that can be stored and shown: control characters become U+FFFD, as do bytes that are not UTF-8. */
function clean(bytes: Buffer): string | null {
  if (bytes.length === 0) return null;
  // Streaming leaves out a character that the cut went through.
  const text = new TextDecoder().decode(bytes.subarray(0, mostKept), { stream: true });
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (each) => (each === '\r' ? each : '\ufffd'));
}
