import { createHash } from 'node:crypto';
import { hashRelaxedBody, type Stretch } from './canonical.ts';
import { encodeText } from './encode-text.ts';
import { Scratch } from './scratch.ts';

/** The body of a message, without anything that differs between recipients. */
export interface Body {
  /** The MIME fields that belong in the message's header, each with its CRLF. */
  fields: string;
  /** Everything after the empty line. CRLF line ends, 7-bit octets, no line over 998 octets. */
  bytes: Buffer;
  /** The bh= value of a DKIM signature with relaxed body canonicalization (RFC 6376 section 3.7). */
  hash: string;
}

/** Octets at either end of an encoded part that go into the boundary's digest. */
const looked = 1_024;

const work = { plain: new Scratch(), html: new Scratch() };

/**
 * The body of a message without files: text, HTML, or both as alternatives (RFC 2046 section 5.1.4). The same texts give the
 * same bytes.
 */
export async function composeBody(text: string | null, html: string | null): Promise<Body> {
  if (text === null || html === null) {
    const { fields, bytes, relaxed } = html === null ? part('plain', text ?? '') : part('html', html);
    const ended = Buffer.concat(endsLine(bytes) ? [bytes] : [bytes, Buffer.from('\r\n')]);
    return toBody(`MIME-Version: 1.0\r\n${fields}`, ended, relaxed ? allOf(ended) : []);
  }
  const parts = [part('plain', text), part('html', html)];
  // A hash of the texts, so that none can be written to contain the boundary; "=_" is neither in base64 nor in quoted-printable.
  const digest = createHash('sha256');
  for (const { encoding, bytes } of parts) {
    // An encoded part cannot contain the boundary, so there it only has to differ between messages.
    const [head, tail] = encoding === '7bit' ? [bytes, null] : [bytes.subarray(0, looked), bytes.subarray(-looked)];
    digest.update(`${bytes.length} `).update(head);
    if (tail) digest.update(tail);
  }
  const boundary = `=_${digest.digest('hex').slice(0, 32)}`;
  const bytes = Buffer.concat([
    ...parts.flatMap(({ fields, bytes }) => [
      Buffer.from(`--${boundary}\r\n${fields}\r\n`, 'latin1'),
      bytes,
      Buffer.from('\r\n'),
    ]),
    Buffer.from(`--${boundary}--\r\n`, 'latin1'),
  ]);
  return toBody(
    `MIME-Version: 1.0\r\nContent-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n`,
    bytes,
    parts.every(({ relaxed }) => relaxed) ? allOf(bytes) : [],
  );
}

const allOf = (bytes: Buffer): Stretch[] => [{ start: 0, end: bytes.length }];

/** A body of these bytes, which must be ready to send. `relaxed`: see `hashRelaxedBody`. */
export async function toBody(fields: string, bytes: Buffer, relaxed: readonly Stretch[]): Promise<Body> {
  return { fields, bytes, hash: await hashRelaxedBody(bytes, relaxed) };
}

/** The returned bytes are valid until the next call with this subtype. */
function part(subtype: keyof typeof work, text: string) {
  const { encoding, bytes, relaxed } = encodeText(text, work[subtype]);
  return {
    fields: `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n`,
    encoding,
    bytes,
    relaxed,
  };
}

const endsLine = (bytes: Buffer) => bytes.at(-2) === 0x0d && bytes.at(-1) === 0x0a;
