import { createHash } from 'node:crypto';
import { detectExtension } from 'nodemailer/lib/mime-funcs';
import { isContentId, isMediaType, type MessageAttachment, withoutPath } from './attachments.ts';
import type { MimePart } from './mime.ts';
import type { Parameterised } from './parameters.ts';
import { longest } from './template.ts';

/** A part that is no body, decoded. */
export interface SubmittedFile {
  part: MimePart;
  content: Buffer;
}

/** What the HTML may name: a longer id, or one with quotes, is none that was meant. */
const meantAsId = /^[^"<>\p{Cc}]{1,200}$/u;

/**
 * The files of a message, and its HTML, in which they go by an id that can be sent: Outlook Express and others write some with `$`, with
 * spaces or whatever the file's name is made of.
 */
export function withFiles(
  html: string | null,
  files: SubmittedFile[],
): { html: string | null; attachments: MessageAttachment[] } {
  // What is longer is no body of an email, and would be searched once for each file.
  const isSearched = html !== null && html.length <= longest.body;
  const ids = new Map<string, string>();
  let shown = html;
  // The longest first, as a shorter one may be its beginning.
  for (const id of isSearched ? othersOf(files) : []) {
    const before = shown;
    for (const spelled of new Set([id, id.replaceAll('&', '&amp;'), encodeURI(id), encodeURIComponent(id)]))
      shown = shown?.replaceAll(`cid:${spelled}`, `cid:${madeOf(id)}`) ?? null;
    if (shown !== before) ids.set(id, madeOf(id));
  }
  const named = isSearched ? shown : null;
  const attachments = files.map(({ part, content }, index) => {
    const given = part.disposition?.parameters.get('filename') ?? part.type.parameters.get('name') ?? '';
    const contentId = part.contentId === null ? null : (ids.get(part.contentId) ?? part.contentId);
    return {
      filename: withoutPath(given) || `attachment-${index + 1}.${extensionOf(part.type.value)}`,
      contentType: contentTypeOf(part.type),
      contentId: contentId !== null && isContentId(contentId) && isShown(contentId, part, named) ? contentId : null,
      content,
    };
  });
  return { html: shown, attachments };
}

/** The ids that cannot be sent as they are. */
function othersOf(files: SubmittedFile[]): string[] {
  const ids = files.flatMap(({ part: { contentId } }) =>
    contentId !== null && !isContentId(contentId) && meantAsId.test(contentId) && contentId.trim() !== ''
      ? contentId
      : [],
  );
  return [...new Set(ids)].sort((one, other) => other.length - one.length);
}

/** The same each time, as the same message is one. */
const madeOf = (id: string) => `${createHash('sha256').update(id).digest('hex').slice(0, 24)}@image`;

function extensionOf(type: string): string {
  if (type === 'message/rfc822') return 'eml';
  const extension = detectExtension(type);
  // What the library has for application/octet-stream, and no system for a name.
  return extension === '*' ? 'bin' : extension;
}

/**
 * Some clients give every file an id, and some call every file inline: those that the HTML does not name stay files, for readers hide what
 * is sent as a part of the HTML. An image it may name in other ways.
 */
function isShown(contentId: string, { type, disposition }: MimePart, html: string | null): boolean {
  if (html?.includes(`cid:${contentId}`)) return true;
  return disposition?.value !== 'attachment' && type.value.startsWith('image/');
}

/** With its parameters, as far as they can be sent, but for the name, which is in the disposition. */
function contentTypeOf({ value, parameters }: Parameterised): string {
  if (!isMediaType(value)) return 'application/octet-stream';
  let whole = value;
  for (const [name, each] of parameters) {
    const longer = `${whole}; ${name}=${/^[\w.+-]+$/.test(each) ? each : `"${each}"`}`;
    if (name !== 'name' && isMediaType(longer)) whole = longer;
  }
  return whole;
}
