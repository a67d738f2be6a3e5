import { createHash } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import { type MessageAttachment, toComposer } from './attachments.ts';
import { type Body, toBody } from './body.ts';
import { readHeader } from './headers.ts';
import { withCrlf } from './line-ends.ts';
import { findWireDefect } from './wire.ts';

/** What the body of a message with files is made of. */
export interface BodyWithFiles {
  text: string | null;
  html: string | null;
  attachments: MessageAttachment[];
  /** The boundaries come from it. */
  messageId: string;
}

/**
 * An invitation, or an answer to one (RFC 6047). Mail programs offer to accept it where it is another form of the message;
 * beside the message it is a file like any.
 */
const isInvitation = ({ contentType, contentId }: MessageAttachment) =>
  contentId === null && /^text\/calendar;.*\bmethod=/i.test(contentType);

function asAlternative(attachment: MessageAttachment) {
  const { contentType, contentTransferEncoding, content } = toComposer(attachment);
  return { contentType, contentTransferEncoding, content };
}

/** The body of a message with files, by nodemailer. The same parts give the same bytes. */
export async function composeFiles({ text, html, attachments, messageId }: BodyWithFiles): Promise<Body> {
  const invitation = text || html ? attachments.find(isInvitation) : undefined;
  const files = attachments.filter((attachment) => attachment !== invitation);
  const mime = await new MailComposer({
    ...(text === null ? {} : { text: withCrlf(text) }),
    ...(html === null ? {} : { html: withCrlf(html) }),
    alternatives: invitation ? [asAlternative(invitation)] : [],
    attachments: files.map(toComposer),
    messageId: '<replaced@invalid>',
    disableFileAccess: true,
    disableUrlAccess: true,
    // "=_" occurs neither in base64 nor in quoted-printable. The rest is from the id, so that a retry sends the same bytes;
    // the id is drawn after the body was given, so no body can be written to hold it.
    boundaryPrefix: '=_',
    baseBoundary: createHash('sha256').update(messageId).digest('hex').slice(0, 24),
  })
    .compile()
    .build();

  // Only the MIME tree is nodemailer's. The header is ours: nodemailer rewrites the case of names, encodes every value with
  // a quote in it, passes a typed `=?utf-8?Q?...?=` on as an encoding, and does not split a long word.
  const { fields, body } = readHeader(mime);
  const structure = fields.filter((field) => /^(?:content-|mime-version$)/i.test(field.name));
  const bytes = mime.subarray(body);
  const defect = findWireDefect(bytes, 0);
  if (defect) throw new Error(`composed a body with ${defect}`);
  return toBody(structure.map(({ raw }) => raw.toString('latin1')).join(''), bytes);
}
