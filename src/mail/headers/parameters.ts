import { decoderOf } from '../text/charset.ts';
import { readWords } from '../text/encoded-words.ts';
import { MimeError } from '../text/mime-error.ts';

/** `value; name=value` of Content-Type or Content-Disposition. Value and names are in lower case; each name occurs once. */
export interface Parameterized {
  value: string;
  parameters: Map<string, string>;
}

const mostParameters = 100;

/**
 * Parses a field with parameters (RFC 2045 section 5.1). Joins continued parameters and decodes those with a charset
 * (RFC 2231), and also encoded-words, which are not allowed here but common in file names. Comments are dropped.
 *
 * @param loosely whether to tolerate errors: if a parameter occurs twice the first counts, and octets in an unknown charset are
 *   read as Latin-1
 * @throws {MimeError} when there are too many parameters; unless `loosely`, also when one occurs twice or its charset is unknown
 */
export function parseParameters(text: string, { loosely = false } = {}): Parameterized {
  const [value = '', ...pieces] = splitPieces(text);
  if (pieces.length > mostParameters) throw new MimeError(`a field has more than ${mostParameters} parameters`);
  const raw = new Map<string, string>();
  for (const piece of pieces) {
    const equals = piece.indexOf('=');
    if (equals === -1) continue;
    const name = piece.slice(0, equals).trim().toLowerCase();
    if (raw.has(name) && loosely) continue;
    if (raw.has(name)) throw new MimeError(`the parameter ${name} appears twice`);
    raw.set(name, unquote(piece.slice(equals + 1).trim()));
  }
  const parameters = new Map<string, string>();
  for (const name of new Set([...raw.keys()].map((key) => key.split('*', 1)[0] ?? ''))) {
    parameters.set(name, joinSections(raw, name, loosely) ?? readWords(raw.get(name) ?? ''));
  }
  return { value: value.trim().toLowerCase(), parameters };
}

/** The pieces between semicolons that are not in quotes, without comments. */
function splitPieces(text: string): string[] {
  const pieces: string[] = [];
  let piece = '';
  // Whether the name, or the value after it, has begun.
  let begun = false;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i] ?? '';
    if (quoted) {
      piece += character === '\\' ? character + (text[++i] ?? '') : character;
      quoted = character !== '"';
    } else if (character === '(' && ' ;'.includes(text[i - 1] ?? ' ')) {
      // After anything else it belongs to the value: `name=Invoice(1).pdf`. So does one within a value: `name=Invoice (1).pdf`.
      const end = endOfComments(text, i);
      if (begun && !isBehindValue(text, end)) piece += text.slice(i, end);
      i = end - 1;
    } else if (character === ';') {
      pieces.push(piece);
      piece = '';
      begun = false;
    } else {
      quoted = character === '"';
      piece += character;
      if (character !== ' ') begun = character !== '=';
    }
  }
  return [...pieces, piece];
}

/** The offset after the comment that begins here, and after any that follow it; the text's length if one does not end. */
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

/** Whether the name or the value has ended here. */
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

/** A part of a value that was too long for one parameter, or one that names its charset (RFC 2231). */
interface Section {
  text: string;
  /** Whether the text is percent-encoded. */
  encoded: boolean;
}

/** The sections `name*0`, `name*1*`, ... joined in order, or `name*`; null if the plain `name` must be used instead. */
function joinSections(raw: Map<string, string>, name: string, loosely: boolean): string | null {
  const extended = raw.get(`${name}*`);
  const hasPlain = raw.has(name);
  if (extended !== undefined) return decodeSections([{ text: extended, encoded: true }], loosely, hasPlain);
  const sections: Section[] = [];
  for (;;) {
    const plain = raw.get(`${name}*${sections.length}`);
    const encoded = raw.get(`${name}*${sections.length}*`);
    if (plain === undefined && encoded === undefined) break;
    sections.push({ text: encoded ?? plain ?? '', encoded: encoded !== undefined });
  }
  return sections.length > 0 ? decodeSections(sections, loosely, hasPlain) : null;
}

/** @param hasPlain whether there is a plain parameter too, meant for older clients. @returns null if that must be used instead */
function decodeSections(sections: Section[], loosely: boolean, hasPlain: boolean): string | null {
  const { octets, charset } = joined(sections);
  const text = textIn(charset, octets);
  if (text !== null && !text.includes('\ufffd')) return text;
  if (loosely) return octets.toString('latin1');
  if (hasPlain) return null;
  if (text === null) throw new MimeError(`a parameter is in an unknown charset: ${charset.slice(0, 40)}`);
  return text;
}

/** The charset is in the first section, if that is encoded. */
function joined(sections: Section[]): { octets: Buffer; charset: string } {
  let charset = 'utf-8';
  const octets = sections.map(({ text, encoded }, index) => {
    if (!encoded) return Buffer.from(text);
    const [start = '', named = ''] = (index === 0 && /^([^']*)'[^']*'/.exec(text)) || [];
    if (named !== '') charset = named;
    return percentDecoded(text.slice(start.length));
  });
  return { octets: Buffer.concat(octets), charset };
}

/** Null if the charset is not known and the octets are more than ASCII. */
function textIn(charset: string, octets: Buffer): string | null {
  try {
    return decoderOf(charset).decode(octets);
  } catch {
    return octets.every((octet) => octet < 0x80) ? octets.toString('latin1') : null;
  }
}

function percentDecoded(text: string): Buffer {
  const binary = Buffer.from(text)
    .toString('latin1')
    .replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(binary, 'latin1');
}
