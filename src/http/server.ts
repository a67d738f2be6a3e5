import { createServer, maxHeaderSize, type RequestListener, STATUS_CODES } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type Koa from 'koa';
import { type ApiError, headersTooLarge, invalidRequest } from '../errors.ts';
import { newId } from '../ids.ts';
import { grouped } from '../numbers.ts';

export interface HttpServer {
  port: number;
  /** Stops accepting connections and waits for the requests under way, for at most `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** How long to wait for a client, in ms. */
export interface Patience {
  /** For a whole header. */
  headersMs: number;
  /** For a whole request. */
  requestMs: number;
  /** How often these two are checked. */
  checkedEveryMs: number;
  /** For it to close a connection that we ended with a refusal, which it should read first. */
  lingerMs: number;
  /** For it to read any part of a pending answer. */
  takingMs: number;
}

const usualPatience: Patience = {
  headersMs: 15_000,
  requestMs: 120_000,
  checkedEveryMs: 5_000,
  lingerMs: 2_000,
  takingMs: 60_000,
};

/** How many requests a client may have sent ahead on one connection without waiting for answers (RFC 9112 section 9.3.2). */
const mostAhead = 100;

/** @throws Error with `code` EADDRINUSE and the like */
export async function listen(app: Koa, host: string, port: number, patience = usualPatience): Promise<HttpServer> {
  const answer = boundedAnswers(app, patience);
  const server = createServer(
    {
      // The app refuses requests without a Host itself: Node's refusal would have no body and no request id.
      requireHostHeader: false,
      headersTimeout: patience.headersMs,
      requestTimeout: patience.requestMs,
      connectionsCheckingInterval: patience.checkedEveryMs,
      keepAliveTimeout: 65_000,
    },
    answer,
  );
  // Expectations other than `100-continue` are ignored, as RFC 9110 section 10.1.1 allows.
  server.on('checkExpectation', answer);
  server.on('clientError', (error: BrokenRequest, socket) => refuseBroken(error, socket, patience));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: (graceMs) =>
      new Promise((resolve) => {
        app.emit('stopping');
        const enough = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(enough);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

/** Has the app answer requests, within bounds of how many a client sends ahead and how slowly it takes the answers. */
function boundedAnswers(app: Koa, { takingMs }: Patience): RequestListener {
  const handle = app.callback();
  const unanswered = new WeakMap<Socket, number>();
  return (req, res) => {
    const { socket } = req;
    const ahead = (unanswered.get(socket) ?? 0) + 1;
    // Node reads and begins whatever else comes, which would keep all others waiting.
    if (ahead > mostAhead) socket.destroy();
    // Requests that came in one piece with the one too many are begun all the same.
    if (socket.destroyed) return;
    unanswered.set(socket, ahead);
    res.once('close', () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
    // While we wait ourselves, for the database or the next event, there is nothing for it to read.
    res.setTimeout(takingMs, () => {
      if (res.writableLength > 0) res.destroy();
    });
    return handle(req, res);
  };
}

/** Node's error for a request that is not HTTP or was too slow; `reason` comes from the parser. */
type BrokenRequest = Error & { code?: string; reason?: string };

/** Says what is wrong with such a request, and closes its connection. */
function refuseBroken(error: BrokenRequest, socket: Duplex, { lingerMs }: Patience): void {
  // Browsers open connections in advance, and would take this answer for the one to their first request.
  const isUnused = socket instanceof Socket && socket.bytesRead === 0;
  if (!socket.writable || isUnused) {
    socket.destroy();
    return;
  }
  socket.end(refusal(whatIsWrong(error)));
  // A client that never closes its side and keeps sending would otherwise keep the connection forever.
  const enough = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(enough));
}

function whatIsWrong({ code, reason }: BrokenRequest): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return headersTooLarge(
      `the path and headers of a request must have at most ${grouped(maxHeaderSize)} bytes together`,
    );
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return invalidRequest('the request did not arrive in time');
  return invalidRequest(`this is not HTTP/1.1${reason === undefined ? '' : `: ${reason}`}`);
}

/** The raw answer to such a request: there is no response object yet. */
function refusal({ status, message, detail }: ApiError): string {
  const body = JSON.stringify({ error: message, detail });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `X-Request-Id: ${newId()}`,
    'X-Content-Type-Options: nosniff',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}
