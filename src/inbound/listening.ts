import type { AddressInfo } from 'node:net';
import type { SMTPServer, SMTPServerOptions, SMTPServerSession } from 'smtp-server';
import { portError } from '../start-error.ts';

/** What all of our SMTP servers have in common. */
export const common: SMTPServerOptions = {
  disableReverseLookup: true,
  // Its own codes would stand before ours.
  hideENHANCEDSTATUSCODES: true,
  logger: false,
};

/** Commands of other times and of proxies. */
export const unknownCommands = ['XCLIENT', 'XFORWARD', 'WIZ', 'SHELL', 'KILL', 'HELP'];

/**
 * Listens, on all addresses where `host` is null.
 *
 * @param variable what the port was set with
 * @returns the port, which is a free one where 0 was asked for
 * @throws StartError
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

/** Ends the connection of a session that has said its last word. */
export function hangUp(server: SMTPServer, session: SMTPServerSession, sentence?: string): void {
  const connection = connectionOf(server, session);
  if (sentence) connection?.send(421, sentence);
  else connection?.close();
}

/**
 * Offers no login before TLS (RFC 4954 section 4), as clients without it would send their password to be told so, and says of mail
 * that TLS comes first (RFC 3207 section 4): of a login they have not heard. To be called once for a session, when it connects.
 */
export function demandTls(server: SMTPServer, session: SMTPServerSession): void {
  const connection = connectionOf(server, session);
  if (!connection || connection.secure) return;
  const send = connection.send.bind(connection);
  connection.send = (code, text, context) => {
    const isOffer = (line: string) => !connection.secure && line.startsWith('AUTH ');
    if (code === 530 && !connection.secure) send(code, '5.7.0 Must issue a STARTTLS command first', context);
    else send(code, Array.isArray(text) ? text.filter((line) => !isOffer(line)) : text, context);
  };
}

/** The path of MAIL and RCPT (RFC 5321 section 4.1.2): a source route, which is left out, the address, and the parameters behind it. */
const pathOf = /^([^:]*):\s*<(?:@[^\s,:@<>"]+(?:,@[^\s,:@<>"]+)*:)?((?:"(?:[^"\\]|\\.)*"|[^\s<>"])*)>(?=\s|$)(.*)$/s;
// No part of any address, and where one is shown or logged another line or another address; U+FFFD stands for what is not UTF-8.
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200b\u2060\ufeff\ufffd]/;

/**
 * Gives handlers every address as the client wrote it, and leaves it to them which are good: smtp-server decodes A-labels, also those
 * that are none, and refuses local parts that are in use. To be called once for a session, when it connects.
 */
export function keepAddressesAsWritten(server: SMTPServer, session: SMTPServerSession): void {
  const connection = connectionOf(server, session);
  if (!connection) return;
  const parse = connection._parseAddressCommand.bind(connection);
  connection._parseAddressCommand = (name, command) => {
    const [, verb, address, parameters] = pathOf.exec(command.toString()) ?? [];
    if (address === undefined || unsafe.test(address)) return false;
    const parsed = parse(name, `${verb}:<>${parameters}`);
    return parsed && { ...parsed, address };
  };
}

/**
 * Hangs up on a session that has had so many errors for an answer, or so many answers at all, since it began or last had a message
 * taken. To be called once for a session, when it connects.
 */
export function limitReplies(
  server: SMTPServer,
  session: SMTPServerSession,
  most: { errors: number; replies: number },
): void {
  const connection = connectionOf(server, session);
  if (!connection) return;
  const send = connection.send.bind(connection);
  let count = { errors: 0, replies: 0 };
  // Every answer passes here, also to what no handler hears of: commands out of order, unknown, or about nothing.
  connection.send = (code, text, context) => {
    count = { errors: count.errors + (code >= 400 ? 1 : 0), replies: count.replies + 1 };
    if (context === 'DATA_OK') count = { errors: 0, replies: 0 };
    if (count.errors > most.errors) send(421, '4.7.0 too many errors');
    else if (count.replies > most.replies) send(421, '4.7.0 too many commands');
    else send(code, text, context);
  };
}

/** Closes the server. Whoever is not in the middle of a message goes at once, the others within `graceMs`. */
export function close(
  server: SMTPServer,
  graceMs: number,
  isBusy: (session: SMTPServerSession) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    server.options.closeTimeout = Math.max(1, graceMs);
    server.close(() => resolve());
    for (const connection of server.connections) {
      if (!isBusy(connection.session)) connection.send(421, '4.3.2 the server is stopping');
    }
  });
}

/** Undefined when it is gone. */
function connectionOf(server: SMTPServer, session: SMTPServerSession) {
  return [...server.connections].find(({ id }) => id === session.id);
}
