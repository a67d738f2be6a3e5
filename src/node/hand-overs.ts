import type { Worker } from 'node:cluster';

/** A connection, which a port of this process has accepted. */
interface Connection {
  close(): void;
}

/** Node's own message with which a port hands a connection to a worker. */
interface HandOver {
  cmd?: string;
  act?: string;
  /** The key of the port, which hands a worker the next connection only after the answer to the last. */
  key?: string;
  /** What the answer to this message refers to. */
  seq?: number;
}

/** A worker without a free descriptor gets no connection for this time: it would take them all in vain. */
const fullMs = 100;

/**
 * Makes up for what Node does not do, and has no event for, so that its messages are watched.
 *
 * It keeps its own end of a connection open until the worker answers that it has taken it. If the worker dies before that, the
 * client would wait for as long as it likes, and the descriptor would stay open.
 *
 * A worker that has no free descriptor does not get the connection and gives no such answer: the port would wait for it for
 * ever, with each worker to which that has happened, also once they have room again.
 */
export function watchHandOvers({ process: child }: Worker, ended: Promise<unknown>): void {
  const lastOfPort = new Map<string | undefined, Connection>();
  /** Handed over in this order, and not known to have arrived. */
  const underWay: HandOver[] = [];
  let isGone = false;
  const send = child.send.bind(child) as (...all: unknown[]) => boolean;
  const sendAndNote = (message: HandOver, connection?: Connection, ...rest: unknown[]) => {
    if (connection) underWay.push(message);
    if (message.act === 'newconn' && connection) lastOfPort.set(message.key, connection);
    return send(message, connection, ...rest);
  };
  child.send = sendAndNote as typeof child.send;
  child.on('internalMessage', ({ cmd }: HandOver) => {
    if (cmd !== 'NODE_HANDLE_ACK' && cmd !== 'NODE_HANDLE_NACK') return;
    const { act, seq } = underWay.shift() ?? {};
    if (cmd === 'NODE_HANDLE_ACK' || act !== 'newconn') return;
    setTimeout(() => {
      // As if the worker had refused the connection: the port gives it to another one, or to this one again.
      if (!isGone) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: false });
    }, fullMs);
  });
  void ended.then(() => {
    isGone = true;
    // Most of them were taken, and are closed: closing those again does nothing.
    for (const connection of lastOfPort.values()) connection.close();
  });
}
