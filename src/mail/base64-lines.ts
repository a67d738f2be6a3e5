import { setImmediate } from 'node:timers/promises';

/** Bytes that make one line of 76 characters (RFC 2045 section 6.8). */
const lineBytes = 57;
const lineLength = 76;

/** What is encoded in one go, in whole lines; in between, others get their turn. */
const sliceBytes = lineBytes * 4_096;

/** How many octets the base64 of so many bytes takes: in lines, with a CRLF between them and none behind the last. */
export function base64Length(bytes: number): number {
  const characters = 4 * Math.ceil(bytes / 3);
  return characters + 2 * Math.max(0, Math.ceil(characters / lineLength) - 1);
}

/** Writes the base64 of the content into `output`, where there is room for it. @returns the offset behind it */
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

/** All characters first, as far behind as line ends need, and then each line to its place: Node knows no base64 with lines. */
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
