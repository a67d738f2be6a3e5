import { isAscii, type Mailbox } from '../address/address.ts';
import { findWireDefect } from '../encoding/wire.ts';
import { writeAddresses, writeField, writeOther, writeText } from '../headers/fields.ts';
import { type Header, isFieldName } from '../headers/headers.ts';
import type { MessageAttachment } from './attachments.ts';
import { type Body, composeBody } from './body.ts';
import { composeFiles } from './compose-files.ts';

/**
 * The contents of a message. There is no bcc: blind recipients are in the envelope, never in the header. `messageId` has no
 * angle brackets; `headers` have passed `refuseHeader` or are our own.
 */
export interface MessageParts {
  from: Mailbox;
  to: Mailbox[];
  cc: Mailbox[];
  replyTo: Mailbox[];
  subject: string;
  html: string | null;
  text: string | null;
  headers: Header[];
  attachments: MessageAttachment[];
  messageId: string;
  date: Date;
}

/** A message as it is sent to any server, without the signatures that go in front of it. */
export interface ComposedMessage {
  /** All fields, and the empty line after them. */
  header: Buffer;
  body: Body;
}

/**
 * The message as RFC 5322 and MIME bytes, ready to be signed and sent to any server: only CRLF line ends, lines of at most
 * 998 octets, no NUL, and only 7-bit octets, except in the header if an address needs SMTPUTF8. The same parts give the same
 * bytes.
 *
 * @param ready the body, if it was already made for another message with the same texts and no files
 * @throws {Error} if the result would break these rules, which is a defect of ours and not the client's
 */
export async function compose(parts: MessageParts, ready?: Body): Promise<ComposedMessage> {
  const body = ready ?? (await bodyOf(parts));
  const header = Buffer.from(`${writeHeader(parts)}${body.fields}\r\n`);
  const mayHaveUtf8 = needsSmtpUtf8([parts.from, ...parts.to, ...parts.cc, ...parts.replyTo]);
  const defect = findWireDefect(header, mayHaveUtf8 ? header.length : 0);
  if (defect) throw new Error(`composed a header with ${defect}`);
  return { header, body };
}

function bodyOf(parts: MessageParts): Promise<Body> {
  return parts.attachments.length > 0 ? composeFiles(parts) : composeBody(parts.text, parts.html);
}

/** Whether an address needs SMTPUTF8 (RFC 6531) because its local part is not ASCII. Nothing else in a message needs it. */
export function needsSmtpUtf8(addresses: Mailbox[]): boolean {
  return addresses.some((mailbox) => !isAscii(mailbox.local));
}

function writeHeader(parts: MessageParts): string {
  if (!/^[!-;=?-~]{1,250}$/.test(parts.messageId)) throw new Error('the message id is not an id');
  let header = writeField('Date', [parts.date.toUTCString().replace('GMT', '+0000')]);
  header += writeAddresses('From', [parts.from]);
  if (parts.to.length > 0) header += writeAddresses('To', parts.to);
  // All recipients are blind. RFC 5322 allows mail without a To, but many filters count that against it.
  else if (parts.cc.length === 0) header += 'To: undisclosed-recipients:;\r\n';
  if (parts.cc.length > 0) header += writeAddresses('Cc', parts.cc);
  if (parts.replyTo.length > 0) header += writeAddresses('Reply-To', parts.replyTo);
  header += writeText('Subject', parts.subject, true);
  header += writeField('Message-ID', [`<${parts.messageId}>`]);
  for (const { name, value } of parts.headers) {
    if (!isFieldName(name)) throw new Error('a header has an invalid name');
    header += writeOther(name, value);
  }
  return header;
}
