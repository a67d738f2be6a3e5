import { createServer, type IncomingMessage } from 'node:http';
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
      const { status, text } = await answerTo(request, read);
      response.statusCode = status;
      if (status === 405) response.setHeader('Allow', 'GET, HEAD');
      response.setHeader('Content-Type', status === 200 ? expositionType : 'text/plain');
      response.setHeader('X-Content-Type-Options', 'nosniff');
      response.end(text);
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

async function answerTo(
  { url, method }: IncomingMessage,
  read: () => Promise<string>,
): Promise<{ status: number; text: string }> {
  if (url !== '/metrics') return { status: 404, text: '' };
  if (method !== 'GET' && method !== 'HEAD') return { status: 405, text: '' };
  return read().then(
    (text) => ({ status: 200, text }),
    () => ({ status: 503, text: '' }),
  );
}
