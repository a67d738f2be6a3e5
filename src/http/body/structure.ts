import { randomInt } from 'node:crypto';
import { grouped } from '../../numbers.ts';

/** Deeper nesting than any honest request has. */
const deepest = 32;

/** More distinct names than any honest batch has: the parser takes up to two microseconds for each. */
const mostNames = 10_000;

/** How many bytes a value may take on average in addition to its text: its name, punctuation and indentation. */
const bytesForValue = 40;

const quoteByte = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const openingBrace = 0x7b;

/** The position of an array that is a member of the outermost object: the inside of its brackets, and its commas. */
export interface List {
  start: number;
  commas: number[];
  /** The offset of its closing bracket; null if it has none. */
  end: number | null;
}

/** The structure of JSON outside of strings: why it is not parsed, or the arrays in its outermost object. */
export type Structure = { refusal: string } | { lists: List[] };

/**
 * Checks JSON before it is parsed, because parsing 30 MB of brackets stops the process for seconds. It makes one pass over the
 * bytes and skips strings except names. Text that is not JSON may pass.
 *
 * @param mostValues how many members and elements it may have, including objects and arrays
 */
export function readStructure(bytes: Buffer, mostValues: number): Structure {
  const lists: List[] = [];
  const refusal = refuse(bytes, mostValues, lists);
  return refusal === null ? { lists } : { refusal };
}

function refuse(bytes: Buffer, mostValues: number, lists: List[]): string | null {
  const inObject = new Uint8Array(deepest + 1);
  const names = new Names();
  const mostWalked = mostValues * bytesForValue;
  let depth = 0;
  let values = 0;
  let walked = 0;
  let nameNext = false;
  let list: List | undefined;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    walked += 1;
    // Clears the bit in which `[` and `{`, and `]` and `}`, differ.
    const bracket = byte & ~0x20;
    if (byte === quoteByte) {
      const end = endOfString(bytes, at);
      if (nameNext) {
        walked += end - at;
        if (walked <= mostWalked) names.add(bytes, at + 1, end);
        if (names.count > mostNames) return `the body contains more than ${grouped(mostNames)} different names`;
      }
      nameNext = false;
      at = end;
    } else if (byte === comma) {
      values += 1;
      nameNext = inObject[depth] === 1;
      if (depth === 2) list?.commas.push(at);
    } else if (bracket === 0x5b) {
      depth += 1;
      values += 1;
      if (depth > deepest) return `the body is nested deeper than ${deepest} levels`;
      nameNext = byte === openingBrace;
      inObject[depth] = nameNext ? 1 : 0;
      if (depth === 2 && !nameNext && inObject[1] === 1) {
        list = { start: at + 1, commas: [], end: null };
        lists.push(list);
      }
    } else if (bracket === 0x5d) {
      if (depth === 2 && list) {
        list.end = at;
        list = undefined;
      }
      depth -= 1;
    }
    if (values > mostValues) return `the body contains more than ${grouped(mostValues)} values`;
    if (walked > mostWalked)
      return `the body contains more than ${grouped(mostWalked)} bytes of names, numbers and white space`;
  }
  return null;
}

/** A native search finds the end of a long string without escapes, such as an attachment; other strings are walked through. */
function endOfString(bytes: Buffer, start: number): number {
  const quote = bytes.indexOf(quoteByte, start + 1);
  if (quote === -1) return bytes.length;
  if (bytes[quote - 1] !== backslash) return quote;
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== quoteByte) at += bytes[at] === backslash ? 2 : 1;
  return at;
}

// Secret: a client that knew it could choose names that collide.
const seed = randomInt(2 ** 32);
const slots = 2 ** 18;

/** Counts distinct names in a bitmap, to within a few percent. */
class Names {
  count = 0;
  readonly #seen = new Uint8Array(slots / 8);

  add(bytes: Buffer, start: number, end: number): void {
    let hash = seed;
    for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
    // The low bits of a product are poorly mixed.
    const slot = (hash ^ (hash >>> 14)) & (slots - 1);
    const bit = 1 << (slot & 7);
    if ((this.#seen[slot >> 3] as number) & bit) return;
    this.#seen[slot >> 3] = (this.#seen[slot >> 3] as number) | bit;
    this.count += 1;
  }
}
