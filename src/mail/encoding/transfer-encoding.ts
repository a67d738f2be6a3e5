import { setImmediate } from 'node:timers/promises';
import { MimeError } from '../text/mime-error.ts';

/** Not encoded. Some scripts give the charset or the type here, which mail programs accept too. */
const notEncoded = /^(?:[78][ -]?bits?|binary|none|plain|text\/(?:plain|html)|utf-?8|us-ascii|iso-8859-1|)$/;

/** Octets decoded at a time; in between, the event loop runs. */
const sliceLength = 1 << 20;

/**
 * Decodes the body of a part (RFC 2045 section 6).
 *
 * @param encoding the Content-Transfer-Encoding in lower case, empty if there is none
 * @throws {MimeError} when the encoding is not known, or base64 is not valid
 */
export async function decodeTransfer(body: Buffer, encoding: string): Promise<Buffer> {
  if (encoding === 'base64') return decodeBase64(body);
  if (encoding === 'quoted-printable') return decodeQuotedPrintable(body);
  if (notEncoded.test(encoding)) return body;
  throw new MimeError('has an unknown Content-Transfer-Encoding');
}

/** Strict, because Node would skip anything that is not base64, and so show other content than mail programs do. */
async function decodeBase64(body: Buffer): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let rest = '';
  for (let start = 0; start < body.length; start += sliceLength) {
    if (start > 0) await setImmediate();
    const text = rest + body.toString('latin1', start, start + sliceLength).replaceAll(/[\r\n\t ]+/g, '');
    const whole = text.length - (text.length % 4);
    if (whole > 0) pieces.push(decodeGroups(text.slice(0, whole), pieces.at(-1)));
    rest = text.slice(whole);
  }
  if (rest !== '') pieces.push(decodeGroups(rest, pieces.at(-1)));
  return Buffer.concat(pieces);
}

function decodeGroups(text: string, before: Buffer | undefined): Buffer {
  const valid = /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 !== 1;
  // Nothing may follow padding. A piece that was padded has a length that is not a multiple of three.
  if (!valid || (before !== undefined && before.length % 3 !== 0)) throw new MimeError('is not base64');
  return Buffer.from(text, 'base64');
}

async function decodeQuotedPrintable(body: Buffer): Promise<Buffer> {
  // No sequence decodes to more octets than it has.
  const output = Buffer.allocUnsafe(body.length);
  let length = 0;
  // White space at the end of a line was added on the way (section 6.7, rule 3).
  let lineEnd = 0;
  for (let i = 0, pause = sliceLength; i < body.length; i++) {
    if (i >= pause) {
      await setImmediate();
      pause = i + sliceLength;
    }
    const byte = body[i] ?? 0;
    if (byte === 0x3d) {
      const soft = softBreak(body, i + 1);
      const value = soft === 0 ? hexPair(body, i + 1) : -1;
      if (soft > 0) i += soft;
      else if (value >= 0) {
        output[length++] = value;
        i += 2;
      } else output[length++] = byte;
      lineEnd = length;
    } else if (byte === 0x0d && body[i + 1] === 0x0a) {
      length = lineEnd;
      output[length++] = 0x0d;
      output[length++] = 0x0a;
      lineEnd = length;
      i++;
    } else {
      output[length++] = byte;
      if (byte !== 0x20 && byte !== 0x09) lineEnd = length;
    }
  }
  return output.subarray(0, length);
}

/** How many octets the rest of a soft line break has, 0 if it is not one. */
function softBreak(body: Buffer, from: number): number {
  let at = from;
  while ((body[at] === 0x20 || body[at] === 0x09) && at - from < 1_000) at++;
  return body[at] === 0x0d && body[at + 1] === 0x0a ? at + 2 - from : at === body.length ? at - from : 0;
}

function hexPair(body: Buffer, from: number): number {
  const text = body.toString('latin1', from, from + 2);
  return /^[0-9A-Fa-f]{2}$/.test(text) ? Number.parseInt(text, 16) : -1;
}
