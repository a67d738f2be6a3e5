import type { Socket } from 'node:net';
import type { SMTPServer, SMTPServerSession } from 'smtp-server';
import { canonicalAddress, networkOf } from '../ip.ts';
import type { Logger } from '../log.ts';
import { reportMissingHeaders } from './proxy-header.ts';

export interface ConnectionLimits {
  mostInAll: number;
  /** From one network. */
  mostOfOne: number;
  /** What is sent to any further one. */
  busy: string;
  /** How long a connection may take to get a session, in ms: its PROXY header and its TLS handshake. */
  beginMs: number;
  /** The addresses, in their canonical spelling, whose connections are those of many clients, and begin with the PROXY protocol. */
  proxies: readonly string[];
  log: Logger;
}

export interface AdmittedConnections {
  /** How many more connections would be admitted now. */
  free(): number;
  /**
   * Whether the client of this session has no more connections than one network may: a connection through a proxy shows only
   * with its session whose it is.
   */
  admits(session: SMTPServerSession): boolean;
}

/**
 * Counts a server's connections from their first packet, so that TLS handshakes count too. It admits at most `mostInAll`, and
 * at most `mostOfOne` from one network; it sends any further one `busy` and hangs up. For connections through a proxy, the
 * server has to ask `admits` when it has the session.
 */
export function limitConnections(server: SMTPServer, limits: ConnectionLimits): AdmittedConnections {
  const { mostOfOne, proxies, log } = limits;
  const free = countConnections(server, limits);
  limitBeginnings(server, limits.beginMs);
  leaveEnded(server);
  server.options.useProxy = [...proxies];
  if (proxies.length === 0) return { free, admits: () => true };
  reportMissingHeaders(server, log);
  return { free, admits: (session) => connectionsFrom(session.remoteAddress, server) <= mostOfOne };
}

function countConnections(
  { server }: SMTPServer,
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

function connectionsFrom(address: string, { connections }: SMTPServer): number {
  const network = networkOf(address);
  return [...connections].filter(({ session }) => networkOf(session.remoteAddress) === network).length;
}

/** Until a connection has its session, smtp-server limits only the time without any octets. */
function limitBeginnings(server: SMTPServer, ms: number): void {
  server.server.on('connection', (socket: Socket) => {
    // It has its session already, or was refused.
    if (!server._pendingSockets.has(socket)) return;
    // Held weakly: behind a proxy its session comes later, and then STARTTLS takes off the listener below.
    const held = new WeakRef(socket);
    const timer = setTimeout(() => endPending(server, held.deref()), ms).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/**
 * No TLS over a connection that has ended: smtp-server begins it a turn after the connection has come, and a stop in between ends
 * that. It then asks for the protocol of a TLS socket whose connection is gone, and Node crashes.
 */
function leaveEnded(server: SMTPServer): void {
  const upgrade = server._upgrade.bind(server);
  server._upgrade = (socket, callback) => {
    if (!socket.destroyed) upgrade(socket, callback);
  };
}

/** What is destroyed is the TLS socket: without the one below it, Node crashes in the middle of a handshake. */
function endPending({ _pendingSockets }: SMTPServer, socket: Socket | undefined): void {
  if (socket) _pendingSockets.get(socket)?.destroy();
}
