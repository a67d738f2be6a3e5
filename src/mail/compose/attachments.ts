import { isAscii, isUtf8 } from 'node:buffer';
import { withCrlf } from '../encoding/line-ends.ts';
import { findWireDefect } from '../encoding/wire.ts';
import { holdsBidiControl, refuseText } from '../text/characters.ts';
import { decodeWords } from '../text/encoded-words.ts';

/** One file of a message. With a `contentId`, the HTML shows it as `cid:<contentId>`. */
export interface MessageAttachment {
  filename: string;
  contentType: string;
  contentId: string | null;
  content: Buffer;
}

const token = "[A-Za-z0-9!#$%&'*+\\-.^_`{|}~]";
const mediaType = new RegExp(
  `^${token}{1,127}/${token}{1,127}(?:; ?${token}{1,60}=(?:${token}{1,200}|"[ !#-[\\]-~]{0,200}")){0,8}$`,
);

/** Why a client may not send an attachment. `member`: the API's field; `reason`: words that follow its name. */
export interface AttachmentRefusal {
  member: 'filename' | 'content_type' | 'content_id';
  reason: string;
}

/** Why a client may not send an attachment with this name, type and id, or null when it may. */
export function refuseAttachment(attachment: Omit<MessageAttachment, 'content'>): AttachmentRefusal | null {
  const { filename, contentType, contentId } = attachment;
  const name = refuseFilename(filename);
  if (name !== null) return { member: 'filename', reason: name };
  const type = refuseType(contentType);
  if (type !== null) return { member: 'content_type', reason: type };
  if (contentId === null || isContentId(contentId)) return null;
  // As Postmark wants it.
  if (/^cid:/i.test(contentId)) return { member: 'content_id', reason: 'must be without cid:, which is for the html' };
  return { member: 'content_id', reason: 'must have 1 to 200 characters: ASCII letters, digits and . _ + = @ -' };
}

function refuseFilename(filename: string): string | null {
  if (filename === '') return 'is empty';
  if (filename.length > 255) return 'is longer than 255 characters';
  return (
    refuseText(filename) ??
    (holdsBidiControl(filename) ? 'contains characters that reverse the direction of text' : null)
  );
}

function refuseType(contentType: string): string | null {
  if (!isMediaType(contentType)) return 'must be a media type such as text/plain';
  return /^multipart\//i.test(contentType) ? 'must not be a multipart type' : null;
}

/** Encoded-words nested any deeper can only be there to hide something. */
const mostDecodings = 4;

/**
 * A file's name as the recipient sees it: the last component of a path of any system. Empty when that is a folder or only
 * dots, or when encoded-words are nested too deep.
 */
export function withoutPath(filename: string): string {
  let name = filename;
  for (let round = 0; round < mostDecodings; round += 1) {
    name = name.split(/[/\\]/).at(-1) ?? '';
    // Mail programs decode encoded-words (RFC 2047) even where none are allowed, and could find a path in one.
    const read = decodeWords(name);
    if (read === name) return /^\.+$/.test(name) ? '' : name;
    name = read;
  }
  return '';
}

/** True for `type/subtype` with at most eight parameters (RFC 2045 section 5.1). */
export function isMediaType(text: string): boolean {
  return mediaType.test(text);
}

/** True when the text may stand between the angle brackets of a Content-ID and, unescaped, in a `cid:` URL. */
export function isContentId(text: string): boolean {
  return /^[A-Za-z0-9._+=@-]{1,200}$/.test(text);
}

/** An attachment as nodemailer's composer takes it. */
export interface ComposerAttachment {
  filename: string | false;
  contentType: string;
  contentDisposition: string;
  contentTransferEncoding: '7bit' | 'base64';
  content: Buffer;
  cid?: string;
}

/** The attachment in a form that nodemailer writes correctly: its faults, and input that it does not check, are handled here. */
export function toComposer(attachment: MessageAttachment): ComposerAttachment {
  const { filename, content, contentId } = attachment;
  const cid = contentId !== null && isContentId(contentId) ? { cid: contentId } : {};
  const disposition = 'cid' in cid ? 'inline' : 'attachment';
  // nodemailer repeats the name as a parameter of Content-Type, unfolded if it is ASCII, so a long one would make a line
  // over 998 octets. A name given inside the disposition is written only there, in sections (RFC 2231).
  const long = filename.length > 200;
  const quoted = filename.replaceAll(/["\\]/g, '\\$&');
  return {
    ...typeAndContent(attachment.contentType, content),
    filename: long || filename === '' ? false : filename,
    contentDisposition: long ? `${disposition}; filename="${quoted}"` : disposition,
    ...cid,
  };
}

type Encoded = Pick<ComposerAttachment, 'contentType' | 'contentTransferEncoding' | 'content'>;

function typeAndContent(type: string, content: Buffer): Encoded {
  const bytes = { contentType: 'application/octet-stream', contentTransferEncoding: 'base64', content } as const;
  // A multipart type would make nodemailer close a boundary that was never opened.
  if (!isMediaType(type) || /^multipart\//i.test(type)) return bytes;
  if (!/^message\//i.test(type)) return { ...bytes, contentType: withCharset(type, content) };
  // RFC 2046 section 5.2.1: a message type must not be encoded. One that needs it is sent as application/octet-stream.
  const lines = withLineEndsOfMail(content);
  return findWireDefect(lines, 0) === null
    ? { contentType: type, contentTransferEncoding: '7bit', content: lines }
    : bytes;
}

/**
 * A text that is UTF-8 says so: mail programs that show it use another charset if none is named, and a calendar must name
 * its own (RFC 5545 section 8.1).
 */
function withCharset(type: string, content: Buffer): string {
  if (!/^text\//i.test(type) || /; ?charset=/i.test(type)) return type;
  return isAscii(content) || !isUtf8(content) ? type : `${type}; charset=utf-8`;
}

/** A message that was saved on Linux has LF line ends, which are not what it was sent with. */
function withLineEndsOfMail(message: Buffer): Buffer {
  if (message.includes('\r') || !isAscii(message)) return message;
  return Buffer.from(withCrlf(message.toString('latin1')), 'latin1');
}
