import { withCrlf } from './line-ends.ts';
import { Scratch } from './scratch.ts';

/** Text in a form that every server accepts: only CRLF line ends, no line over 998 octets, no NUL and nothing above 127. */
export interface EncodedText {
  encoding: '7bit' | 'quoted-printable' | 'base64';
  /** May lie in the given work space; valid until that is used again. */
  bytes: Buffer;
  /** The bytes are known to be in DKIM's relaxed form, whatever line end follows. */
  relaxed: boolean;
}

const columns = 76;

/** RFC 5322 section 2.1.1 allows 998. The margin is for a doubled dot, and for servers that count wrongly. */
const longestPlainLine = 990;
const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const equals = 0x3d;
const dot = 0x2e;

/**
 * Encodes the text of a MIME part (RFC 2045 section 6): unchanged if it is ASCII in lines of up to 990 characters, otherwise
 * as quoted-printable, or as base64 if that is about as short. Every CR, LF and CRLF is one line end. A lone surrogate
 * becomes U+FFFD.
 */
export function encodeText(text: string, output: Scratch): EncodedText {
  if (!/[^\t\n\r -~]/.test(text)) {
    const lines = withCrlf(text);
    if (hasShortLines(lines))
      return { encoding: '7bit', bytes: Buffer.from(lines, 'latin1'), relaxed: !/\t| (?: |\r|$)/.test(lines) };
  }
  const room = input.of(text.length * 2);
  room.write(text, 'utf16le');
  const quoted = quote(new Uint16Array(room.buffer, room.byteOffset, text.length), output);
  if (quoted) return { encoding: 'quoted-printable', ...quoted };
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

/** For each UTF-16 unit: 1 if it is written as it is, 3 for a space, 0 if it needs a closer look. */
const kinds = Uint8Array.from({ length: 0x10000 }, (_, unit) =>
  unit === space ? 3 : unit > space && unit < 0x7f && unit !== equals ? 1 : 0,
);

/** With more than one extra UTF-8 octet (beyond one per unit) in this many units, base64 is about as short. */
const seldom = 11;

/**
 * Quoted-printable (RFC 2045 section 6.7). Every CR, LF and CRLF is one line end. Reads UTF-16, as in strings: converting to
 * UTF-8 first would cost another throwaway buffer per text.
 *
 * @returns null if there are too many characters beyond ASCII
 */
function quote(units: Uint16Array, output: Scratch): { bytes: Buffer; relaxed: boolean } | null {
  // Three for each octet, of which there are few more than units, and three for a soft line break per at least 73 octets.
  const quoted = output.of(Math.ceil(units.length * 3.5) + 64);
  let length = 0;
  let lineStart = 0;
  let at = 0;
  let beyond = 0;
  let twoSpaces = 0;
  let tabs = false;
  for (;;) {
    // SMTP would have to double a dot at the beginning of a line.
    if (length === lineStart && units[at] === dot) length = writeEscaped(quoted, length, units[at++] as number);
    const stop = Math.min(units.length, at + columns - 1 - (length - lineStart));
    for (let before = 0; at < stop; at++) {
      const unit = units[at] as number;
      const kind = kinds[unit] as number;
      if (kind === 0) break;
      twoSpaces |= before & kind & 2;
      before = kind;
      quoted[length++] = unit;
    }
    const unit = units[at];
    if (isLineEnd(unit)) {
      // White space at the end of a line could get lost on the way.
      if (length > lineStart && quoted[length - 1] === space) {
        length--;
        if (length - lineStart + 3 > columns) length = breakSoftly(quoted, length);
        length = writeEscaped(quoted, length, space);
      }
      if (unit === undefined) break;
      quoted[length++] = carriageReturn;
      quoted[length++] = lineFeed;
      lineStart = length;
      at += unit === carriageReturn && units[at + 1] === lineFeed ? 2 : 1;
      continue;
    }
    if (unit >= 0x80) {
      const octets = toUtf8(unit, units[at + 1]);
      const taken = octets === 4 ? 2 : 1;
      const ends = isLineEnd(units[at + taken]);
      for (let written = 0; written < octets; written++) {
        if (length - lineStart + 3 > (ends && written === octets - 1 ? columns : columns - 1)) {
          length = breakSoftly(quoted, length);
          lineStart = length;
        }
        length = writeEscaped(quoted, length, utf8[written] as number);
      }
      beyond += octets - taken;
      if (beyond * seldom > units.length) return null;
      at += taken;
      continue;
    }
    const ends = isLineEnd(units[at + 1]);
    const literal = kinds[unit] !== 0 || (unit === tab && !ends);
    if (length - lineStart + (literal ? 1 : 3) > (ends ? columns : columns - 1)) {
      length = breakSoftly(quoted, length);
      lineStart = length;
      continue;
    }
    if (literal) quoted[length++] = unit;
    else length = writeEscaped(quoted, length, unit);
    tabs ||= literal && unit === tab;
    at++;
  }
  return { bytes: quoted.subarray(0, length), relaxed: twoSpaces === 0 && !tabs };
}

const utf8 = new Uint8Array(4);

/** Writes the non-ASCII character that begins here into `utf8`. @returns how many octets it has; four for a surrogate pair */
function toUtf8(unit: number, next: number | undefined): number {
  if (unit < 0x800) {
    utf8[0] = 0xc0 | (unit >> 6);
    utf8[1] = 0x80 | (unit & 0x3f);
    return 2;
  }
  const isPair = (unit & 0xfc00) === 0xd800 && next !== undefined && (next & 0xfc00) === 0xdc00;
  if (isPair) {
    const code = 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff);
    utf8[0] = 0xf0 | (code >> 18);
    utf8[1] = 0x80 | ((code >> 12) & 0x3f);
    utf8[2] = 0x80 | ((code >> 6) & 0x3f);
    utf8[3] = 0x80 | (code & 0x3f);
    return 4;
  }
  const code = (unit & 0xf800) === 0xd800 ? 0xfffd : unit;
  utf8[0] = 0xe0 | (code >> 12);
  utf8[1] = 0x80 | ((code >> 6) & 0x3f);
  utf8[2] = 0x80 | (code & 0x3f);
  return 3;
}

const isLineEnd = (byte: number | undefined) => byte === undefined || byte === lineFeed || byte === carriageReturn;

/** @returns the offset after what was written, as `writeEscaped` does */
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
