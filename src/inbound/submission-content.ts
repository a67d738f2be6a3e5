import type { SMTPServerDataStream } from 'smtp-server';
import { LineEnds } from '../mail/encoding/line-ends.ts';
import { grouped } from '../numbers.ts';
import { MemoryRoom } from '../pace/memory-room.ts';
import { badContent, notNow, Refusal, tooLarge } from './refusal.ts';

/** 20 MB of attachments as base64, both bodies, and the MIME overhead. */
export const largestSubmission = 40 * 1024 * 1024;

/** Limits the memory for messages being received and accepted on a node. Each message is also in memory decoded, uncounted. */
export class ContentRoom {
  readonly #memory = new MemoryRoom();

  /**
   * Reads the content of one DATA to its end, even if it will be refused, because the client reads no reply before that.
   * Refused content is not kept.
   *
   * @param use runs while the memory is reserved
   * @throws Refusal 552, 554 or 451, or 421 when the client has left
   */
  async read<T>(accountId: string, stream: SMTPServerDataStream, use: (message: Buffer) => Promise<T>): Promise<T> {
    const lineEnds = new LineEnds();
    let chunks: Buffer[] = [];
    let size = 0;
    let refusal: Refusal | null = null;
    try {
      for await (const chunk of whole(stream)) {
        if (refusal) continue;
        size += chunk.length;
        this.#memory.take(accountId, chunk.length);
        lineEnds.feed(chunk);
        refusal = this.#refusal(accountId, size, lineEnds.defect);
        if (refusal) {
          this.#memory.take(accountId, -size);
          [chunks, size] = [[], 0];
        } else chunks.push(chunk);
      }
      if (refusal) throw refusal;
      return await use(Buffer.concat(chunks));
    } finally {
      this.#memory.take(accountId, -size);
    }
  }

  #refusal(accountId: string, size: number, defect: string | null): Refusal | null {
    if (size > largestSubmission)
      return tooLarge(
        `the message must have at most ${largestSubmission / 1024 / 1024} MB (${grouped(largestSubmission)} octets)`,
      );
    if (!this.#memory.isEnoughFor(accountId)) return notNow('too many large messages in progress, try again');
    return defect ? badContent(`the message contains ${defect}`) : null;
  }
}

async function* whole(stream: SMTPServerDataStream): AsyncGenerator<Buffer> {
  try {
    yield* stream as AsyncIterable<Buffer>;
  } catch {
    // The client is gone and will not read this; it is for the log.
    throw new Refusal(421, '4.4.2', 'the connection was lost before the final dot');
  }
}
