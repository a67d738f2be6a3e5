const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/**
 * Watches the content of a message as it arrives, in any segmentation, for what no message holds (RFC 5321 sections 2.3.8
 * and 4.5.2) and what SMTP smuggling is made of: a CR or an LF on its own, or a NUL.
 */
export class LineEnds {
  /** What was found first, null while there is nothing. */
  defect: string | null = null;
  #afterCr = false;

  feed(chunk: Buffer): void {
    for (let i = 0; i < chunk.length && this.defect === null; i++) {
      const byte = chunk[i];
      if (this.#afterCr !== (byte === lineFeed)) {
        this.defect = this.#afterCr
          ? 'a CR that is not followed by LF; lines end with both'
          : 'an LF that does not follow a CR; lines end with both';
      } else if (byte === 0) this.defect = 'a NUL';
      this.#afterCr = byte === carriageReturn;
    }
  }
}

/** Every CR, LF and CRLF as CRLF: a lone one is the way to smuggle a second message (SMTP smuggling). */
export function withCrlf(text: string): string {
  return text.includes('\r') ? text.replaceAll(/\r\n|\r|\n/g, '\r\n') : text.replaceAll('\n', '\r\n');
}
