import { transcode } from 'node:buffer';
import { freeNow } from '../../process/free-now.ts';
import { Scratch } from './scratch.ts';

const encoder = new TextEncoder();

/** From this many characters on, the detour through UTF-16 is faster. */
const long = 4_096;

const units = new Scratch();

/**
 * Writes the UTF-8 of a text to the beginning of `into`, which must have room for three octets per UTF-16 unit. A lone
 * surrogate becomes U+FFFD.
 *
 * @returns how many octets were written
 */
export function writeUtf8(text: string, into: Buffer): number {
  if (text.length < long) return encoder.encodeInto(text, into).written;
  const room = units.of(2 * text.length);
  const utf16 = room.subarray(0, room.write(text, 'utf16le'));
  try {
    // If any character is beyond Latin-1, this takes a third of the encoder's time.
    const utf8 = transcode(utf16, 'utf16le', 'utf8');
    const size = utf8.copy(into);
    freeNow(utf8);
    return size;
  } catch {
    return encoder.encodeInto(text, into).written;
  }
}
