import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expositionType } from './metrics.ts';
import { portError } from './start-error.ts';

const headersTimeoutMs = 5_000;
const requestTimeoutMs = 10_000;

/** The only clients are a Prometheus or two. */
const mostConnections = 20;

export interface MetricsServer {
  port: number;
  close(): Promise<void>;
}

/**
 * Opens the port that Prometheus reads. It has no authentication, so strangers must not reach it.
 *
 * @param read returns the metrics as text; while it fails, the answer is a 503
 * @throws StartError if the port cannot be listened on
 */
export async function openMetrics(
  { host, port }: { host: string; port: number },
  read: () => Promise<string>,
): Promise<MetricsServer> {
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
    server.once('error', (error) =>
      reject(portError({ port: 'METRICS_PORT', host: 'METRICS_HOST' }, { host, port }, error)),
    );
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
