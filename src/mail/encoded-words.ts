import { decodeWords } from 'postal-mime';

/**
 * Text with its encoded-words decoded (RFC 2047). Line ends and tabs that were encoded along with it are white space, as they are in
 * a header that is folded: `echo Größe | base64` ends with one. At either end they say nothing.
 */
export function readWords(text: string): string {
  const read = decodeWords(text);
  if (!/[\t\r\n]/.test(read)) return read;
  const spaced = read.replaceAll(/[\t\r\n]+/g, ' ');
  return spaced.slice(/^[\t\r\n]/.test(read) ? 1 : 0, /[\t\r\n]$/.test(read) ? -1 : undefined);
}
