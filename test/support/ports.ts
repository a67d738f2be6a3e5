import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** Below the system's ephemeral ports: such a port may be taken by anybody before we listen on it. */
const range = { from: 10_000, to: 32_000 };

/** A loopback port that nobody listens on, nor is likely to soon. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(range.from, range.to);
    const server = createServer();
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening');
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    } finally {
      server.close();
    }
  }
}

/** Whether a server answers there. */
export function answersAt(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host);
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
