import type { AddressInfo } from 'node:net';
import type { SMTPServer, SMTPServerOptions, SMTPServerSession } from 'smtp-server';
import { portError } from '../start-error.ts';

/** Options shared by all of our SMTP servers. */
export const common: SMTPServerOptions = {
  disableReverseLookup: true,
  // smtp-server would put its own codes in front of ours.
  hideENHANCEDSTATUSCODES: true,
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

/** Closes a session's connection, after a 421 with the sentence if there is one. */
export function hangUp(server: SMTPServer, session: SMTPServerSession, sentence?: string): void {
  const connection = connectionOf(server, session);
  if (sentence) connection?.send(421, sentence);
  else connection?.close();
}

/**
 * Hides AUTH before TLS (RFC 4954 section 4): otherwise clients without TLS would send their password in clear text just to be
 * refused. Answers MAIL before TLS with "STARTTLS first" (RFC 3207 section 4), as no login was offered. Call it once per
 * session, on connect.
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

/** The path of MAIL and RCPT (RFC 5321 section 4.1.2): a source route, which is dropped, the address, and its parameters. */
const pathOf = /^([^:]*):\s*<(?:@[^\s,:@<>"]+(?:,@[^\s,:@<>"]+)*:)?((?:"(?:[^"\\]|\\.)*"|[^\s<>"])*)>(?=\s|$)(.*)$/s;
// No address contains these; shown or logged, they would fake another line or address. U+FFFD stands for what is not UTF-8.
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200b\u2060\ufeff\ufffd]/;

/**
 * Passes every address to the handlers as the client wrote it and lets them decide which are valid: smtp-server decodes
 * A-labels, even invalid ones, and refuses local parts that are in use. Call it once per session, on connect.
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
 * Hangs up on a session that exceeds this many error replies, or replies of any kind, since it began or since its last accepted
 * message. Call it once per session, on connect.
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
  // Every reply passes here, also those that no handler sees: to commands that are unknown, out of order or no-ops.
  connection.send = (code, text, context) => {
    count = { errors: count.errors + (code >= 400 ? 1 : 0), replies: count.replies + 1 };
    if (context === 'DATA_OK') count = { errors: 0, replies: 0 };
    if (count.errors > most.errors) send(421, '4.7.0 too many errors');
    else if (count.replies > most.replies) send(421, '4.7.0 too many commands');
    else send(code, text, context);
  };
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
      if (!isBusy(connection.session)) connection.send(421, '4.3.2 the server is stopping');
    }
  });
}

/** Undefined when the connection is gone. */
function connectionOf(server: SMTPServer, session: SMTPServerSession) {
  return [...server.connections].find(({ id }) => id === session.id);
}
