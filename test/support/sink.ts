import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';

/** A key and a self-signed certificate, created once per process. */
export const certificate = (() => {
  let made: { key: string; cert: string } | null = null;
  return () => {
    made ??= selfSignedCertificate('mx.example.test');
    return made;
  };
})();

/** One message as a receiver got it: `raw` is un-stuffed and byte for byte. */
export interface ReceivedMessage {
  from: string;
  to: string[];
  raw: Buffer;
  tls: boolean;
  /** The address that it came from. */
  client: string;
  at: Date;
}

export interface SinkOptions {
  host?: string;
  port?: number;
  /** Offers STARTTLS with a self-signed certificate, unless there are credentials. */
  tls?: boolean;
  credentials?: { key: string; cert: string };
  /** What EHLO declares; nothing unless given. */
  size?: number;
  /** The name in its greeting. */
  name?: string;
  /** The reply to a recipient, such as `550 5.1.1 no such user`; null accepts. */
  onRecipient?: (address: string) => string | null | Promise<string | null>;
  /** The reply to a whole message; null accepts and keeps it. */
  onMessage?: (message: ReceivedMessage) => string | null | Promise<string | null>;
}

export interface Sink {
  port: number;
  messages: ReceivedMessage[];
  /** Connections accepted so far. */
  readonly connections: number;
  close(): Promise<void>;
}

/** A receiving SMTP server on loopback that keeps what it gets. */
export async function startSink(options: SinkOptions = {}): Promise<Sink> {
  const { host = '127.0.0.1', port = 0, onRecipient = () => null, onMessage = () => null } = options;
  const messages: ReceivedMessage[] = [];
  let connections = 0;
  const server = new SMTPServer({
    ...(options.credentials ?? certificate()),
    name: options.name ?? 'sink.example.test',
    ...(options.size === undefined ? {} : { size: options.size }),
    hideSTARTTLS: options.tls !== true && options.credentials === undefined,
    hideENHANCEDSTATUSCODES: true,
    authOptional: true,
    disabledCommands: ['AUTH'],
    disableReverseLookup: true,
    closeTimeout: 50,
    onConnect: (_session, callback) => {
      connections += 1;
      callback();
    },
    onRcptTo: (address, _session, callback) => {
      void Promise.resolve(onRecipient(address.address)).then((reply) => callback(refusal(reply)));
    },
    onData: (stream, session, callback) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', async () => {
        const { mailFrom, rcptTo } = session.envelope;
        const message: ReceivedMessage = {
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          raw: Buffer.concat(chunks),
          tls: Boolean(session.secure),
          client: session.remoteAddress,
          at: new Date(),
        };
        const reply = await onMessage(message);
        if (reply === null) messages.push(message);
        callback(refusal(reply));
      });
    },
  });
  server.on('error', () => {});
  server.listen(port, host);
  await once(server.server, 'listening');
  return {
    port: (server.server.address() as AddressInfo).port,
    messages,
    get connections() {
      return connections;
    },
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

/** A connection that carries nothing for ten seconds is closed; one that carries nothing for this long may be. */
export const mayCloseAfterMs = 9_000;

/** After how many of these messages came none for so long that their connection may have been closed. */
export function longPauses(messages: ReceivedMessage[]): number {
  const at = messages.map((message) => message.at.getTime());
  return at.filter((time, n) => n > 0 && time - (at[n - 1] ?? 0) >= mayCloseAfterMs).length;
}

function refusal(reply: string | null): Error | null {
  if (reply === null) return null;
  return Object.assign(new Error(reply.slice(4)), { responseCode: Number(reply.slice(0, 3)) });
}
