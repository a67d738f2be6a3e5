import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientOptions, Sendwright, SendwrightError } from 'sendwright/client';
import { holdAnswer } from '../support/contract.ts';

/** The global fetch, with every answer checked against openapi.json. */
export const checkedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const text = await response.clone().text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  const { pathname } = new URL(String(input));
  const { status, headers } = response;
  holdAnswer(init?.method ?? 'GET', pathname, { status, headers, body: isJson ? JSON.parse(text) : text });
  return response;
};

/** A client of a node under test. */
export const clientOf = ({ baseUrl }: { baseUrl: string }, options: Partial<ClientOptions> = {}) =>
  new Sendwright({ baseUrl, fetch: checkedFetch, backoffMs: 1, ...options });

export interface Received {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

type Handler = (response: ServerResponse, request: IncomingMessage) => unknown;

/** A server on loopback that answers its first request with the first handler, and so on; the last one repeats. */
export async function startMisbehaving(t: { teardown(work: () => void): void }, ...handlers: Handler[]) {
  const requests: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method, url, headers } = request;
    const number = requests.push({ method, url, headers, body: Buffer.concat(chunks).toString(), at: Date.now() });
    await (handlers[number - 1] ?? handlers.at(-1))?.(response, request);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    baseUrl,
    requests,
    client: new Sendwright({ baseUrl, apiKey: 'sk_live_secret', token: 'jwt', backoffMs: 1 }),
  };
}

/** A handler that answers with this. */
export const say =
  (status: number, body: unknown, headers: Record<string, string> = {}): Handler =>
  (response) =>
    response
      .writeHead(status, { 'Content-Type': 'application/json', ...headers })
      .end(typeof body === 'string' ? body : JSON.stringify(body));

/** A handler that drops the connection. */
export const drop: Handler = (response) => response.socket?.resetAndDestroy();

/** The error of a call; the test fails if there is none. */
export async function failure(promise: Promise<unknown>): Promise<SendwrightError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof SendwrightError) return error;
    throw error;
  }
  throw new Error('nothing failed');
}
