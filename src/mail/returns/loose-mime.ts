import { parseParameters } from '../headers/parameters.ts';
import { decoderOf } from '../text/charset.ts';
import { decodeWords } from '../text/encoded-words.ts';
import { withoutTags } from '../text/html-text.ts';

/**
 * A lenient parser for messages that any program on the internet may have written, such as bounces. Nothing is an error:
 * anything not understood is treated as text. `mime.ts` is the strict parser, for messages that we are going to send.
 */

/** The header of a message or of a part: values unfolded, octets as Latin-1, encoded-words not decoded. */
export class LooseHeader {
  readonly #fields: { name: string; value: string }[];

  constructor(fields: { name: string; value: string }[]) {
    this.#fields = fields;
  }

  /** The first value of this name (in lower case), cut at 2,000 characters; empty if there is none. */
  get(name: string): string {
    return this.#fields.find((field) => field.name === name)?.value.slice(0, longestValue) ?? '';
  }

  /** All values of this name (in lower case), each cut at 2,000 characters. */
  all(name: string): string[] {
    return this.#fields.filter((field) => field.name === name).map(({ value }) => value.slice(0, longestValue));
  }

  /** The first value as a person reads it: encoded-words and raw UTF-8 are decoded. */
  text(name: string): string {
    return decodeWords(inCharset(Buffer.from(this.get(name), 'latin1'), 'utf-8'));
  }
}

/** A part that has no parts itself; a message within a message counts as one. */
export interface LoosePart {
  /** In lower case. */
  type: string;
  parameters: Map<string, string>;
  header: LooseHeader;
  /** The octets as Latin-1 with LF line ends, still encoded. */
  content: string;
}

export interface LooseMessage {
  header: LooseHeader;
  /** The type of the message as a whole. */
  type: string;
  parameters: Map<string, string>;
  /** In order. */
  parts: LoosePart[];
}

const mostRead = 1024 * 1024;
const longestHeader = 64 * 1024;
const longestValue = 2_000;
const mostFields = 300;
const mostParts = 50;
const deepest = 6;

/**
 * Reads the first megabyte of a message: at most 300 fields per header, 50 parts, and parts nested six deep. Anything beyond
 * is left out, so that time and memory depend only on these bounds. CRLF, LF and CR end a line.
 */
export function readLoosely(message: Uint8Array): LooseMessage {
  const octets = Buffer.from(message.buffer, message.byteOffset, Math.min(message.length, mostRead)).toString('latin1');
  const { header, body } = readHeaderLoosely(octets.replaceAll('\0', '').replaceAll(/\r\n?/g, '\n'));
  const top = readTypeLoosely(header, 'text/plain');
  const parts: LoosePart[] = [];
  let seen = 0;
  const visit = (part: LoosePart, depth: number): void => {
    const boundary = part.type.startsWith('multipart/') ? part.parameters.get('boundary') : undefined;
    const inner = boundary && depth < deepest ? splitLoosely(part.content, boundary) : [];
    // If its boundary is missing all of it is text, as mail programs show it.
    const isText = inner.length === 0 && depth < deepest && part.type.startsWith('multipart/');
    if (inner.length === 0) parts.push(isText ? { ...part, type: 'text/plain' } : part);
    for (const content of inner) {
      seen += 1;
      if (seen > mostParts) return;
      const own = readHeaderLoosely(content);
      const otherwise = part.type === 'multipart/digest' ? 'message/rfc822' : 'text/plain';
      visit({ ...readTypeLoosely(own.header, otherwise), header: own.header, content: own.body }, depth + 1);
    }
  };
  visit({ ...top, header, content: body }, 0);
  return { header, ...top, parts };
}

