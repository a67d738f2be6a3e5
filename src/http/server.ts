import { createServer, maxHeaderSize, type RequestListener, STATUS_CODES } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import type Koa from 'koa';
import { type ApiError, headersTooLarge, invalidRequest } from '../errors.ts';
import { newId } from '../ids.ts';

export interface HttpServer {
  port: number;
  /** Accepts nothing more and waits for the requests under way, `graceMs` at the most. */
  close(graceMs: number): Promise<void>;
}

/** For how long a client is waited for, in ms. */
export interface Patience {
  /** For a whole header. */
  headersMs: number;
  /** For a whole request. */
  requestMs: number;
  /** How often that is looked at. */
  checkedEveryMs: number;
  /** For its end of a connection that we have ended with a refusal: it is to read that first. */
  lingerMs: number;
  /** To take anything of an answer that waits for it. */
  takingMs: number;
}

const usualPatience: Patience = {
  headersMs: 15_000,
  requestMs: 120_000,
  checkedEveryMs: 5_000,
  lingerMs: 2_000,
  takingMs: 60_000,
};

/** @throws Error with `code` EADDRINUSE and the like */
export async function listen(app: Koa, host: string, port: number, patience = usualPatience): Promise<HttpServer> {
  const handle = app.callback();
  const answer: RequestListener = (req, res) => {
    // What is waited for ourselves, as a database or the next event, leaves nothing to be taken.
    res.setTimeout(patience.takingMs, () => {
      if (res.writableLength > 0) res.destroy();
    });
    return handle(req, res);
  };
  const server = createServer(
    {
      // The app refuses what has none: Node would do so without a body, and without an id.
      requireHostHeader: false,
      headersTimeout: patience.headersMs,
      requestTimeout: patience.requestMs,
      connectionsCheckingInterval: patience.checkedEveryMs,
      keepAliveTimeout: 65_000,
    },
    answer,
  );
  // What else than `100-continue` is expected is nothing to us, and need not be (RFC 9110 section 10.1.1).
  server.on('checkExpectation', answer);
  server.on('clientError', (error: BrokenRequest, socket) => {
    // Browsers keep connections ahead: an answer that waits in one would be taken for that to the first request of later.
    const isUnused = socket instanceof Socket && socket.bytesRead === 0;
    if (!socket.writable || isUnused) {
      socket.destroy();
      return;
    }
    socket.end(refusal(whatIsWrong(error)));
    // A client that never ends its side, and sends on, would keep the connection for as long as it likes.
    const enough = setTimeout(() => socket.destroy(), patience.lingerMs).unref();
    socket.once('close', () => clearTimeout(enough));
  });
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

/** What Node says of a request that is not HTTP, or did not come in time: `reason` is the parser's. */
type BrokenRequest = Error & { code?: string; reason?: string };

function whatIsWrong({ code, reason }: BrokenRequest): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return headersTooLarge(`the path and the headers of a request may have ${maxHeaderSize} bytes together`);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return invalidRequest('the request did not come in time');
  return invalidRequest(`this is not HTTP/1.1${reason === undefined ? '' : `: ${reason}`}`);
}

/** The answer to such a request. None of ours exists then, so it is written by hand. */
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
