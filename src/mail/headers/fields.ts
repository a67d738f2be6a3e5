import { type Mailbox, quote } from '../address/address.ts';
import { parseAddressList } from '../address/address-list.ts';
import { holdsMailboxes, holdsUrlsOrIds, inAngles, longestRun, needsEncoding, refuseHeader } from './headers.ts';

// The longest line: RFC 5322 section 2.1.1 asks for 78 columns, RFC 2047 section 2 for 76 in lines with encoded-words.
const columns = 76;

/** The longest part of a display name that is written on one line, in characters. */
const longestInLine = 60;

/**
 * A field that a client has set. In a field of addresses, ids or URLs, white space around the value is dropped, and only text
 * that a person reads gets encoded-words (RFC 2047 section 5): names and words, not quotes, URLs, ids and addresses.
 */
export function writeOther(name: string, value: string): string {
  const isStructured = holdsUrlsOrIds(name) || holdsMailboxes(name);
  // A value that an older release accepted and that has waited since is written as it was then. Its length is not checked here.
  if (!isStructured || refuseHeader(name, value, value.length) !== null)
    return writeText(name, isStructured ? value.trim() : value, false);
  const read = holdsMailboxes(name) ? value : value.replaceAll(inAngles, ' ');
  if (!needsEncoding(read)) return writeField(name, runsOf(value));
  return holdsMailboxes(name)
    ? writeAddresses(name, parseAddressList(name, value).mailboxes)
    : writeField(name, wordsAroundAngles(value, columns - name.length - 2));
}

/** Keeps the text in `<...>` as it is, and encodes the text around it if needed. */
function wordsAroundAngles(value: string, room: number): string[] {
  const words: string[] = [];
  const around = value.split(inAngles);
  const within = value.match(inAngles) ?? [];
  for (const [index, text] of around.entries()) {
    const separator = /^[ ,]*/.exec(text)?.[0] ?? '';
    // A comma stays with the word before it.
    words.push(`${words.pop() ?? ''}${separator.replaceAll(' ', '')}`);
    words.push(...phraseOf(text.slice(separator.length), index === 0 ? room : columns - 1));
    words.push(...runsOf(within[index] ?? ''));
  }
  return words.filter((word) => word !== '');
}

