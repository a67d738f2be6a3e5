import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expositionType } from './metrics.ts';

const headersTimeoutMs = 5_000;
const requestTimeoutMs = 10_000;

/** The only clients are a Prometheus or two. */
const mostConnections = 20;

/**
 * Opens the port that Prometheus reads. It has no authentication, so strangers must not reach it.
 *
 * @param read returns the metrics as text
 * @throws Error with `code` EADDRINUSE and the like
 */
export async function openMetrics(
  { host, port }: { host: string; port: number },
  read: () => Promise<string>,
): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: headersTimeoutMs,
    },
    async (request, response) => {
      const known = request.url === '/metrics';
      const allowed = request.method === 'GET' || request.method === 'HEAD';
      const text = known && allowed ? await read().catch(() => null) : null;
      response.statusCode = !known ? 404 : !allowed ? 405 : text === null ? 503 : 200;
      response.setHeader('Content-Type', text === null ? 'text/plain' : expositionType);
      response.setHeader('X-Content-Type-Options', 'nosniff');
      response.end(text ?? '');
    },
  );
  server.maxConnections = mostConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, exclusive: true }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
