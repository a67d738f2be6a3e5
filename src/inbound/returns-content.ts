import type { SMTPServerDataStream } from 'smtp-server';
import { limits } from '../core/accounts/send-limits.ts';
import { Shortened } from '../mail/returns/shortened.ts';
import { grouped } from '../numbers.ts';
import { Refusal, tooLarge } from './refusal.ts';

const MB = 1024 * 1024;
/**
 * Many servers return the whole message. Ours has at most all files and both bodies at three octets per character, as base64 in
 * lines of 76, plus a megabyte each for our header and for the text of the bounce around it.
 */
export const largestReturn = Math.ceil((limits.attachmentsBytes + 2 * 3 * limits.body) / 57) * 78 + 2 * MB;

/**
 * Reads the content of one DATA to its end, even if it will be refused, because the client reads no reply before that. At most
 * a megabyte is kept and the rest is counted and dropped, so 200 connections hold at most 200 MB.
 *
 * @returns its beginning, without the ends of long parts
 * @throws Refusal 552, or 421 when the client has left
 */
export async function readBeginning(stream: SMTPServerDataStream): Promise<Buffer> {
  const beginning = new Shortened();
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      beginning.add(chunk);
      size += chunk.length;
    }
  } catch {
    throw new Refusal(421, '4.4.2', 'the connection was lost before the final dot');
  }
  if (size > largestReturn) throw tooLarge(`a message must have at most ${grouped(largestReturn)} octets`);
  return beginning.octets;
}
