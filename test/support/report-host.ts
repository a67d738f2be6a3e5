import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { createAuthority } from './authority.ts';

type Test = { teardown(work: () => Promise<void>): void };

export interface PostedReport {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service sent
  json: any;
}

export interface ReportHost {
  /** `https://reports.test:<port>/`, for a zone in which the name is 127.0.0.1. */
  url: string;
  posts: PostedReport[];
  /** TCP connections so far. */
  readonly connections: number;
  /** Its answer from now on. */
  status: number;
}

/** An HTTPS server on loopback that accepts TLS reports. Its certificate's authority is trusted by nobody. */
export async function startReportHost(t: Test, status = 200): Promise<ReportHost> {
  let connections = 0;
  const host = {
    url: '',
    posts: [] as PostedReport[],
    status,
    get connections() {
      return connections;
    },
  };
  const server = createServer(createAuthority().issue(['reports.test']), async (request, response) => {
    // A caller that is stopped in the middle of its call has made none.
    const packed = await buffer(request).catch(() => null);
    if (packed === null) return;
    const { method = '', url: path = '', headers } = request;
    host.posts.push({ method, path, headers, json: JSON.parse(gunzipSync(packed).toString()) });
    const redirect = host.status >= 300 && host.status < 400 ? { Location: host.url } : {};
    response.writeHead(host.status, redirect).end('thank you');
  });
  server.on('connection', (socket) => {
    connections += 1;
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  host.url = `https://reports.test:${(server.address() as AddressInfo).port}/`;
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return host;
}
