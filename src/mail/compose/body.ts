import { createHash } from 'node:crypto';
import { hashRelaxedBody, type Stretch } from '../encoding/canonical.ts';
import { type EncodedText, encodeText } from '../encoding/encode-text.ts';
import { Scratch } from '../encoding/scratch.ts';

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
const sampledOctets = 1_024;

/** One for each part of a message, as both are needed at the same time. */
const work = { plain: new Scratch(), html: new Scratch() };

/** An encoded text with its own MIME fields. */
interface TextPart extends EncodedText {
  fields: string;
}

/**
 * The body of a message without files: text, HTML, or both as alternatives (RFC 2046 section 5.1.4). The same texts give the
 * same bytes.
 */
export async function composeBody(text: string | null, html: string | null): Promise<Body> {
  if (html === null) return alone(encode('plain', text ?? ''));
  if (text === null) return alone(encode('html', html));
  return asAlternatives([encode('plain', text), encode('html', html)]);
}

/** A body of these bytes, which must be ready to send. `relaxed`: see `hashRelaxedBody`. */
export async function toBody(fields: string, bytes: Buffer, relaxed: readonly Stretch[]): Promise<Body> {
  return { fields, bytes, hash: await hashRelaxedBody(bytes, relaxed) };
}

/** The returned bytes are valid until the next call with this subtype. */
function encode(subtype: keyof typeof work, text: string): TextPart {
  const encoded = encodeText(text, work[subtype]);
  return {
    ...encoded,
    fields: `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoded.encoding}\r\n`,
  };
}

function alone({ fields, bytes, relaxed }: TextPart): Promise<Body> {
  const lines = Buffer.concat(endsLine(bytes) ? [bytes] : [bytes, Buffer.from('\r\n')]);
  return toBody(`MIME-Version: 1.0\r\n${fields}`, lines, relaxed ? allOf(lines) : []);
}

function asAlternatives(parts: TextPart[]): Promise<Body> {
  const boundary = boundaryFor(parts);
  const bytes = Buffer.concat([
    ...parts.flatMap((part) => [
      Buffer.from(`--${boundary}\r\n${part.fields}\r\n`, 'latin1'),
      part.bytes,
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

/** A hash of the texts, so that none can be written to contain it; "=_" is neither in base64 nor in quoted-printable. */
function boundaryFor(parts: TextPart[]): string {
  const digest = createHash('sha256');
  for (const { encoding, bytes } of parts) {
    digest.update(`${bytes.length} `);
    // An encoded part cannot contain the boundary, so there it only has to differ between messages.
    if (encoding === '7bit') digest.update(bytes);
    else digest.update(bytes.subarray(0, sampledOctets)).update(bytes.subarray(-sampledOctets));
  }
  return `=_${digest.digest('hex').slice(0, 32)}`;
}

const allOf = (bytes: Buffer): Stretch[] => [{ start: 0, end: bytes.length }];

const endsLine = (bytes: Buffer) => bytes.at(-2) === 0x0d && bytes.at(-1) === 0x0a;
