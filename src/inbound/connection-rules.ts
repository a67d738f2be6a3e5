import type { SMTPServer, SMTPServerSession } from 'smtp-server';
import { connectionOf } from './listening.ts';

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

/** What smtp-server says when it hangs up, and the code for it: its own is 4.4.2 for all of them, as if the client were silent. */
const reasonsToHangUp: [sentence: RegExp, enhanced: string][] = [
  [/^Server shutting down/, '4.3.2'],
  [/ You talk too soon$/, '4.5.1'],
  [/^Error: Command line too long/, '4.5.2'],
  [/^Error: too many un(?:recognized|authenticated) commands|^HTTP requests not allowed/, '4.7.0'],
];

/**
 * Gives every reply one enhanced code (RFC 2034): those of our handlers begin with one, and smtp-server has codes for its own.
 * Call it once per session, on connect, and before any other rule that sends replies.
 */
export function keepOurCodes(server: SMTPServer, session: SMTPServerSession): void {
  const connection = connectionOf(server, session);
  if (!connection) return;
  const send = connection.send.bind(connection);
  connection.send = (code, text, context) => {
    if (typeof text !== 'string') return send(code, text, context);
    const [, better] = (code === 421 && reasonsToHangUp.find(([sentence]) => sentence.test(text))) || [];
    const isOurs = better !== undefined || /^[245]\.\d{1,3}\.\d{1,3} /.test(text);
    send(code, better === undefined ? text : `${better} ${text}`, isOurs ? false : context);
  };
}

/** The path of MAIL and RCPT (RFC 5321 section 4.1.2): a source route, which is dropped, the address, and its parameters. */
const pathOfCommand =
  /^([^:]*):\s*<(?:@[^\s,:@<>"]+(?:,@[^\s,:@<>"]+)*:)?((?:"(?:[^"\\]|\\.)*"|[^\s<>"])*)>(?=\s|$)(.*)$/s;

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
    const [, verb, address, parameters] = pathOfCommand.exec(command.toString()) ?? [];
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
  let errors = 0;
  let replies = 0;
  // Every reply passes here, also those that no handler sees: to commands that are unknown, out of order or no-ops.
  connection.send = (code, text, context) => {
    if (code >= 400) errors += 1;
    replies += 1;
    if (context === 'DATA_OK') [errors, replies] = [0, 0];
    if (errors > most.errors) send(421, '4.7.0 too many errors');
    else if (replies > most.replies) send(421, '4.7.0 too many commands');
    else send(code, text, context);
  };
}
