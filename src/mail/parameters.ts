import { decoderOf } from './charset.ts';
import { readWords } from './encoded-words.ts';
import { MimeError } from './mime-error.ts';

/** `value; name=value` of Content-Type or Content-Disposition. Value and names are in lower case, each name is there once. */
export interface Parameterised {
  value: string;
  parameters: Map<string, string>;
}

const mostParameters = 100;

/**
 * Takes a field apart that has parameters (RFC 2045 section 5.1), joins continued ones and decodes those with a charset
 * (RFC 2231), and encoded-words where they should not be, as many clients write names of files. Comments are dropped.
 *
 * @param loosely whether what is wrong is got over: of two parameters the first counts, and the octets of a charset that is not
 *   known are Latin-1
 * @throws {MimeError} unless `loosely`, when a parameter is there twice, or in a charset that is not known; when there are too many
 */
export function parseParameters(text: string, loosely = false): Parameterised {
  const [value = '', ...pieces] = split(text);
  if (pieces.length > mostParameters) throw new MimeError(`a field has more than ${mostParameters} parameters`);
  const raw = new Map<string, string>();
  for (const piece of pieces) {
    const equals = piece.indexOf('=');
    if (equals === -1) continue;
    const name = piece.slice(0, equals).trim().toLowerCase();
    if (raw.has(name) && loosely) continue;
    if (raw.has(name)) throw new MimeError(`the parameter ${name} is there twice`);
    raw.set(name, unquote(piece.slice(equals + 1).trim()));
  }
  const parameters = new Map<string, string>();
  for (const name of new Set([...raw.keys()].map((key) => key.split('*', 1)[0] ?? ''))) {
    parameters.set(name, joined(raw, name, loosely) ?? readWords(raw.get(name) ?? ''));
  }
  return { value: value.trim().toLowerCase(), parameters };
}

/** The pieces between semicolons, those inside of quotes apart, without comments. */
function split(text: string): string[] {
  const pieces: string[] = [];
  let piece = '';
  // Of the piece: to look into what is still being put together takes as long as it is.
  let last = '';
  let begun = false;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i] ?? '';
    const escaped = character === '\\' && quoted;
    const taken = escaped ? character + (text[++i] ?? '') : character;
    if (escaped || quoted) {
      [piece, last] = [piece + taken, taken.slice(-1)];
      if (taken === '"') quoted = false;
    } else if (character === '(' && (last === '' || last === ' ')) {
      // Behind anything else it belongs to the value: `name=Invoice(1).pdf`. So does what is within one: `name=Invoice (1).pdf`.
      const end = endOfComments(text, i);
      if (begun && !isBehindValue(text, end)) [piece, last] = [piece + text.slice(i, end), ')'];
      i = end - 1;
    } else if (character === ';') {
      pieces.push(piece);
      [piece, last, begun] = ['', '', false];
    } else {
      quoted = character === '"';
      [piece, last] = [piece + character, character];
      if (character !== ' ') begun = character !== '=';
    }
  }
  return [...pieces, piece];
}

/** The offset behind the comment that begins at the parenthesis here, and those that follow it; the length of the text where one does not end. */
function endOfComments(text: string, start: number): number {
  let depth = 0;
  let end = text.length;
  for (let i = start; i < text.length; i++) {
    if (text[i] === '\\' && depth > 0) i++;
    else if (text[i] === '(') depth++;
    else if (depth === 0 && text[i] !== ' ') return end;
    else if (text[i] === ')' && --depth === 0) end = i + 1;
  }
  return depth === 0 ? end : text.length;
}

/** Whether nothing more of a name or a value comes here. */
function isBehindValue(text: string, from: number): boolean {
  let at = from;
  while (text[at] === ' ') at++;
  return at >= text.length || ';='.includes(text[at] ?? '');
}

function unquote(value: string): string {
  if (!value.startsWith('"')) return value;
  const end = /^"(?:[^"\\]|\\.)*/.exec(value)?.[0] ?? '"';
  return end.slice(1).replaceAll(/\\(.)/g, '$1');
}

/** The sections `name*0`, `name*1*`, ... in order, or `name*`; null when the parameter is not written so. */
function joined(raw: Map<string, string>, name: string, loosely: boolean): string | null {
  const extended = raw.get(`${name}*`);
  const plainly = raw.get(name);
  if (extended !== undefined) return decode([{ text: extended, encoded: true }], loosely, plainly);
  const sections: { text: string; encoded: boolean }[] = [];
  for (;;) {
    const plain = raw.get(`${name}*${sections.length}`);
    const encoded = raw.get(`${name}*${sections.length}*`);
    if (plain === undefined && encoded === undefined) break;
    sections.push({ text: encoded ?? plain ?? '', encoded: encoded !== undefined });
  }
  return sections.length > 0 ? decode(sections, loosely, plainly) : null;
}

/** @param plainly what is there for older clients. @returns null where that has to do */
function decode(
  sections: { text: string; encoded: boolean }[],
  loosely: boolean,
  plainly: string | undefined,
): string | null {
  let charset = 'utf-8';
  const bytes = sections.map(({ text, encoded }, index) => {
    if (!encoded) return Buffer.from(text);
    const start = index === 0 ? /^([^']*)'[^']*'/.exec(text) : null;
    if (start?.[1]) charset = start[1];
    return percentDecoded(text.slice(start?.[0].length ?? 0));
  });
  const whole = Buffer.concat(bytes);
  let text: string;
  try {
    text = decoderOf(charset).decode(whole);
  } catch {
    if (loosely || whole.every((byte) => byte < 0x80)) return whole.toString('latin1');
    if (plainly !== undefined) return null;
    throw new MimeError(`a parameter is in a charset that is not known: ${charset.slice(0, 40)}`);
  }
  if (!text.includes('\ufffd')) return text;
  if (loosely) return whole.toString('latin1');
  return plainly === undefined ? text : null;
}

function percentDecoded(text: string): Buffer {
  const binary = Buffer.from(text)
    .toString('latin1')
    .replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(binary, 'latin1');
}
