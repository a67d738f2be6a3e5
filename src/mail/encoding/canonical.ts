import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { Scratch } from './scratch.ts';

const space = 0x20;
const tab = 0x09;
const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/**
 * One header field in the "relaxed" form of RFC 6376 section 3.4.2, without its CRLF. Input and output are latin1 strings of
 * the field's octets, because UTF-8 in a header must come through untouched.
 */
export function relaxedField(field: string): string {
  const colon = field.indexOf(':');
  const name = field.slice(0, colon);
  const content = field.slice(colon + 1, field.endsWith('\r\n') ? -2 : undefined);
  // Nearly all fields are already one line with single spaces, and testing for that is cheaper than replacing.
  const value = /[\t\r]| {2}/.test(content) ? content.replaceAll('\r\n', '').replaceAll(/[ \t]+/g, ' ') : content;
  const from = value.startsWith(' ') ? 1 : 0;
  // Not `trim`, which would treat the octets 0x85 and 0xA0 as white space.
  const to = value.length > 1 && value.endsWith(' ') ? -1 : undefined;
  return `${(/[ \t]/.test(name) ? name.replaceAll(/[ \t]+/g, '') : name).toLowerCase()}:${value.slice(from, to)}`;
}

// A slice of a large body takes a few milliseconds to canonicalize; in between, the event loop runs.
const sliceLength = 1 << 20;

/** Octets of a body that are already in relaxed form: whole lines, the last one with or without its CRLF. */
export interface Stretch {
  start: number;
  end: number;
}

/**
 * The SHA-256, in base64, of a body in the "relaxed" form of RFC 6376 section 3.4.4: no white space at line ends, other runs
 * of it reduced to one space, no empty lines at the end, and a final CRLF unless it is empty. Lines must end with CRLF. Yields
 * to the event loop after every megabyte.
 *
 * @param relaxed the stretches that are known to be in that form already, except for the end of the body; in order
 */
export async function hashRelaxedBody(body: Buffer, relaxed: readonly Stretch[] = []): Promise<string> {
  const hash = createHash('sha256');
  const end = endOfContent(body);
  let start = 0;
  for (const stretch of [...relaxed, { start: end, end }]) {
    await hashSlices(hash, body, { start, end: Math.min(stretch.start, end) }, relaxedLines);
    await hashSlices(hash, body, { start: stretch.start, end: Math.min(stretch.end, end) }, unchanged);
    start = stretch.end;
  }
  if (end > 0) hash.update('\r\n');
  return hash.digest('base64');
}

/** @param form makes whole lines what is hashed */
async function hashSlices(
  hash: Hash,
  body: Buffer,
  { start, end }: Stretch,
  form: (lines: Buffer) => Buffer,
): Promise<void> {
  for (let from = start; from < end; ) {
    if (from > start) await setImmediate();
    // After an LF nothing is pending, neither a space nor half of a CRLF.
    const lineEnd = from + sliceLength < end ? body.indexOf(lineFeed, from + sliceLength) + 1 : 0;
    const next = lineEnd > 0 && lineEnd < end ? lineEnd : end;
    hash.update(form(body.subarray(from, next)));
    from = next;
  }
}

const unchanged = (lines: Buffer) => lines;

/** The offset after the last octet that is neither white space nor part of a CRLF. */
function endOfContent(body: Buffer): number {
  let end = body.length;
  while (end > 0) {
    const last = body[end - 1];
    if (last === space || last === tab) end--;
    else if (last === lineFeed && body[end - 2] === carriageReturn) end -= 2;
    else break;
  }
  return end;
}

const work = new Scratch();

/**
 * The lines without white space at their ends and with single spaces within; valid until the next call. One pass; never longer
 * than the input.
 */
function relaxedLines(lines: Buffer): Buffer {
  const output = work.of(lines.length);
  let length = 0;
  let pendingSpace = false;
  for (let i = 0; i < lines.length; i++) {
    const byte = lines[i] as number;
    if (byte === space || byte === tab) {
      pendingSpace = true;
      continue;
    }
    if (pendingSpace) {
      pendingSpace = false;
      if (byte !== carriageReturn || lines[i + 1] !== lineFeed) output[length++] = space;
    }
    output[length++] = byte;
  }
  return output.subarray(0, length);
}