/** The header at the beginning of this text, and the body after it. */
export function readHeaderLoosely(text: string): { header: LooseHeader; body: string } {
  const fields: { name: string; value: string }[] = [];
  let at = 0;
  while (at < text.length && at < longestHeader) {
    const newline = text.indexOf('\n', at);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(at, Math.min(end, at + longestHeader));
    at = end + 1;
    if (line === '') break;
    const [start, name] = /^([!-9;-~]{1,76})[ \t]*:/.exec(line) ?? [];
    if (start !== undefined && name !== undefined) {
      if (fields.length < mostFields) fields.push({ name: name.toLowerCase(), value: line.slice(start.length).trim() });
      continue;
    }
    const last = fields.at(-1);
    // There is no header: all of it is text.
    if (!last && !/^>?From /.test(line)) return { header: new LooseHeader([]), body: text };
    // Some programs continue a parameter on the next line without an indent.
    const isContinued = last && (/^[ \t]/.test(line) || last.value.endsWith(';'));
    if (isContinued && last.value.length < longestValue) last.value = `${last.value} ${line.trim()}`.trimStart();
  }
  return { header: new LooseHeader(fields), body: text.slice(at) };
}

/** The type in this header, or the other one if it has none. */
export function readTypeLoosely(header: LooseHeader, otherwise: string): Pick<LoosePart, 'type' | 'parameters'> {
  const value = header.get('content-type');
  if (value === '') return { type: otherwise, parameters: new Map() };
  try {
    const { value: type, parameters } = parseParameters(value, { loosely: true });
    return { type: type.trim() || otherwise, parameters };
  } catch {
    return { type: value.split(';')[0]?.trim().toLowerCase() ?? otherwise, parameters: new Map() };
  }
}

/** What may follow a boundary; after anything else it is the beginning of a longer one, such as that of a multipart within. */
export const restOfDelimiter = /(--)?(?=\s|$)/y;

/** The parts between the lines of this boundary; none if it never occurs. */
function splitLoosely(content: string, boundary: string): string[] {
  const delimiter = `\n--${boundary}`;
  const text = `\n${content}`;
  const parts: string[] = [];
  let start = -1;
  for (let at = text.indexOf(delimiter); at !== -1; at = text.indexOf(delimiter, at + 1)) {
    const from = at + delimiter.length;
    restOfDelimiter.lastIndex = from;
    const rest = restOfDelimiter.exec(text);
    if (rest === null) continue;
    if (start !== -1) parts.push(text.slice(start, Math.max(start, at)));
    const newline = text.indexOf('\n', from);
    const closes = rest[1] !== undefined;
    start = newline === -1 ? text.length : newline + 1;
    if (closes || newline === -1 || parts.length >= mostParts) return parts;
  }
  if (start !== -1) parts.push(text.slice(start));
  return parts;
}

/** The decoded octets of a part's content, as Latin-1. */
export function decoded({ header, content }: LoosePart): string {
  const encoding = header.get('content-transfer-encoding').toLowerCase();
  if (encoding.startsWith('base64')) return Buffer.from(content, 'base64').toString('latin1').replaceAll('\r\n', '\n');
  if (!encoding.startsWith('quoted-printable')) return content;
  return content
    .replaceAll(/=[ \t]{0,50}\n/g, '')
    .replaceAll(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll('\r\n', '\n');
}

/** The text of a part, decoded, with LF line ends; HTML without its tags. @param most how many octets are read */
export function textOf(part: LoosePart, most: number): string {
  const octets = Buffer.from(decoded({ ...part, content: part.content.slice(0, most) }), 'latin1');
  const text = inCharset(octets, part.parameters.get('charset') ?? '').replaceAll(/\r\n?|\0/g, '\n');
  return part.type === 'text/html' ? withoutTags(text) : text;
}

function inCharset(octets: Buffer, given: string): string {
  // If no charset is given, these two octets start ISO-2022-JP.
  const charset = given === '' && octets.includes('\x1b$') ? 'iso-2022-jp' : given;
  // Text that claims to be ASCII and is not is often UTF-8.
  for (const name of [charset, 'utf-8']) {
    try {
      return decoderOf(/^(us-)?ascii$/i.test(name) ? 'utf-8' : name, name !== charset).decode(octets);
    } catch {}
  }
  return octets.toString('latin1');
}
