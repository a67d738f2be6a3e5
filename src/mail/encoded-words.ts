import { decodeWords } from 'postal-mime';

/**
 * Text with its encoded-words decoded (RFC 2047). Tabs that were encoded along with it are spaces, as they are in a header, and line
 * ends at either end of it say nothing: `echo Größe | base64` makes one. Any other control character stays.
 */
export function readWords(text: string): string {
  const read = decodeWords(text).replaceAll('\t', ' ');
  if (!/[\r\n]/.test(read)) return read;
  let start = 0;
  let end = read.length;
  while (isLineEnd(read[start])) start++;
  while (end > start && isLineEnd(read[end - 1])) end--;
  return read.slice(start, end);
}

const isLineEnd = (character: string | undefined) => character === '\r' || character === '\n';
