import { createHash } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import { base64Length, writeBase64 } from '../encoding/base64-lines.ts';
import type { Stretch } from '../encoding/canonical.ts';
import { withCrlf } from '../encoding/line-ends.ts';
import { findWireDefect } from '../encoding/wire.ts';
import { readHeader } from '../headers/raw-header.ts';
import { type ComposerAttachment, type MessageAttachment, toComposer } from './attachments.ts';
import { type Body, toBody } from './body.ts';

/** The parts of the body of a message with files. */
export interface BodyWithFiles {
  text: string | null;
  html: string | null;
  attachments: MessageAttachment[];
  /** The boundaries are derived from it. */
  messageId: string;
}

/**
 * An invitation, or an answer to one (RFC 6047). Mail programs offer to accept it if it is an alternative of the message, or
 * all of it; as an attachment it is a file like any other.
 */
const isInvitation = ({ contentType, contentId }: MessageAttachment) =>
  contentId === null && /^text\/calendar;.*\bmethod=/i.test(contentType);

/** An invitation, or the copy that accompanies it for programs that open it as a file. */
const isCalendar = ({ contentType }: MessageAttachment) => /^(?:text\/calendar|application\/ics)\b/i.test(contentType);

/** The body of a message with files. nodemailer writes the MIME tree, we the base64. The same parts give the same bytes. */
export async function composeFiles(parts: BodyWithFiles): Promise<Body> {
  const encoded: Encoded[] = [];
  const mime = await buildTree(parts, (attachment) => standIn(attachment, parts.messageId, encoded));
  // Only the MIME tree is nodemailer's. We write the header: nodemailer changes the case of names, encodes every value with
  // a quote in it, passes a typed `=?utf-8?Q?...?=` through as an encoded-word, and does not split a long word.
  const { fields, body } = readHeader(mime);
  const structure = fields.filter((field) => /^(?:content-|mime-version$)/i.test(field.name));
  const tree = mime.subarray(body);
  const defect = findWireDefect(tree, 0);
  if (defect) throw new Error(`composed a body with ${defect}`);
  const { bytes, base64 } = await filledIn(tree, encoded);
  return toBody(structure.map(({ raw }) => raw.toString('latin1')).join(''), bytes, base64);
}

/** @param toPart makes each file the part of the tree that it is to be */
function buildTree(
  { text, html, attachments, messageId }: BodyWithFiles,
  toPart: (attachment: MessageAttachment) => ComposerAttachment,
): Promise<Buffer> {
  const invitation = text || html || attachments.every(isCalendar) ? attachments.find(isInvitation) : undefined;
  const files = attachments.filter((attachment) => attachment !== invitation);
  return new MailComposer({
    ...(text === null ? {} : { text: withCrlf(text) }),
    ...(html === null ? {} : { html: withCrlf(html) }),
    alternatives: invitation ? [asAlternative(toPart(invitation))] : [],
    attachments: files.map(toPart),
    messageId: '<replaced@invalid>',
    disableFileAccess: true,
    disableUrlAccess: true,
    // "=_" occurs in neither base64 nor quoted-printable. The rest is derived from the id, so that a retry sends the same
    // bytes; the id is drawn after the body was given, so no body can be written to contain it.
    boundaryPrefix: '=_',
    baseBoundary: createHash('sha256').update(messageId).digest('hex').slice(0, 24),
  })
    .compile()
    .build();
}

function asAlternative({ contentType, contentTransferEncoding, content }: ComposerAttachment) {
  return { contentType, contentTransferEncoding, content };
}

/** A file to send as base64. A short stand-in replaces it in nodemailer's tree: nodemailer takes ten times as long to encode. */
interface Encoded {
  content: Buffer;
  /** The stand-in as it appears in the tree: one line. */
  standIn: string;
}

const standInBytes = 24;

/** The file as a part of the tree; if it is sent as base64, with a stand-in for its content, which goes to `encoded`. */
function standIn(attachment: MessageAttachment, messageId: string, encoded: Encoded[]): ComposerAttachment {
  const part = toComposer(attachment);
  if (part.contentTransferEncoding !== 'base64') return part;
  // Derived from the id, which is drawn after the files were given, so that no file can contain it.
  const content = createHash('sha256').update(`${messageId} ${encoded.length}`).digest().subarray(0, standInBytes);
  encoded.push({ content: part.content, standIn: content.toString('base64') });
  return { ...part, content };
}

/** Replaces the stand-ins with the files. @returns the body, and where in it the base64 is */
async function filledIn(tree: Buffer, encoded: Encoded[]): Promise<{ bytes: Buffer; base64: Stretch[] }> {
  const places = encoded
    .map(({ content, standIn }) => ({ content, start: tree.indexOf(standIn), length: standIn.length }))
    .sort((one, other) => one.start - other.start);
  if (places.some(({ start }) => start < 0)) throw new Error('a file has no place in the message that was composed');
  const grown = places.map(({ content, length }) => base64Length(content.length) - length);
  const bytes = Buffer.allocUnsafe(tree.length + grown.reduce((sum, octets) => sum + octets, 0));
  const base64: Stretch[] = [];
  let at = 0;
  let from = 0;
  for (const { content, start, length } of places) {
    at += tree.copy(bytes, at, from, start);
    const stretch = { start: at, end: await writeBase64(content, bytes, at) };
    base64.push(stretch);
    at = stretch.end;
    from = start + length;
  }
  tree.copy(bytes, at, from);
  return { bytes, base64 };
}
