/**
 * Gives the memory of a buffer back at once. Otherwise V8 counts it until it is collected, and if much of that is new, V8
 * scans its whole heap first.
 *
 * @param buffer nobody may read it any more, not even a socket write under way. One that shares its memory with others, as
 *   small ones do, is left to V8
 */
export function freeNow(buffer: Buffer): void {
  if (buffer.length === buffer.buffer.byteLength) (buffer.buffer as ArrayBuffer).transfer(0);
}
