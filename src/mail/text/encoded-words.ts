import { isUtf8 } from 'node:buffer';
import { type Decoder, decoderOf } from './charset.ts';

/** The charset may have a language after it (RFC 2231 section 5). The text may hold spaces, which mail programs accept. */
const word = /=\?([^?\s]+)\?([QqBb])\?([^?]*)\?=/g;

/** Per text; more can only be an attempt to keep us busy. */
const mostCharsets = 20;

/** Adjacent words of one charset: some programs split a character between two. */
interface Run {
  charset: string;
  octets: Buffer[];
}

/**
 * Text with its encoded-words decoded (RFC 2047). Encoded tabs become spaces, as elsewhere in a header, and line ends at either
 * end are dropped: `echo Größe | base64` adds one. Any other control character stays.
 */
export function readWords(text: string): string {
  const read = decodeWords(text).replaceAll('\t', ' ');
  if (!/[\r\n]/.test(read)) return read;
  let start = 0;
  let end = read.length;
  while (isLineEnd(read[start])) start++;
  while (end > start && isLineEnd(read[end - 1])) end--;
  return read.slice(start, end);
}

const isLineEnd = (character: string | undefined) => character === '\r' || character === '\n';

/**
 * The same, but control characters stay as they are. The time depends only on the length. Octets in an unknown charset are read
 * as UTF-8 or windows-1252.
 */
export function decodeWords(text: string): string {
  const pieces: (string | Run)[] = [];
  let at = 0;
  for (const { 0: whole, 1: label = '', 2: method, 3: encoded = '', index } of text.matchAll(word)) {
    const between = text.slice(at, index);
    const last = pieces.at(-1);
    const octets = /b/i.test(method ?? '') ? Buffer.from(encoded, 'base64') : fromQ(encoded);
    const charset = label.split('*', 1)[0]?.toLowerCase() ?? '';
    // White space between two encoded-words is not part of the text.
    const isNext = typeof last === 'object' && /^[ \t\r\n]*$/.test(between);
    if (!isNext) pieces.push(between);
    if (isNext && last.charset === charset) last.octets.push(octets);
    else pieces.push({ charset, octets: [octets] });
    at = index + whole.length;
  }
  const decoders = new Map<string, Decoder>();
  return (
    pieces.map((piece) => (typeof piece === 'string' ? piece : decoded(piece, decoders))).join('') + text.slice(at)
  );
}

/** Decodes the words together, unless that loses more than decoding each alone: some charsets start over with each word. */
function decoded({ charset, octets }: Run, decoders: Map<string, Decoder>): string {
  const decoder = decoders.get(charset) ?? (decoders.size < mostCharsets ? known(charset) : guessing);
  decoders.set(charset, decoder);
  const together = decoder.decode(Buffer.concat(octets));
  const lost = lostIn(together);
  if (lost === 0 || octets.length === 1) return together;
  const apart = octets.map((each) => decoder.decode(each)).join('');
  return lostIn(apart) < lost ? apart : together;
}

function known(charset: string): Decoder {
  try {
    return /^(?:us-)?ascii$/.test(charset) ? guessing : decoderOf(charset);
  } catch {
    return guessing;
  }
}

const utf8 = new TextDecoder();
const western = new TextDecoder('windows-1252');
const guessing: Decoder = { decode: (octets) => (isUtf8(octets) ? utf8 : western).decode(octets) };

const lostIn = (text: string) => text.split('\ufffd').length - 1;

function fromQ(encoded: string): Buffer {
  const octets = Buffer.from(encoded.replaceAll(/[_\s]/g, ' ')).toString('latin1');
  const plain = octets.replaceAll(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(plain, 'latin1');
}
