import { createServer, maxHeaderSize, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http';
import { type AddressInfo, Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type Koa from 'koa';
import { type ApiError, headersTooLarge, invalidRequest } from '../errors.ts';
import { newId } from '../ids.ts';
import { grouped } from '../numbers.ts';
import { connectionsWithin } from '../process/open-files.ts';
import { cutOff } from './cut-off.ts';

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

/**
 * When we stop, connections without a request stay open until none has come for this long: the next one of a proxy may be on its way,
 * and is answered with `Connection: close`. It would meet a closed connection, and a proxy does not repeat a POST.
 */
const quietMs = 100;

/** How many requests a client may have sent ahead on one connection without waiting for answers (RFC 9112 section 9.3.2). */
const mostAhead = 100;

/** Connections at once, which take about 17 kB each. */
const mostConnections = 10_000;

export interface ListenOptions {
  patience?: Patience;
  /** The most connections at once. */
  most?: number;
  /** Called for each connection that is closed because there are as many. */
  onTurnedAway?: (most: number) => void;
}

/** @throws Error with `code` EADDRINUSE and the like */
export async function listen(
  app: Koa,
  host: string,
  port: number,
  { patience = usualPatience, most = connectionsWithin(mostConnections, 'api'), onTurnedAway }: ListenOptions = {},
): Promise<HttpServer> {
  const due = new DueAnswers();
  const answer = boundedAnswers(app, due, patience);
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
  server.maxConnections = most;
  // Otherwise a worker would hand on what is too much to another one, which has as many. Node's types do not know it.
  Object.assign(server, { dropMaxConnection: true });
  server.on('drop', () => onTurnedAway?.(most));
  // Expectations other than `100-continue` are ignored, as RFC 9110 section 10.1.1 allows.
  server.on('checkExpectation', answer);
  server.on('clientError', refuseInTurn(due, patience));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: (graceMs) =>
      new Promise((resolve) => {
        due.stop();
        app.emit('stopping');
        const enough = setTimeout(() => server.closeAllConnections(), graceMs);
        const quiet = setTimeout(() => server.closeIdleConnections(), Math.min(quietMs, graceMs));
        server.on('request', () => quiet.refresh());
        // The server's own would close connections without a request at once.
        Server.prototype.close.call(server, () => {
          clearTimeout(enough);
          clearTimeout(quiet);
          resolve();
        });
      }),
  };
}

/**
 * The answers that are due on each connection. Once we stop, a connection ends with the last of them: a busy one would be cut in
 * the middle of a request.
 */
class DueAnswers {
  readonly #due = new Map<Duplex, Set<ServerResponse>>();
  #isStopping = false;

  /** In the order of the requests. */
  on(socket: Duplex): ServerResponse[] {
    return [...(this.#due.get(socket) ?? [])];
  }

  /** @returns false if the connection ends with another answer, so that this request is not to be begun (RFC 9112 section 9.6) */
  add(res: ServerResponse): boolean {
    const { socket } = res.req;
    const due = this.#due.get(socket) ?? new Set();
    if (this.#isStopping && due.size > 0) return false;
    if (this.#isStopping) endWith(res);
    this.#due.set(socket, due.add(res));
    res.once('close', () => {
      due.delete(res);
      if (due.size === 0) this.#due.delete(socket);
    });
    return true;
  }

  stop(): void {
    this.#isStopping = true;
    for (const socket of this.#due.keys()) {
      const last = this.on(socket).at(-1);
      if (last) endWith(last);
    }
  }
}

function endWith(res: ServerResponse): void {
  const { socket } = res.req;
  if (res.headersSent) res.once('finish', () => socket.destroySoon());
  else res.shouldKeepAlive = false;
}

/** Has the app answer requests, within bounds of how many a client sends ahead and how slowly it takes the answers. */
function boundedAnswers(app: Koa, due: DueAnswers, { takingMs }: Patience): RequestListener {
  const handle = app.callback();
  return (req, res) => {
    const { socket } = req;
    // Node reads and begins whatever else comes, which would keep all others waiting.
    if (due.on(socket).length >= mostAhead) socket.destroy();
    // Requests that came in one piece with the one too many are begun all the same.
    if (socket.destroyed || !due.add(res)) return;
    // While we wait ourselves, for the database or the next event, there is nothing for it to read.
    res.setTimeout(takingMs, () => {
      if (res.writableLength > 0) cutOff(res);
    });
    return handle(req, res);
  };
}

/** Node's error for a request that is not HTTP or was too slow; `reason` comes from the parser. */
type BrokenRequest = Error & { code?: string; reason?: string };

/**
 * Refuses what follows whole requests only after their answers: a client takes what it reads first for the answer to what it sent
 * first, such as an email with a NUL behind its body, and would send that again.
 */
function refuseInTurn(due: DueAnswers, patience: Patience) {
  const waiting = new WeakSet<Duplex>();
  return (error: BrokenRequest, socket: Duplex) => {
    // Each further piece of what is no request is another error.
    if (waiting.has(socket)) return;
    const last = due.on(socket).findLast(({ req }) => req.complete);
    if (!last) return refuseBroken(error, socket, patience);
    waiting.add(socket);
    last.once('close', () => {
      waiting.delete(socket);
      if (socket.writable) refuseBroken(error, socket, patience);
    });
  };
}

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
