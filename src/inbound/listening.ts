import type { AddressInfo } from 'node:net';
import type { SMTPServer, SMTPServerOptions, SMTPServerSession } from 'smtp-server';
import { portError } from '../process/start-error.ts';

/** Options of all of our SMTP servers. */
export const sharedOptions: SMTPServerOptions = {
  disableReverseLookup: true,
  hideENHANCEDSTATUSCODES: false,
  logger: false,
};

/** Obsolete commands, and those for proxies. */
export const unknownCommands = ['XCLIENT', 'XFORWARD', 'WIZ', 'SHELL', 'KILL', 'HELP'];

/**
 * Listens on `host`, or on all addresses if it is null.
 *
 * @param variable the environment variable that sets the port
 * @returns the port; for port 0, the free one that was chosen
 * @throws StartError when the port cannot be listened on
 */
export async function listen(server: SMTPServer, variable: string, host: string | null, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject);
    server.listen(port, host ?? undefined, () => {
      server.server.removeListener('error', reject);
      resolve();
    });
  }).catch((error: NodeJS.ErrnoException) => {
    throw portError({ port: variable, host: 'SMTP_HOST' }, { port, host }, error);
  });
  return (server.server.address() as AddressInfo).port;
}

/** Closes a session's connection, after a 421 with the sentence. */
export function hangUp(server: SMTPServer, session: SMTPServerSession, sentence: string): void {
  connectionOf(server, session)?.send(421, sentence);
}

/** Does so after `ms`, unless the timer is cleared before. */
export function hangUpAfter(
  ms: number,
  server: SMTPServer,
  session: SMTPServerSession,
  sentence: string,
): NodeJS.Timeout {
  return setTimeout(() => hangUp(server, session, sentence), ms).unref();
}

/** Closes the server: sessions that are not in the middle of a message at once, the others within `graceMs`. */
export function close(
  server: SMTPServer,
  graceMs: number,
  isBusy: (session: SMTPServerSession) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    server.options.closeTimeout = Math.max(1, graceMs);
    server.close(() => resolve());
    for (const connection of server.connections) {
      if (!isBusy(connection.session)) connection.send(421, '4.3.2 the server is stopping', false);
    }
  });
}

/** Undefined when the connection is gone. */
export function connectionOf(server: SMTPServer, session: SMTPServerSession) {
  return [...server.connections].find(({ id }) => id === session.id);
}
