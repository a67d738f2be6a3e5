import { encodeBase64 } from './base64-lines.ts';
import { withCrlf } from './line-ends.ts';
import { encodeQuotedPrintable } from './quoted-printable.ts';
import type { Scratch } from './scratch.ts';

/** Text in a form that every server accepts: only CRLF line ends, no line over 998 octets, no NUL and nothing above 127. */
export interface EncodedText {
  encoding: '7bit' | 'quoted-printable' | 'base64';
  /** May lie in the given work space; valid until that is used again. */
  bytes: Buffer;
  /** The bytes are known to be in DKIM's relaxed form, whatever line end follows. */
  relaxed: boolean;
}

/** RFC 5322 section 2.1.1 allows 998. The margin is for a doubled dot, and for servers that count wrongly. */
const longestPlainLine = 990;

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
  const quoted = encodeQuotedPrintable(text, output);
  if (quoted) return { encoding: 'quoted-printable', ...quoted };
  return { encoding: 'base64', bytes: encodeBase64(Buffer.from(withCrlf(text))), relaxed: true };
}

function hasShortLines(text: string): boolean {
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end - start > longestPlainLine) return false;
    start = end + 1;
  }
  return text.length - start <= longestPlainLine;
}
