import type { Server, Socket } from 'node:net';
import type { SMTPServer, SMTPServerSession } from 'smtp-server';
import { canonicalAddress, networkOf } from '../ip.ts';

/** How many connections a server admits. */
export interface ConnectionLimits {
  mostInAll: number;
  /** From one network. */
  mostOfOne: number;
  /** What is sent to any further one. */
  busy: string;
  /** Addresses whose connections are those of many: `mostOfOne` is not for them. */
  proxies: readonly string[];
}

/**
 * Counts a server's connections from their first packet, so that TLS handshakes count too. It admits at most `mostInAll`, and
 * at most `mostOfOne` from one network; it sends any further one `busy` and hangs up.
 *
 * Call it once the server has its own listener, which then sees only the admitted connections.
 *
 * @returns a function that says how many more connections it would admit now
 */
export function limitConnections(
  server: Server,
  { mostInAll, mostOfOne, busy, proxies }: ConnectionLimits,
): () => number {
  /** The network of each admitted connection. */
  const open = new Map<Socket, string>();
  const ofMany = new Set(proxies);
  const [serve] = server.listeners('connection') as ((socket: Socket) => void)[];
  if (!serve) throw new Error('the server has no listener yet');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    // The client has already gone, and its address is no longer known.
    if (!socket.remoteAddress) {
      socket.destroy();
      return;
    }
    const network = networkOf(socket.remoteAddress);
    let ofNetwork = 0;
    // Checked here rather than on 'close': smtp-server removes every listener of a socket that it upgrades with STARTTLS.
    for (const [other, otherNetwork] of open) {
      if (other.destroyed) open.delete(other);
      else if (otherNetwork === network) ofNetwork += 1;
    }
    const isCrowded = ofNetwork >= mostOfOne && !ofMany.has(canonicalAddress(socket.remoteAddress) ?? '');
    if (open.size >= mostInAll || isCrowded) {
      socket.on('error', () => {});
      socket.end(busy, () => socket.destroy());
      return;
    }
    open.set(socket, network);
    serve(socket);
  });
  return () => mostInAll - [...open.keys()].filter((socket) => !socket.destroyed).length;
}

/**
 * Whether the client of this session has more connections than `mostOfOne` from its network: a connection through a proxy shows
 * only with its session whose it is.
 */
export function isOneTooMany(server: SMTPServer, session: SMTPServerSession, mostOfOne: number): boolean {
  const network = networkOf(session.remoteAddress);
  let ofNetwork = 0;
  for (const { session: other } of server.connections) if (networkOf(other.remoteAddress) === network) ofNetwork += 1;
  return ofNetwork > mostOfOne;
}

/**
 * Hangs up on clients that have no session after this time, in ms: where connections begin with TLS, a session begins with the
 * end of the handshake, and until then smtp-server limits only the time without any octets.
 */
export function limitHandshakes(server: SMTPServer, ms: number): void {
  server.server.on('connection', (socket: Socket) => {
    // What is destroyed is the TLS socket: without the one below it, Node crashes in the middle of a handshake.
    const timer = setTimeout(() => server._pendingSockets.get(socket)?.destroy(), ms).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}
