import { isUtf8 } from 'node:buffer';
import type { Parameterized } from '../headers/parameters.ts';
import { decoderOf } from '../text/charset.ts';
import { MimeError } from '../text/mime-error.ts';
import { longestBody } from '../text/text-limits.ts';
import { declaredCharset, withUtf8Declared } from './html-charset.ts';

const isNamedUtf8 = /^utf-?8$/;

/** No charset, ASCII, and the names that programs write for an unknown one (RFC 1428 section 3). */
const unsaid = /^(?:us-ascii|ascii|ansi_x3\.4-1968|unknown-8bit|x-unknown|unknown|)$/;

/**
 * The text of a text part, with LF as the only line end and with the lines of `format=flowed` joined (RFC 3676). Text longer
 * than any body may be is left as it is.
 *
 * Without a charset, or with US-ASCII, bytes above 127 are read as UTF-8 if any of them are, which is what such clients mean,
 * and otherwise in the charset that HTML declares, or as windows-1252. Invalid bytes become U+FFFD, as in mail programs: a cron
 * report must not be lost for one odd file name. HTML that came in another charset declares UTF-8.
 *
 * @throws {MimeError} when the charset is not known, or there is a NUL
 */
export function decodeText(bytes: Buffer, { value, parameters }: Parameterized): string {
  const charset = (parameters.get('charset') ?? '').trim().toLowerCase();
  const isHtml = value === 'text/html';
  const decoded = unsaid.test(charset) ? decodeUnsaid(bytes, isHtml) : decode(bytes, charset);
  const text = isHtml && !isNamedUtf8.test(charset) ? withUtf8Declared(decoded) : decoded;
  if (text.includes('\0')) throw new MimeError('contains a NUL character');
  // Longer than any body even if each CRLF counts as one; processing millions of lines would block everything else.
  if (text.length > 2 * longestBody) return text;
  // Not with a regular expression, which takes five times as long.
  const lines = text.split('\r\n').join('\n').replaceAll('\r', '\n');
  const flowed = parameters.get('format')?.trim().toLowerCase() === 'flowed';
  return flowed && lines.length <= longestBody
    ? joinFlowed(lines, parameters.get('delsp')?.trim().toLowerCase() === 'yes')
    : lines;
}

function decode(bytes: Buffer, charset: string): string {
  try {
    return decoderOf(charset).decode(bytes);
  } catch {
    throw new MimeError(`is in an unknown charset: ${charset.slice(0, 40)}`);
  }
}

const utf8 = new TextDecoder();
const western = new TextDecoder('windows-1252');

function decodeUnsaid(bytes: Buffer, isHtml: boolean): string {
  const text = utf8.decode(bytes);
  if (isUtf8(bytes) || /[^\0-\x7f\ufffd]/.test(text)) return text;
  const declared = isHtml ? declaredCharset(bytes) : null;
  try {
    return (declared === null ? western : decoderOf(declared)).decode(bytes);
  } catch {
    return western.decode(bytes);
  }
}

/** A line that ends in a space continues in the next one of the same quote depth, except for the `-- ` above a signature. */
function joinFlowed(text: string, dropsSpace: boolean): string {
  const joined: string[] = [];
  let open: { quotes: string; parts: string[] } | null = null;
  for (const line of text.split('\n')) {
    const quotes = /^>*/.exec(line)?.[0] ?? '';
    const stuffed = line.slice(quotes.length);
    const content = stuffed.startsWith(' ') ? stuffed.slice(1) : stuffed;
    if (open && (open.quotes !== quotes || content === '-- ')) {
      joined.push(written(open));
      open = null;
    }
    const flows = content.endsWith(' ') && content !== '-- ';
    open ??= { quotes, parts: [] };
    open.parts.push(flows && dropsSpace ? content.slice(0, -1) : content);
    if (flows) continue;
    joined.push(written(open));
    open = null;
  }
  if (open) joined.push(written(open));
  return joined.join('\n');
}

const written = ({ quotes, parts }: { quotes: string; parts: string[] }) =>
  `${quotes}${quotes === '' ? '' : ' '}${parts.join('')}`;
