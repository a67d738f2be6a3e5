import type { Server, Socket } from 'node:net';
import { networkOf } from '../ip.ts';

/**
 * Counts the connections of a server from their first packet on, so that handshakes count too, and lets no more in than
 * `mostInAll`, nor from one network than `mostOfOne`. To one too many it says `busy` and hangs up.
 *
 * To be called after the server has got its own listener: that one sees only what is let in.
 *
 * @returns how many more it would let in now
 */
export function limitConnections(
  server: Server,
  { mostInAll, mostOfOne, busy }: { mostInAll: number; mostOfOne: number; busy: string },
): () => number {
  const open = new Map<Socket, string>();
  const [serve] = server.listeners('connection') as ((socket: Socket) => void)[];
  if (!serve) throw new Error('the server has no listener yet');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    // Gone already, and with it who it was.
    if (!socket.remoteAddress) {
      socket.destroy();
      return;
    }
    const network = networkOf(socket.remoteAddress);
    let ofOne = 0;
    // Looked at, not listened to: smtp-server takes every listener off a socket that goes on with STARTTLS.
    for (const [other, its] of open) {
      if (other.destroyed) open.delete(other);
      else if (its === network) ofOne += 1;
    }
    if (open.size >= mostInAll || ofOne >= mostOfOne) {
      socket.on('error', () => {});
      socket.end(busy, () => socket.destroy());
      return;
    }
    open.set(socket, network);
    serve(socket);
  });
  return () => mostInAll - [...open.keys()].filter((socket) => !socket.destroyed).length;
}
