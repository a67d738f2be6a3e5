import { createHash } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import { isAscii, type Mailbox } from './address.ts';
import { type MessageAttachment, toComposer } from './attachments.ts';
import { writeAddresses, writeField, writeText } from './fields.ts';
import { type Header, isFieldName, readHeader } from './headers.ts';
import { findWireDefect } from './wire.ts';

export type { MessageAttachment };

/**
 * Everything that a message says. There is no bcc: who else gets it is the envelope's affair, never the header's.
 * `messageId` comes without angle brackets, `headers` were allowed by `refuseHeader` or are our own.
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

/**
 * The message as RFC 5322 and MIME bytes, ready to be signed and sent to any server: CRLF line ends only, lines of at most
 * 998 octets, no NUL, and nothing but 7-bit octets, except in the header where an address needs SMTPUTF8. The same parts
 * give the same bytes.
 *
 * @throws {Error} when the result would break these rules, which is a defect here and not the client's
 */
export async function compose(parts: MessageParts): Promise<Buffer> {
  const mime = await new MailComposer({
    ...(parts.text === null ? {} : { text: withCrlf(parts.text) }),
    ...(parts.html === null ? {} : { html: withCrlf(parts.html) }),
    attachments: parts.attachments.map(toComposer),
    messageId: '<replaced@invalid>',
    date: parts.date,
    disableFileAccess: true,
    disableUrlAccess: true,
    // "=_" occurs neither in base64 nor in quoted-printable. The rest is from the id, so that a retry sends the same bytes;
    // the id is drawn after the body was given, so no body can be written to hold it.
    boundaryPrefix: '=_',
    baseBoundary: createHash('sha256').update(parts.messageId).digest('hex').slice(0, 24),
  })
    .compile()
    .build();

  // Only the MIME tree is nodemailer's. The header is ours: nodemailer rewrites the case of names, encodes every value with
  // a quote in it, passes a typed `=?utf-8?Q?...?=` on as an encoding, and does not split a long word.
  const { fields, body } = readHeader(mime);
  const structure = fields.filter((field) => /^(?:content-|mime-version$)/i.test(field.name)).map((field) => field.raw);
  const header = Buffer.from(writeHeader(parts));
  const message = Buffer.concat([header, ...structure, Buffer.from('\r\n'), mime.subarray(body)]);

  const utf8 = needsSmtpUtf8([parts.from, ...parts.to, ...parts.cc, ...parts.replyTo]);
  const defect = findWireDefect(message, utf8 ? header.length : 0);
  if (defect) throw new Error(`composed a message with ${defect}`);
  return message;
}

/** Whether one of the addresses needs SMTPUTF8 at the destination (RFC 6531): its local part is not ASCII. Nothing else of a message does. */
export function needsSmtpUtf8(addresses: Mailbox[]): boolean {
  return addresses.some((mailbox) => !isAscii(mailbox.local));
}

function writeHeader(parts: MessageParts): string {
  if (!/^[!-;=?-~]{1,250}$/.test(parts.messageId)) throw new Error('the message id is not an id');
  let header = writeField('Date', [parts.date.toUTCString().replace('GMT', '+0000')]);
  header += writeAddresses('From', [parts.from]);
  if (parts.to.length > 0) header += writeAddresses('To', parts.to);
  // All are blind copies. RFC 5322 allows no To at all, but many filters count that against the mail.
  else if (parts.cc.length === 0) header += 'To: undisclosed-recipients:;\r\n';
  if (parts.cc.length > 0) header += writeAddresses('Cc', parts.cc);
  if (parts.replyTo.length > 0) header += writeAddresses('Reply-To', parts.replyTo);
  header += writeText('Subject', parts.subject, true);
  header += writeField('Message-ID', [`<${parts.messageId}>`]);
  for (const { name, value } of parts.headers) {
    if (!isFieldName(name)) throw new Error('a header has a name that is none');
    header += writeText(name, value, false);
  }
  return header;
}

/** Every CR, LF and CRLF as CRLF: a lone one is the way to smuggle a second message (SMTP smuggling). */
function withCrlf(text: string): string {
  return text.replaceAll(/\r\n|\r|\n/g, '\r\n');
}
