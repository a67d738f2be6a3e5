/// <reference path="./punycode.d.ts" />
import punycode from 'punycode.js';

/**
 * What a label may consist of to be shown in its own letters: one script, or those that Japanese, Chinese or Korean is
 * written in, with digits. A mixture, such as one foreign letter among Latin ones, may be made to look like another name. Of
 * the Latin script these are the letters of living languages, without phonetic ones that look like others.
 */
const oneScript = [
  /^[a-z\d\u00df-\u00f6\u00f8-\u0137\u0139-\u0148\u014a-\u017e\u01a1\u01b0\u01ce-\u01dc\u0219\u021b\u1ea1-\u1ef9-]+$/u,
  /^[\p{scx=Cyrillic}\d-]+$/u,
  /^[\p{scx=Greek}\d-]+$/u,
  /^[\p{scx=Armenian}\d-]+$/u,
  /^[\p{scx=Georgian}\d-]+$/u,
  /^[\p{scx=Arabic}\d-]+$/u,
  /^[\p{scx=Hebrew}\d-]+$/u,
  /^[\p{scx=Devanagari}\d-]+$/u,
  /^[\p{scx=Bengali}\d-]+$/u,
  /^[\p{scx=Gurmukhi}\d-]+$/u,
  /^[\p{scx=Gujarati}\d-]+$/u,
  /^[\p{scx=Tamil}\d-]+$/u,
  /^[\p{scx=Telugu}\d-]+$/u,
  /^[\p{scx=Kannada}\d-]+$/u,
  /^[\p{scx=Malayalam}\d-]+$/u,
  /^[\p{scx=Sinhala}\d-]+$/u,
  /^[\p{scx=Thai}\d-]+$/u,
  /^[\p{scx=Lao}\d-]+$/u,
  /^[\p{scx=Khmer}\d-]+$/u,
  /^[\p{scx=Myanmar}\d-]+$/u,
  /^[\p{scx=Ethiopic}\d-]+$/u,
  /^[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\d-]+$/u,
  /^[\p{scx=Han}\p{scx=Bopomofo}\d-]+$/u,
  /^[\p{scx=Han}\p{scx=Hangul}\d-]+$/u,
];

/** Nothing that is not seen, or that looks like what separates the parts of an address. */
const visible = /^[\p{L}\p{M}\p{Nd}-]+$/u;

/** Of these letters alone whole words can be written that look Latin, such as “раураl”. */
const latinLooking = /^[асԁеԍһіюјӏорԗԛѕԝхуъьҽпгѵѡαικνρυωηοτագզէլհյոսօდიოყძხ\d-]+$/u;

const isAscii = (text: string) => !/\P{ASCII}/u.test(text);

/** Null: it has none, or is better seen as it is. */
function ownLettersOf(host: string): string | null {
  try {
    const labels = host
      .toLowerCase()
      .split('.')
      .map((label) => (label.startsWith('xn--') ? punycode.decode(label.slice(4)) : label));
    const foreign = labels.filter((label) => !isAscii(label));
    const mayDeceive = (label: string) => !visible.test(label) || !oneScript.some((script) => script.test(label));
    if (foreign.length === 0 || foreign.some(mayDeceive)) return null;
    // Below a top-level domain in its own letters nobody takes such a name for a Latin one.
    if (isAscii(labels.at(-1) ?? '') && foreign.some((label) => latinLooking.test(label))) return null;
    const shown = labels.join('.');
    // Other forms of the same letters have another name, or none.
    return new URL(`http://${shown}`).hostname === host.toLowerCase() ? shown : null;
  } catch {
    return null;
  }
}

const known = new Map<string, string>();
const mostKnown = 2_000;

/**
 * The text with the internationalized domains in it as their owners write them: `Ann <a@xn--bcher-kva.example>` as
 * `Ann <a@bücher.example>`. Those that could be taken for another domain stay as they are. Only for what people read: show the
 * text itself as the title, and never send or copy this.
 */
export function inOwnLetters(text: string): string {
  if (!/xn--/i.test(text)) return text;
  const before = known.get(text);
  if (before !== undefined) return before;
  // What stands before an @ is a name in a mailbox, not a host.
  const shown = text.replaceAll(/[\w-]+(?:\.[\w-]+)*@?/g, (host) => ownLettersOf(host) ?? host);
  if (known.size >= mostKnown) known.clear();
  known.set(text, shown);
  return shown;
}
