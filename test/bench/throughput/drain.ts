import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Worker } from './worker.ts';

/**
 * A separate process: answers every HTTP request with 200 and does nothing else, for the generator's requests and for
 * webhooks.
 */

type DrainNews = { ready: { port: number } };

export interface Drain {
  port: number;
  end(): void;
}

export async function startDrain(): Promise<Drain> {
  const worker = new Worker<never, DrainNews>('drain.ts');
  const port = await worker.hear(({ ready }) => ready.port, 10_000, 'the server that only answers');
  return { port, end: () => worker.end() };
}

const answer = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');

if (import.meta.main) {
  const server = createServer({ noDelay: true }, (socket) => {
    /** Bytes of the request's body that are still to come. */
    let left = 0;
    let header = '';
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      if (left === 0) {
        header += chunk.toString('latin1');
        const end = header.indexOf('\r\n\r\n');
        if (end < 0) return;
        left = end + 4 + Number(/content-length: (\d+)/i.exec(header)?.[1]) - header.length;
        header = '';
      } else {
        left -= chunk.length;
      }
      if (left === 0) socket.write(answer);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.on('disconnect', () => process.exit(0));
  process.send?.({ ready: { port: (server.address() as AddressInfo).port } } satisfies DrainNews);
}
