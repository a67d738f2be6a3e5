import type { SMTPServerDataStream } from 'smtp-server';
import { limits } from '../core/accounts/send-limits.ts';
import { grouped } from '../numbers.ts';
import { Refusal, tooLarge } from './refusal.ts';

const MB = 1024 * 1024;
/**
 * Many servers return the whole message. Ours has at most all files and both bodies at three octets per character, as base64 in
 * lines of 76, plus a megabyte each for our header and for the text of the bounce around it.
 */
export const largestMessage = Math.ceil((limits.attachmentsBytes + 2 * 3 * limits.body) / 57) * 78 + 2 * MB;
/** Only the beginning is kept, where reports are. The rest is counted and dropped, so 200 connections hold at most 200 MB. */
const mostKept = MB;

/**
 * Reads the content of one DATA to its end, even if it will be refused, because the client reads no reply before that.
 *
 * @returns its beginning
 * @throws Refusal 552, or 421 when the client has left
 */
export async function readBeginning(stream: SMTPServerDataStream): Promise<Buffer> {
  const beginning = new Beginning();
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      beginning.add(chunk);
      size += chunk.length;
    }
  } catch {
    throw new Refusal(421, '4.4.2', 'the connection was lost before the final dot');
  }
  if (size > largestMessage) throw tooLarge(`a message must have at most ${grouped(largestMessage)} octets`);
  return beginning.octets;
}

/** The first octets of a stream, copied: kept as chunks, a stream of one-octet chunks would take a hundred times the memory. */
class Beginning {
  #buffer = Buffer.alloc(0);
  #length = 0;

  add(chunk: Buffer): void {
    const length = Math.min(this.#length + chunk.length, mostKept);
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(length, 2 * this.#buffer.length), mostKept));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#length += chunk.copy(this.#buffer, this.#length, 0, length - this.#length);
  }

  get octets(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}
