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
 * otherwise as quoted-printable, or as base64 where that is about as short. Every CR, LF and CRLF is one line end. A lone
 * surrogate becomes U+FFFD.
 */
export function encodeText(text: string): EncodedText {
  const lines = withCrlf(text);
  if (isPlain(lines)) return { encoding: '7bit', bytes: Buffer.from(lines, 'latin1') };
  const bytes = Buffer.from(lines);
  // Of a character beyond ASCII each octet becomes three; it has one or two more octets than characters.
  const beyond = 2 * (bytes.length - lines.length);
  if (beyond * 6 > bytes.length) return { encoding: 'base64', bytes: inLines(bytes.toString('base64')) };
  return { encoding: 'quoted-printable', bytes: quote(bytes) };
}

function isPlain(text: string): boolean {
  if (Buffer.byteLength(text) > text.length || /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(text)) return false;
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end - start > longestPlainLine) return false;
    start = end + 1;
  }
  return text.length - start <= longestPlainLine;
}

const hex = Buffer.from('0123456789ABCDEF');

/** RFC 2045 section 6.7. */
function quote(bytes: Buffer): Buffer {
  // Three for each octet, and as many for a soft line break after at least 73 of those: what is not written costs nothing.
  const output = Buffer.allocUnsafe(Math.ceil(bytes.length * 3.2) + 16);
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
