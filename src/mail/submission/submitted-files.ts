import { createHash } from 'node:crypto';
import { detectExtension } from 'nodemailer/lib/mime-funcs';
import { isContentId, isMediaType, type MessageAttachment, withoutPath } from '../compose/attachments.ts';
import type { Parameterized } from '../headers/parameters.ts';
import { longestBody } from '../text/text-limits.ts';
import type { MimePart } from './mime.ts';

/** A part that is not a body, decoded. */
export interface SubmittedFile {
  part: MimePart;
  content: Buffer;
}

/** An id that the HTML may refer to; a longer one, or one with quotes, was not meant as such. */
const meantAsId = /^[^"<>\p{Cc}]{1,200}$/u;

/**
 * The files of a message, and its HTML, which refers to them by ids that can be sent: Outlook Express and others write ids with
 * `$`, with spaces or with any character of the file's name.
 */
export function withFiles(
  html: string | null,
  files: SubmittedFile[],
): { html: string | null; attachments: MessageAttachment[] } {
  // Longer HTML is no valid body, and would be searched once for each file.
  const searched = html !== null && html.length <= longestBody ? withSendableIds(html, files) : null;
  const isReferredTo = referencesIn(searched?.html ?? '');
  const attachments = files.map(({ part, content }, index) => {
    const given = part.disposition?.parameters.get('filename') || part.type.parameters.get('name') || '';
    const contentId = part.contentId === null ? null : (searched?.newIds.get(part.contentId) ?? part.contentId);
    return {
      filename: withoutPath(given) || `attachment-${index + 1}.${extensionOf(part.type.value)}`,
      contentType: contentTypeOf(part.type),
      contentId:
        contentId !== null && isContentId(contentId) && (isReferredTo(contentId) || mayBeShown(part))
          ? contentId
          : null,
      content,
    };
  });
  return { html: searched?.html ?? html, attachments };
}

/** Whether HTML refers to an id, however its program spelled the URL: `CID:` or percent-encoded (RFC 2392 section 2). */
function referencesIn(html: string): (contentId: string) => boolean {
  const ids = new Set<string>();
  for (const [, url = ''] of html.matchAll(/\bcid:([\w.%+=@-]{1,600})/gi)) {
    try {
      ids.add(decodeURIComponent(url));
    } catch {
      // A lone `%`: no id that could be sent contains one.
    }
  }
  // An id as it stands may be followed by more that looks like a part of the URL.
  return (contentId) => ids.has(contentId) || html.includes(`cid:${contentId}`);
}

/** Replaces the ids that cannot be sent as they are. `newIds` has those that the HTML refers to, by the old ones. */
function withSendableIds(html: string, files: SubmittedFile[]): { html: string; newIds: Map<string, string> } {
  const newIds = new Map<string, string>();
  let replaced = html;
  // The longest first, because a shorter one may be a prefix of it.
  for (const id of unsendableIds(files)) {
    const before = replaced;
    for (const spelled of new Set([id, id.replaceAll('&', '&amp;'), encodeURI(id), encodeURIComponent(id)]))
      replaced = replaced.replaceAll(`cid:${spelled}`, `cid:${sendableId(id)}`);
    if (replaced !== before) newIds.set(id, sendableId(id));
  }
  return { html: replaced, newIds };
}

function unsendableIds(files: SubmittedFile[]): string[] {
  const ids = files.flatMap(({ part: { contentId } }) =>
    contentId !== null && !isContentId(contentId) && meantAsId.test(contentId) && contentId.trim() !== ''
      ? contentId
      : [],
  );
  return [...new Set(ids)].sort((one, other) => other.length - one.length);
}

/** Deterministic, so that a message that is submitted again is recognized as the same. */
const sendableId = (id: string) => `${createHash('sha256').update(id).digest('hex').slice(0, 24)}@image`;

function extensionOf(type: string): string {
  if (type === 'message/rfc822') return 'eml';
  const extension = detectExtension(type);
  // `*` is the library's extension for application/octet-stream, which no system accepts in a name.
  return extension === '*' ? 'bin' : extension;
}

/**
 * Some clients give every file an id, and some mark every file as inline. Files that the HTML does not refer to stay
 * attachments, because mail programs hide parts of the HTML. An image may be referred to in other ways.
 */
const mayBeShown = ({ type, disposition }: MimePart): boolean =>
  disposition?.value !== 'attachment' && type.value.startsWith('image/');

/** The type with those parameters that can be sent, except for the name, which is in the disposition. */
function contentTypeOf({ value, parameters }: Parameterized): string {
  if (!isMediaType(value)) return 'application/octet-stream';
  let whole = value;
  for (const [name, each] of parameters) {
    const longer = `${whole}; ${name}=${/^[\w.+-]+$/.test(each) ? each : `"${each}"`}`;
    if (name !== 'name' && isMediaType(longer)) whole = longer;
  }
  return whole;
}
