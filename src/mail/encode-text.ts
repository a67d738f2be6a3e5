import { withCrlf } from './line-ends.ts';
import { Scratch } from './scratch.ts';

/** Text in a form that every server takes: CRLF line ends only, no line over 998 octets, no NUL and nothing above 127. */
export interface EncodedText {
  encoding: '7bit' | 'quoted-printable' | 'base64';
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

/**
 * Encodes the text of a MIME part (RFC 2045 section 6): as it is where it is ASCII in lines of up to 990 characters,
 * otherwise as quoted-printable, or as base64 where that is about as short. Every CR, LF and CRLF is one line end. A lone
 * surrogate becomes U+FFFD.
 */
export function encodeText(text: string): EncodedText {
  if (!/[^\t\n\r -~]/.test(text)) {
    const lines = withCrlf(text);
    if (hasShortLines(lines))
      return { encoding: '7bit', bytes: Buffer.from(lines, 'latin1'), relaxed: !/\t| (?: |\r|$)/.test(lines) };
  }
  const room = input.of(text.length * 3);
  const utf8 = room.subarray(0, encoder.encodeInto(text, room).written);
  // Of a character beyond ASCII each octet becomes three; it has one or two more octets than characters.
  const beyond = 2 * (utf8.length - text.length);
  if (beyond * 6 <= utf8.length) return { encoding: 'quoted-printable', ...quote(utf8) };
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

const encoder = new TextEncoder();
const input = new Scratch();
const output = new Scratch();
const hex = Buffer.from('0123456789ABCDEF');

/** 1 for each octet that stands for itself wherever it is. */
const isSafe = Uint8Array.from({ length: 256 }, (_, byte) => (byte > space && byte < 0x7f && byte !== equals ? 1 : 0));

/** RFC 2045 section 6.7. Every CR, LF and CRLF is one line end. */
function quote(bytes: Buffer): { bytes: Buffer; relaxed: boolean } {
  // Three for each octet, and as many for a soft line break after at least 73 of those.
  const quoted = output.of(Math.ceil(bytes.length * 3.2) + 16);
  let length = 0;
  let column = 0;
  let relaxed = true;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (isSafe[byte] === 1 && column < columns - 1) {
      quoted[length++] = byte;
      column++;
      continue;
    }
    if (byte === lineFeed || byte === carriageReturn) {
      quoted[length++] = carriageReturn;
      quoted[length++] = lineFeed;
      if (byte === carriageReturn && bytes[i + 1] === lineFeed) i++;
      column = 0;
      continue;
    }
    // White space at the end of a line would get lost on the way.
    const next = bytes[i + 1];
    const ends = next === carriageReturn || next === lineFeed || i + 1 === bytes.length;
    const isSpace = byte === space || byte === tab;
    const plain = isSpace ? !ends : isSafe[byte] === 1;
    if (column + (plain ? 1 : 3) > (ends ? columns : columns - 1)) {
      quoted[length++] = equals;
      quoted[length++] = carriageReturn;
      quoted[length++] = lineFeed;
      column = 0;
    }
    if (plain) {
      if (isSpace && (byte === tab || quoted[length - 1] === space)) relaxed = false;
      quoted[length++] = byte;
      column++;
    } else {
      quoted[length++] = equals;
      quoted[length++] = hex[byte >> 4] as number;
      quoted[length++] = hex[byte & 15] as number;
      column += 3;
    }
  }
  return { bytes: Buffer.from(quoted.subarray(0, length)), relaxed };
}

/** Base64 in lines of 76 characters. */
function inLines(base64: string): Buffer {
  const lines: string[] = [];
  for (let start = 0; start < base64.length; start += columns) lines.push(base64.slice(start, start + columns));
  return Buffer.from(lines.join('\r\n'), 'latin1');
}
