import { Agent, type ClientRequestArgs } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Less than servers usually wait (five seconds and more), so that hardly any call meets a connection that has just closed. */
const idleMs = 4_000;
/** After this time the name is looked up again, as the host may have moved. */
const longestMs = 60_000;
const mostIdle = 500;

/** How a call gets its connection. */
export interface Way {
  agent: KeptSockets;
  /** Calls with the same name share connections, which all go to one scheme, host and port. */
  name: string;
  /** Opens a connection to an address that was checked. */
  open: () => Promise<Socket>;
}

/**
 * Keeps connections to endpoints that have more calls waiting: the next call needs no look-up, TCP or TLS handshake. Each was
 * opened to an address that was checked, and stays with it.
 */
export class KeptSockets extends Agent {
  readonly #since = new WeakMap<Duplex, number>();

  constructor() {
    super({ keepAlive: true, timeout: idleMs, scheduling: 'lifo' });
  }

  override getName(options?: ClientRequestArgs & Partial<Way>): string {
    return options?.name ?? '';
  }

  override createConnection(
    options: ClientRequestArgs & Partial<Way>,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const opened = options.open?.() ?? Promise.reject(new Error('there is no way to open a connection'));
    opened.then(
      (socket) => {
        this.#since.set(socket, performance.now());
        callback?.(null, socket);
      },
      (error: Error) => callback?.(error, undefined as never),
    );
  }

  override keepSocketAlive(socket: Duplex): boolean {
    const age = performance.now() - (this.#since.get(socket) ?? 0);
    const idle = Object.values(this.freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
    // Its type says that nothing is returned.
    return age < longestMs && idle < mostIdle && Boolean(super.keepSocketAlive(socket));
  }
}
