import { createServer } from 'node:net';

/** Whether connections can be made from this address: whether TCP can bind a port on it. */
export function isOwnAddress(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host: address, port: 0, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
