import { cutText, visible } from '../../mail/text/characters.ts';

/** White space, and then a string, a number, a word or a mark, if one of them is next. */
const nextPart =
  /[ \t\n\r]*("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|[{}[\],:])?/y;

/** As much of a string as is right. */
const stringStart = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;

/** What may come next, in the words of the message. */
const expectations = {
  value: 'a value',
  valueOrEnd: 'a value or ]',
  name: 'a name in double quotes',
  nameOrEnd: 'a name in double quotes or }',
  colon: 'a colon',
  commaOrEnd: 'a comma or ',
  nothing: 'nothing more',
};

type Next = keyof typeof expectations;

/**
 * Where a text stops being JSON and what is wrong there, such as `line 1, column 8: expected a name in double quotes or }, found
 * 'from'`. The words of `JSON.parse` name no position for some faults, and repeat the text around others.
 *
 * @returns null if the text is JSON
 */
export function jsonFault(text: string): string | null {
  const ends: string[] = [];
  let next: Next = 'value';
  for (let at = 0; ; ) {
    nextPart.lastIndex = at;
    const [all = '', part] = nextPart.exec(text) ?? [];
    at += all.length;
    if (part === undefined && next === 'nothing' && at === text.length) return null;
    const after: Next | null = part === undefined ? null : expectedAfter(part, next, ends);
    if (after === null) return faultAt(text, at - (part?.length ?? 0), next, ends);
    next = after;
  }
}

/** @param ends the brackets that are still to come, the next one last: those of `part` are added or taken away */
function expectedAfter(part: string, next: Next, ends: string[]): Next | null {
  const afterValue = () => (ends.length === 0 ? 'nothing' : 'commaOrEnd');
  const mayEnd = next === 'valueOrEnd' || next === 'nameOrEnd' || next === 'commaOrEnd';
  if (mayEnd && part === ends.at(-1)) {
    ends.pop();
    return afterValue();
  }
  if (next === 'commaOrEnd') {
    if (part !== ',') return null;
    return ends.at(-1) === '}' ? 'name' : 'value';
  }
  if (next === 'colon') return part === ':' ? 'value' : null;
  if (next === 'name' || next === 'nameOrEnd') return part.startsWith('"') ? 'colon' : null;
  if (next === 'nothing' || /^[}\],:]$/.test(part)) return null;
  if (part !== '{' && part !== '[') return afterValue();
  ends.push(part === '{' ? '}' : ']');
  return part === '{' ? 'nameOrEnd' : 'valueOrEnd';
}

function faultAt(text: string, at: number, next: Next, ends: string[]): string {
  const takesString = next !== 'colon' && next !== 'commaOrEnd' && next !== 'nothing';
  if (takesString && text[at] === '"') return faultInString(text, at);
  const expected = `expected ${expectations[next]}${next === 'commaOrEnd' ? ends.at(-1) : ''}`;
  const isAfterString = next === 'commaOrEnd' && text[at - 1] === '"' && at < text.length;
  return placed(
    text,
    at,
    `${expected}, found ${foundAt(text, at)}${isAfterString ? ' (a " in a string is written \\")' : ''}`,
  );
}

function faultInString(text: string, start: number): string {
  stringStart.lastIndex = start;
  const at = start + (stringStart.exec(text)?.[0].length ?? 0);
  const character = text[at];
  if (character === undefined) return placed(text, start, 'this string has no closing "');
  if (character === '\\') return placed(text, at, 'a \\ in a string is written \\\\');
  if (character === '\n' || character === '\r') return placed(text, at, 'a line break in a string is written \\n');
  if (character === '\t') return placed(text, at, 'a tab in a string is written \\t');
  return placed(text, at, 'a control character in a string is written \\u and four digits');
}

/** Enough to recognize the place. */
const mostShown = 20;

function foundAt(text: string, at: number): string {
  const [word = ''] = /^(?:[^\s"{}[\],:]+|.)/su.exec(text.slice(at, at + mostShown)) ?? [];
  return word === '' ? 'the end' : visible(cutText(word, mostShown));
}

function placed(text: string, at: number, words: string): string {
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return `line ${line}, column ${at - before.lastIndexOf('\n')}: ${words}`;
}
