/**
 * Gives the memory of a buffer back at once. Otherwise V8 counts it until it has come to it, and where much of that is new
 * it looks through its whole heap first.
 *
 * @param buffer nobody reads it any more, no write to a socket that is under way either. One that shares its memory with others, as small
 *   ones do, is left to V8
 */
export function freeNow(buffer: Buffer): void {
  if (buffer.length === buffer.buffer.byteLength) (buffer.buffer as ArrayBuffer).transfer(0);
}
