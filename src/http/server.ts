import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type Koa from 'koa';

export interface HttpServer {
  port: number;
  /** Accepts nothing more and waits for the requests under way, `graceMs` at the most. */
  close(graceMs: number): Promise<void>;
}

const headersTimeoutMs = 15_000;
const requestTimeoutMs = 120_000;

/** @throws Error with `code` EADDRINUSE and the like */
export async function listen(app: Koa, host: string, port: number): Promise<HttpServer> {
  const server = createServer(
    { headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs, keepAliveTimeout: 65_000 },
    app.callback(),
  );
  server.on('clientError', (_error, socket) => {
    if (!socket.writable) return;
    socket.end(
      'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n{"error":"invalid request"}',
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: (graceMs) =>
      new Promise((resolve) => {
        const enough = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(enough);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
