import { withCrlf } from './line-ends.ts';

/** Text in a form that every server takes: CRLF line ends only, no line over 998 octets, no NUL and nothing above 127. */
export interface EncodedText {
  encoding: '7bit' | 'quoted-printable' | 'base64';
  bytes: Buffer;
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
 * otherwise as quoted-printable, or as base64 where that is shorter. Every CR, LF and CRLF is one line end. A lone
 * surrogate becomes U+FFFD.
 */
export function encodeText(text: string): EncodedText {
  const bytes = Buffer.from(withCrlf(text));
  const { special, signs, lines, longestLine } = measure(bytes);
  if (special === 0 && longestLine <= longestPlainLine) return { encoding: '7bit', bytes };
  if (special * 2 > bytes.length / 3) return { encoding: 'base64', bytes: inLines(bytes.toString('base64')) };
  // What is quoted becomes three octets, at the end of a line a space too.
  return { encoding: 'quoted-printable', bytes: quote(bytes, bytes.length + 2 * (special + signs + lines)) };
}

/** How much of it can only be quoted, how many equals signs and lines there are, and the longest line. */
function measure(bytes: Buffer): { special: number; signs: number; lines: number; longestLine: number } {
  let special = 0;
  let signs = 0;
  let lines = 1;
  let longestLine = 0;
  let lineStart = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte > equals && byte < 0x7f) continue;
    if (byte === lineFeed) {
      longestLine = Math.max(longestLine, i - 1 - lineStart);
      lineStart = i + 1;
      lines++;
    } else if (byte === equals) signs++;
    else if (byte > 0x7e || (byte < space && byte !== carriageReturn && byte !== tab)) special++;
  }
  return { special, signs, lines, longestLine: Math.max(longestLine, bytes.length - lineStart) };
}

const hex = Buffer.from('0123456789ABCDEF');

/** RFC 2045 section 6.7. @param most octets that it can have, but for the soft line breaks */
function quote(bytes: Buffer, most: number): Buffer {
  // Three octets for at least every 73.
  const output = Buffer.allocUnsafe(Math.ceil(most * 1.05) + 16);
  let length = 0;
  let column = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte > equals && byte < 0x7f && column < columns - 1) {
      output[length++] = byte;
      column++;
      continue;
    }
    if (byte === carriageReturn) {
      output[length++] = carriageReturn;
      output[length++] = lineFeed;
      i++;
      column = 0;
      continue;
    }
    // White space at the end of a line would get lost on the way.
    const ends = i + 1 === bytes.length || bytes[i + 1] === carriageReturn;
    const plain = (byte > space && byte < 0x7f && byte !== equals) || ((byte === space || byte === tab) && !ends);
    if (column + (plain ? 1 : 3) > (ends ? columns : columns - 1)) {
      output[length++] = equals;
      output[length++] = carriageReturn;
      output[length++] = lineFeed;
      column = 0;
    }
    if (plain) output[length++] = byte;
    else {
      output[length++] = equals;
      output[length++] = hex[byte >> 4] as number;
      output[length++] = hex[byte & 15] as number;
    }
    column += plain ? 1 : 3;
  }
  return output.subarray(0, length);
}

/** Base64 in lines of 76 characters. */
function inLines(base64: string): Buffer {
  const lines: string[] = [];
  for (let start = 0; start < base64.length; start += columns) lines.push(base64.slice(start, start + columns));
  return Buffer.from(lines.join('\r\n'), 'latin1');
}
