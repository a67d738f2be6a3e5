import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { holdEvent } from './contract.ts';

/** One call as an endpoint received it. */
export interface ReceivedCall {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** The exact text. */
  body: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service sent
  json: any;
  at: Date;
}

export interface Hook {
  /** `http://127.0.0.1:port`, or with `https` and the name of the certificate. */
  url: string;
  port: number;
  calls: ReceivedCall[];
  /** TCP connections so far. */
  readonly connections: number;
  close(): Promise<void>;
}

type Reply = number | { status: number; headers?: Record<string, string>; body?: string | Buffer };

/**
 * An endpoint on loopback whose answer is a function of the call and its number, from 0. A function that returns
 * nothing answers through the response itself, or not at all.
 */
export async function startHook(
  t: { teardown(work: () => Promise<void>): void },
  answer: (call: ReceivedCall, number: number, response: ServerResponse) => Reply | undefined | Promise<Reply> = () =>
    200,
  tls?: { key: string; cert: string; host: string },
): Promise<Hook> {
  const calls: ReceivedCall[] = [];
  const wrong: Error[] = [];
  /** A test's own body is no event. */
  const hold = ({ json }: ReceivedCall) => {
    if (json?.data?.email_id === undefined && json?.data?.webhook_id === undefined) return;
    try {
      holdEvent(json);
    } catch (error) {
      wrong.push(error as Error);
    }
  };
  let connections = 0;
  const handler: Parameters<typeof createServer>[1] = async (request, response) => {
    // A caller that is stopped in the middle of its call has made none.
    const bytes = await buffer(request).catch(() => null);
    if (bytes === null) return;
    const body = bytes.toString();
    const { method = '', url: path = '', headers } = request;
    const call = { method, path, headers, body, json: body ? JSON.parse(body) : null, at: new Date() };
    hold(call);
    const reply = await answer(call, calls.push(call) - 1, response);
    if (reply === undefined) return;
    const { status, headers: fields = {}, body: text = '' } = typeof reply === 'number' ? { status: reply } : reply;
    response.writeHead(status, fields).end(text);
  };
  const server = tls ? createTlsServer(tls, handler) : createServer(handler);
  server.on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const hook = {
    url: tls ? `https://${tls.host}:${port}` : `http://127.0.0.1:${port}`,
    port,
    calls,
    get connections() {
      return connections;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  t.teardown(async () => {
    await hook.close();
    const [first] = wrong;
    if (first) throw first;
  });
  return hook;
}

/** Whether a call is signed with this secret, checked as the API guide tells receivers to. */
export function isSigned(call: ReceivedCall, secret: string): boolean {
  const id = String(call.headers['x-service-webhook-id']);
  const timestamp = String(call.headers['x-service-webhook-timestamp']);
  const expected = `v1=${createHmac('sha256', secret).update(`${id}.${timestamp}.${call.body}`).digest('hex')}`;
  return String(call.headers['x-service-webhook-signature']).split(' ').includes(expected);
}
