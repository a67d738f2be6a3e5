import { withCrlf } from './line-ends.ts';
import { Scratch } from './scratch.ts';
import { writeUtf8 } from './utf8.ts';

/** Text in a form that every server takes: CRLF line ends only, no line over 998 octets, no NUL and nothing above 127. */
export interface EncodedText {
  encoding: '7bit' | 'quoted-printable' | 'base64';
  /** Perhaps in the work space that was given: good until that is used again. */
  bytes: Buffer;
  /** It is known to be in the relaxed form of DKIM as it is, whatever line end follows. */
  relaxed: boolean;
}

const columns = 76;

/** RFC 5322 section 2.1.1 allows 998; one more for a dot that is doubled, and some for whoever cannot count. */
const longestPlainLine = 990;
const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const equals = 0x3d;
const dot = 0x2e;

/**
 * Encodes the text of a MIME part (RFC 2045 section 6): as it is where it is ASCII in lines of up to 990 characters,
 * otherwise as quoted-printable, or as base64 where that is about as short. Every CR, LF and CRLF is one line end. A lone
 * surrogate becomes U+FFFD.
 */
export function encodeText(text: string, output: Scratch): EncodedText {
  if (!/[^\t\n\r -~]/.test(text)) {
    const lines = withCrlf(text);
    if (hasShortLines(lines))
      return { encoding: '7bit', bytes: Buffer.from(lines, 'latin1'), relaxed: !/\t| (?: |\r|$)/.test(lines) };
  }
  const room = input.of(text.length * 3);
  const utf8 = room.subarray(0, writeUtf8(text, room));
  // Of a character beyond ASCII each octet becomes three; it has one or two more octets than characters.
  const beyond = 2 * (utf8.length - text.length);
  if (beyond * 6 <= utf8.length) return { encoding: 'quoted-printable', ...quote(utf8, output) };
  const base64 = Buffer.from(withCrlf(text)).toString('base64');
  return { encoding: 'base64', bytes: inLines(base64), relaxed: true };
}

function hasShortLines(text: string): boolean {
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end - start > longestPlainLine) return false;
    start = end + 1;
  }
  return text.length - start <= longestPlainLine;
}

const input = new Scratch();
const hex = Buffer.from('0123456789ABCDEF');

/** For each octet: 1 where it stands for itself, 3 where it is a space, 0 where it has to be looked at. */
const kinds = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === space ? 3 : byte > space && byte < 0x7f && byte !== equals ? 1 : 0,
);

/** RFC 2045 section 6.7. Every CR, LF and CRLF is one line end. */
function quote(bytes: Buffer, output: Scratch): { bytes: Buffer; relaxed: boolean } {
  // Three for each octet, and as many for a soft line break after at least 73 of those.
  const quoted = output.of(Math.ceil(bytes.length * 3.2) + 16);
  let length = 0;
  let lineStart = 0;
  let at = 0;
  let twoSpaces = 0;
  let tabs = false;
  for (;;) {
    // At the beginning of a line SMTP would have to double it.
    if (length === lineStart && bytes[at] === dot) length = writeEscaped(quoted, length, bytes[at++] as number);
    const stop = Math.min(bytes.length, at + columns - 1 - (length - lineStart));
    for (let before = 0; at < stop; at++) {
      const byte = bytes[at] as number;
      const kind = kinds[byte] as number;
      if (kind === 0) break;
      twoSpaces |= before & kind & 2;
      before = kind;
      quoted[length++] = byte;
    }
    const byte = bytes[at];
    if (isLineEnd(byte)) {
      // White space at the end of a line would get lost on the way.
      if (length > lineStart && quoted[length - 1] === space) {
        length--;
        if (length - lineStart + 3 > columns) length = breakSoftly(quoted, length);
        length = writeEscaped(quoted, length, space);
      }
      if (byte === undefined) break;
      quoted[length++] = carriageReturn;
      quoted[length++] = lineFeed;
      lineStart = length;
      at += byte === carriageReturn && bytes[at + 1] === lineFeed ? 2 : 1;
      continue;
    }
    const ends = isLineEnd(bytes[at + 1]);
    const literal = kinds[byte] !== 0 || (byte === tab && !ends);
    if (length - lineStart + (literal ? 1 : 3) > (ends ? columns : columns - 1)) {
      length = breakSoftly(quoted, length);
      lineStart = length;
      continue;
    }
    if (literal) quoted[length++] = byte;
    else length = writeEscaped(quoted, length, byte);
    tabs ||= literal && byte === tab;
    at++;
  }
  return { bytes: quoted.subarray(0, length), relaxed: twoSpaces === 0 && !tabs };
}

const isLineEnd = (byte: number | undefined) => byte === undefined || byte === lineFeed || byte === carriageReturn;

/** @returns the offset behind what was written, as `writeEscaped` does */
function breakSoftly(quoted: Buffer, at: number): number {
  quoted[at] = equals;
  quoted[at + 1] = carriageReturn;
  quoted[at + 2] = lineFeed;
  return at + 3;
}

function writeEscaped(quoted: Buffer, at: number, byte: number): number {
  quoted[at] = equals;
  quoted[at + 1] = hex[byte >> 4] as number;
  quoted[at + 2] = hex[byte & 15] as number;
  return at + 3;
}

/** Base64 in lines of 76 characters. */
function inLines(base64: string): Buffer {
  const lines: string[] = [];
  for (let start = 0; start < base64.length; start += columns) lines.push(base64.slice(start, start + columns));
  return Buffer.from(lines.join('\r\n'), 'latin1');
}
