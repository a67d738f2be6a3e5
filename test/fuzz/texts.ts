import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';

/** @throws Error that shows both */
export function equal(found: unknown, wanted: unknown): void {
  if (isDeepStrictEqual(found, wanted)) return;
  throw new Error(`found ${fc.stringify(found)}\nnot   ${fc.stringify(wanted)}`);
}

/** @throws Error with this sentence */
export function hold(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}

/** Unfolds lines, as in RFC 5322 section 2.2.3. */
export const unfold = (field: string) => field.replaceAll(/\r\n(?=[ \t])/g, '').replace(/\r\n$/, '');

export const isOneLine = (text: string) => hold(!/[\r\n\0]/.test(text), 'holds a line end');

/** Splits bytes at these places, which are counted from the last cut and may be anywhere. */
export function cut(bytes: Buffer, lengths: number[]): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const length of lengths) {
    if (at >= bytes.length) break;
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return at < bytes.length ? [...pieces, bytes.subarray(at)] : pieces;
}

/** Lengths of pieces: many of one or two bytes, some long. */
export const lengths = fc.array(fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 400 })), {
  maxLength: 40,
});

/**
 * What a person may write on one line: no control characters, and whole characters. No U+FEFF, because readers take it
 * for a byte order mark, and drop it, if an encoded word begins with it.
 */
export const line = (maxLength: number) =>
  fc
    .oneof(
      fc.string({ unit: 'binary', maxLength }),
      fc.string({ unit: fc.constantFrom(...'ab  =?_"\\(),.;:<>@ü字🚀'), maxLength }),
      fc
        .array(fc.constantFrom('word', 'wörd', '=?utf-8?Q?a?=', 'x'.repeat(200), '<l.b.test>', '  ', ' '), {
          maxLength: Math.max(1, Math.floor(maxLength / 40)),
        })
        .map((words) => words.join(' ')),
    )
    .map((text) =>
      text
        .replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]/g, '')
        .slice(0, maxLength)
        .toWellFormed(),
    );
