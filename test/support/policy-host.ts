import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

type Test = { teardown(work: () => Promise<void>): void };

export interface PolicyHost {
  port: number;
  /** The requested paths, each with its host. */
  requests: string[];
  /** Its answer from now on: a policy file, or whatever the function does. */
  answer: string | ((response: ServerResponse) => void);
}

export const policyFile = (...lines: string[]) => ['version: STSv1', ...lines, ''].join('\r\n');

/** An HTTPS server on loopback that serves an MTA-STS policy. */
export async function startPolicyHost(
  t: Test,
  credentials: { key: string; cert: string },
  answer: PolicyHost['answer'],
): Promise<PolicyHost> {
  const host: PolicyHost = { port: 0, requests: [], answer };
  const sockets = new Set<Duplex>();
  const server = createServer({ key: credentials.key, cert: credentials.cert }, (request, response) => {
    host.requests.push(`${request.headers.host} ${request.url}`);
    if (typeof host.answer === 'function') return host.answer(response);
    response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' }).end(host.answer);
  });
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  host.port = (server.address() as AddressInfo).port;
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return host;
}
