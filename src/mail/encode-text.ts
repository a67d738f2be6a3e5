import { withCrlf } from './line-ends.ts';
import { Scratch } from './scratch.ts';

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

/** For each UTF-16 unit: 1 where it stands for itself, 3 where it is a space, 0 where it has to be looked at. */
const kinds = Uint8Array.from({ length: 0x10000 }, (_, unit) =>
  unit === space ? 3 : unit > space && unit < 0x7f && unit !== equals ? 1 : 0,
);

/** Octets beyond one for each unit, of so many units one: from there on base64 is about as short. */
const seldom = 11;

/**
 * RFC 2045 section 6.7. Every CR, LF and CRLF is one line end. From UTF-16, as strings are: to make UTF-8 of it first would
 * be one more buffer to throw away for each text.
 *
 * @returns null where characters beyond ASCII are too many
 */
function quote(units: Uint16Array, output: Scratch): { bytes: Buffer; relaxed: boolean } | null {
  // Three for each octet, of which there are few more than units, and as many for a soft line break after at least 73 of those.
  const quoted = output.of(Math.ceil(units.length * 3.5) + 64);
  let length = 0;
  let lineStart = 0;
  let at = 0;
  let beyond = 0;
  let twoSpaces = 0;
  let tabs = false;
  for (;;) {
    // At the beginning of a line SMTP would have to double it.
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
      // White space at the end of a line would get lost on the way.
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

/** Puts the octets of the character that begins here, which is beyond ASCII, into `utf8`. @returns how many they are; four for a pair of units */
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