/** If the text has quotes, all of it is encoded, without them: a quoted-string may not contain encoded-words. */
function phraseOf(text: string, room: number): string[] {
  const words = runsOf(text);
  const first = words.findIndex(needsEncoding);
  if (first === -1) return words;
  const last = words.findLastIndex(needsEncoding) + 1;
  if (text.includes('"'))
    return encodeWords(
      text.trim().replaceAll(/\\(.)|"/g, (_, escaped: string | undefined) => escaped ?? ''),
      room,
    );
  return [...words.slice(0, first), ...encodeWords(words.slice(first, last).join(' '), room), ...words.slice(last)];
}

/** Between addresses, ids and URLs, any number of spaces counts as one. */
const runsOf = (text: string) => text.trim().split(/ +/);

/** Folds only at a space between two other characters: no line may consist of white space alone. */
const wordsOf = (text: string) => text.split(/(?<=[^ ]) (?=[^ ])/);

/**
 * A field whose text a person reads, such as Subject, as its lines with the final CRLF. Text that is not printable ASCII,
 * or that a mail program would take for an encoded-word, is written as encoded-words (RFC 2047) that decode to exactly the
 * same text: all of it if `whole`, otherwise from the first to the last word that needs it.
 */
export function writeText(name: string, value: string, whole: boolean): string {
  let words = wordsOf(value);
  const edge = value.startsWith(' ') || value.endsWith(' ');
  const first = edge ? 0 : words.findIndex(isEncoded);
  if (first !== -1) {
    const [from, to] = edge || whole ? [0, words.length] : [first, words.findLastIndex(isEncoded) + 1];
    const encoded = encodeWords(words.slice(from, to).join(' '), columns - name.length - 2);
    words = [...words.slice(0, from), ...encoded, ...words.slice(to)];
  }
  return writeField(name, words);
}

/** An address field (RFC 5322 section 3.4). Non-ASCII local parts stay as they are, as RFC 6532 allows with SMTPUTF8. */
export function writeAddresses(name: string, mailboxes: Mailbox[]): string {
  const words = mailboxes.flatMap((mailbox, index) => {
    const comma = index < mailboxes.length - 1 ? ',' : '';
    const { address } = mailbox;
    // Last line of defense: a mailbox that did not come from parseMailbox must not inject another address or line.
    if (/[\u0000- <>,;"\u007f-\u009f]/.test(address)) throw new Error('an address holds a character that would end it');
    if (mailbox.name === null) return [address + comma];
    return [
      ...writePhrase(mailbox.name, index === 0 ? columns - name.length - 2 : columns - 1),
      `<${address}>${comma}`,
    ];
  });
  return writeField(name, words);
}

/** `Name: word word`, folded (RFC 5322 section 2.2.3) before words that would pass column 76. */
export function writeField(name: string, words: string[]): string {
  let folded = '';
  let line = `${name}:`;
  words.forEach((word, index) => {
    if (index > 0 && line.length + 1 + word.length > columns) {
      folded += `${line}\r\n`;
      line = '';
    }
    if (word !== '') line += ` ${word}`;
  });
  return `${folded}${line}\r\n`;
}

const isEncoded = (word: string) => word.length > longestRun || needsEncoding(word);

/**
 * A display name: atoms, a quoted-string, or encoded-words if it is not ASCII or holds a word too long for one line. A long one
 * is folded at its spaces: filters count encoded-words against ASCII, and some programs put a space between two of them.
 */
function writePhrase(name: string, room: number): string[] {
  if (needsEncoding(name) || wordsOf(name).some((word) => word.length > longestInLine)) return encodeWords(name, room);
  if (/^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/.test(name)) return name.split(' ');
  return name.length > longestInLine ? wordsOf(quote(name)) : [quote(name)];
}

/** One of the two encodings of RFC 2047. */
interface WordEncoding {
  method: 'B' | 'Q';
  /** What a character takes of the size of a word. */
  sizeOf(character: string): number;
  /** The most that fits into so many columns. */
  sizeIn(columns: number): number;
  encode(text: string): string;
}

/** Four columns for three octets. */
const base64: WordEncoding = {
  method: 'B',
  sizeOf: (character) => Buffer.byteLength(character),
  sizeIn: (room) => Math.floor(room / 4) * 3,
  encode: (text) => Buffer.from(text).toString('base64'),
};

const quoted: WordEncoding = {
  method: 'Q',
  sizeOf: (character) => encodeQ(character).length,
  sizeIn: (room) => room,
  encode: encodeQ,
};

/** Columns of "=?utf-8?Q?" and "?=". */
const frame = 12;

/**
 * The text as encoded-words of whole characters (RFC 2047); the first has at most `room` columns. A decoder drops the white
 * space between two of them, so joining them with spaces or folds adds nothing.
 */
function encodeWords(text: string, room: number): string[] {
  const isShorterInQ = encodeQ(text).length <= Math.ceil(Buffer.byteLength(text) / 3) * 4;
  const { method, sizeOf, sizeIn, encode } = isShorterInQ ? quoted : base64;
  const words: string[] = [];
  // A few characters fit even after a very long field name.
  let left = sizeIn(Math.max(room, 24) - frame);
  let word = '';
  for (const character of text) {
    const size = sizeOf(character);
    if (size > left && word !== '') {
      words.push(word);
      word = '';
      left = sizeIn(columns - 1 - frame);
    }
    word += character;
    left -= size;
  }
  words.push(word);
  return words.map((each) => `=?utf-8?${method}?${encode(each)}?=`);
}

/** Each octet in Q, in the form that is allowed in display names too (RFC 2047 section 5, rule 3): one form serves all fields. */
const octetsInQ = Array.from({ length: 256 }, (_, octet) => {
  const character = String.fromCharCode(octet);
  if (character === ' ') return '_';
  return /[A-Za-z0-9!*+\-/]/.test(character) ? character : `=${octet.toString(16).toUpperCase().padStart(2, '0')}`;
});

function encodeQ(text: string): string {
  let encoded = '';
  for (const octet of Buffer.from(text)) encoded += octetsInQ[octet];
  return encoded;
}
