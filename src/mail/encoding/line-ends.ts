const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/**
 * Checks the content of a message as it arrives, in chunks of any size, for octets that no message may contain (RFC 5321
 * sections 2.3.8 and 4.5.2) and that SMTP smuggling uses: a lone CR or LF, or a NUL.
 */
export class LineEnds {
  /** The first defect found, null if there is none yet. */
  defect: string | null = null;
  #afterCr = false;

  feed(chunk: Buffer): void {
    for (let i = 0; i < chunk.length && this.defect === null; i++) {
      const byte = chunk[i];
      if (this.#afterCr !== (byte === lineFeed)) {
        this.defect = this.#afterCr
          ? 'a CR that is not followed by LF; lines must end with both'
          : 'an LF that does not follow a CR; lines must end with both';
      } else if (byte === 0) this.defect = 'a NUL';
      this.#afterCr = byte === carriageReturn;
    }
  }
}

/** Of millions of line ends in a text, replacing each takes seconds and hundreds of megabytes. */
const mostReplaced = 128 * 1024;

/**
 * Turns every CR, LF and CRLF into CRLF: a lone CR or LF could smuggle in a second message (SMTP smuggling). In a text of more
 * than 128 k characters a lone surrogate becomes U+FFFD, as in any text when it is encoded.
 */
export function withCrlf(text: string): string {
  if (text.length > mostReplaced) return inBytes(text);
  return text.includes('\r') ? text.replaceAll(/\r\n|\r|\n/g, '\r\n') : text.replaceAll('\n', '\r\n');
}

function inBytes(text: string): string {
  const bytes = Buffer.from(text);
  const lines = Buffer.allocUnsafe(2 * bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === carriageReturn || byte === lineFeed) {
      if (byte === carriageReturn && bytes[i + 1] === lineFeed) i += 1;
      lines[length++] = carriageReturn;
      lines[length++] = lineFeed;
    } else lines[length++] = byte;
  }
  return lines.toString('utf8', 0, length);
}
