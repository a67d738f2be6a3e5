import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';

/** The gate between a node and its database: `shut` refuses everyone, `mute` accepts everything and answers nothing. */
export type GateState = 'open' | 'shut' | 'mute';

export interface Gate {
  /** The database's URL through this gate. */
  url: string;
  set(state: GateState): void;
  close(): Promise<void>;
}

/** A database URL that leads to a proxy, and never past it. */
export function throughProxy(databaseUrl: string | URL, { address, port }: AddressInfo): string {
  const url = new URL(databaseUrl);
  url.hostname = address;
  url.port = String(port);
  // The embedded server's socket.
  url.searchParams.delete('host');
  return url.href;
}

/** A TCP proxy to this database that can be shut and opened while a node runs. */
export async function startGate(databaseUrl: string): Promise<Gate> {
  const target = new URL(databaseUrl);
  let state: GateState = 'open';
  const pairs = new Map<Socket, Socket>();
  const server = net.createServer((client) => {
    client.on('error', () => {});
    if (state === 'shut') return client.destroy();
    const upstream = net.connect(Number(target.port), target.hostname.replaceAll(/[[\]]/g, ''));
    upstream.on('error', () => client.destroy());
    upstream.on('close', () => client.destroy());
    client.on('close', () => {
      upstream.destroy();
      pairs.delete(client);
    });
    client.on('data', (chunk) => state === 'open' && upstream.write(chunk));
    upstream.on('data', (chunk) => state === 'open' && client.write(chunk));
    pairs.set(client, upstream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const client of pairs.keys()) client.destroy();
  };
  return {
    url: throughProxy(databaseUrl, server.address() as AddressInfo),
    set(next) {
      // Half a conversation must not continue after a silence.
      if (next === 'shut' || state === 'mute') cut();
      state = next;
    },
    close: () =>
      new Promise((resolve) => {
        cut();
        server.close(() => resolve());
      }),
  };
}
