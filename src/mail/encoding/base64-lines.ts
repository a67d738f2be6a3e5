import { setImmediate } from 'node:timers/promises';

/** Bytes per line of 76 characters (RFC 2045 section 6.8). */
const lineBytes = 57;
const lineLength = 76;

/** Bytes encoded at a time, in whole lines; in between, the event loop runs. */
const sliceBytes = lineBytes * 4_096;

/** The length in octets of the base64 of so many bytes, in lines with a CRLF between them and none after the last. */
export function base64Length(bytes: number): number {
  const characters = 4 * Math.ceil(bytes / 3);
  return characters + 2 * Math.max(0, Math.ceil(characters / lineLength) - 1);
}

/** Writes the base64 of the content into `output`, which must have room for it. @returns the offset after it */
export async function writeBase64(content: Buffer, output: Buffer, offset: number): Promise<number> {
  let at = offset;
  for (let start = 0; start < content.length; start += sliceBytes) {
    if (start > 0) {
      await setImmediate();
      at = endLine(output, at);
    }
    at = writeSlice(content.subarray(start, start + sliceBytes), output, at);
  }
  return at;
}

/** The base64 of the content in lines, as `writeBase64` writes it, without a pause. */
export function encodeBase64(content: Buffer): Buffer {
  const output = Buffer.allocUnsafe(base64Length(content.length));
  writeSlice(content, output, 0);
  return output;
}

/**
 * Node cannot write base64 in lines. This writes all characters first, far enough back to leave room for the line ends, and
 * then moves each line into place.
 */
function writeSlice(slice: Buffer, output: Buffer, offset: number): number {
  const end = offset + base64Length(slice.length);
  const text = slice.toString('base64');
  let from = end - text.length;
  output.write(text, from, 'latin1');
  let at = offset;
  for (; from + lineLength < end; from += lineLength) {
    output.copyWithin(at, from, from + lineLength);
    at = endLine(output, at + lineLength);
  }
  return end;
}

function endLine(output: Buffer, at: number): number {
  output[at] = 0x0d;
  output[at + 1] = 0x0a;
  return at + 2;
}
