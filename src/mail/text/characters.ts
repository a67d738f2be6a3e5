// C0, DEL and C1, then U+2028 and U+2029, which some mail programs treat as line breaks.
const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
// Embeddings, overrides and isolates. The plain marks U+200E and U+200F are allowed: Hebrew and Arabic names need them.
const bidi = /[\u202a-\u202e\u2066-\u2069]/;
const invisible = /[\p{Cf}\p{Zs}]/u;

/**
 * Why this text may not be used in a header, or null when it may: it holds a control character (C0, C1, DEL, U+2028, U+2029;
 * this includes tab and line breaks) or a lone surrogate.
 */
export function refuseText(text: string): string | null {
  if (controls.test(text)) return 'contains control characters';
  if (!text.isWellFormed()) return 'is not well-formed Unicode';
  return null;
}

/** True when the text holds a control that reorders what follows it, as in a file name that reads `exe.jpg` backwards. */
export function holdsBidiControl(text: string): boolean {
  return bidi.test(text);
}

/** True when the text contains an invisible character: zero-width, a format character, or any kind of space. */
export function holdsInvisible(text: string): boolean {
  return invisible.test(text);
}

/**
 * A client's text as a message may repeat it: whatever cannot be seen, or moves what is around it, is `?`. These are controls,
 * format characters, lone surrogates, and spaces other than the usual one.
 */
export const visible = (text: string): string => text.replaceAll(/(?! )[\p{C}\p{Z}]/gu, '?');

/** The first `most` UTF-16 units of a text, without half a surrogate pair at the end: PostgreSQL rejects JSON with one. */
export function cutText(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, most).replace(/\p{Surrogate}$/u, '');
}

/** With a capital letter: what others found, as the beginning of a sentence. */
export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Without spaces at both ends. `trim` would remove U+FEFF and U+00A0 too, and a regular expression is quadratic on spaces. */
export function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === ' ') start++;
  while (end > start && text[end - 1] === ' ') end--;
  return text.slice(start, end);
}
