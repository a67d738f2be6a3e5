import { type Mailbox, quote } from './address.ts';
import { parseAddressList } from './address-list.ts';
import { holdsAddresses, holdsMailboxes, inAngles, longestRun, needsEncoding, refuseHeader } from './headers.ts';

// RFC 5322 section 2.1.1 asks for 78 columns, RFC 2047 section 2 for 76 where encoded-words are.
const columns = 76;

/**
 * A field that a client has set. White space around a value of addresses says nothing, and encoded-words stand in it only where a person
 * reads (RFC 2047 section 5): in names and words, not in quotes, URLs, ids and addresses.
 */
export function writeOther(name: string, value: string): string {
  const isStructured = holdsAddresses(name) || holdsMailboxes(name);
  // What was taken before it was refused, and has waited since, goes out as it did then. How long it may be is not asked here.
  if (!isStructured || refuseHeader(name, value, value.length) !== null)
    return writeText(name, isStructured ? value.trim() : value, false);
  const read = holdsMailboxes(name) ? value : value.replaceAll(inAngles, ' ');
  if (!needsEncoding(read)) return writeField(name, runsOf(value));
  return holdsMailboxes(name)
    ? writeAddresses(name, parseAddressList(name, value).mailboxes)
    : writeField(name, wordsAroundAngles(value, columns - name.length - 2));
}

/** What stands in `<...>` as it is, and what stands around it encoded where it has to be. */
function wordsAroundAngles(value: string, room: number): string[] {
  const words: string[] = [];
  const around = value.split(inAngles);
  const within = value.match(inAngles) ?? [];
  for (const [index, text] of around.entries()) {
    const separator = /^[ ,]*/.exec(text)?.[0] ?? '';
    // A comma stays with what is in front of it.
    words.push(`${words.pop() ?? ''}${separator.replaceAll(' ', '')}`);
    words.push(...phraseOf(text.slice(separator.length), index === 0 ? room : columns - 1));
    words.push(...runsOf(within[index] ?? ''));
  }
  return words.filter((word) => word !== '');
}

/** Where there are quotes all of it is one, without them: no encoded-word may stand in a quoted-string. */
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

/** Between words of addresses, ids and URLs any number of spaces is one. */
const runsOf = (text: string) => text.trim().split(/ +/);

/** Only a space between two other characters is a place to fold at: no line may be made of white space alone. */
const wordsOf = (text: string) => text.split(/(?<=[^ ]) (?=[^ ])/);

/**
 * A field whose text a person reads, such as Subject, as its lines with the final CRLF. Text that is not printable ASCII,
 * or that a reader would take for an encoded-word, is written as encoded-words (RFC 2047) that decode to exactly the
 * same text: all of it with `whole`, otherwise from the first to the last word that needs it.
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

/** A field of addresses (RFC 5322 section 3.4). Non-ASCII local parts stay as they are, which RFC 6532 allows and SMTPUTF8 carries. */
export function writeAddresses(name: string, mailboxes: Mailbox[]): string {
  const words = mailboxes.flatMap((mailbox, index) => {
    const comma = index < mailboxes.length - 1 ? ',' : '';
    const { address } = mailbox;
    // The last wall: a mailbox that did not come out of parseMailbox must not bring another address or line with it.
    if (/[\u0000- <>,;"\u007f-\u009f]/.test(address)) throw new Error('an address holds a character that would end it');
    if (mailbox.name === null) return [address + comma];
    return [
      ...writePhrase(mailbox.name, index === 0 ? columns - name.length - 2 : columns - 1),
      `<${address}>${comma}`,
    ];
  });
  return writeField(name, words);
}

/** `Name: word word`, folded (RFC 5322 section 2.2.3) before the words that would pass the 76th column. */
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

/** A display name: atoms, a quoted-string, or encoded-words where it is not ASCII or too long to stay on one line. */
function writePhrase(name: string, room: number): string[] {
  if (name.length > 60 || needsEncoding(name)) return encodeWords(name, room);
  if (/^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/.test(name)) return name.split(' ');
  return [quote(name)];
}

/**
 * The text as encoded-words of whole characters (RFC 2047), of which the first has at most `room` columns. Between two
 * of them a decoder drops the white space, so that joining them with spaces or folds adds nothing.
 */
function encodeWords(text: string, room: number): string[] {
  const bytes = Buffer.from(text);
  const quoted = bytes.reduce((length, byte) => length + (inQ(byte) === undefined ? 3 : 1), 0);
  const method = quoted <= Math.ceil(bytes.length / 3) * 4 ? 'Q' : 'B';
  const words: string[] = [];
  // Some octets of every word are its frame, "=?utf-8?Q?" and "?="; a very long name still gets a few characters.
  let space = Math.max(room, 24) - 12;
  let word = '';
  let octets = 0;
  for (const character of text) {
    const piece = Buffer.from(character);
    const length = method === 'B' ? Math.ceil((octets + piece.length) / 3) * 4 : word.length + encodeQ(piece).length;
    if (length > space && word !== '') {
      words.push(frame(method, word));
      space = 63;
      word = '';
      octets = 0;
    }
    word += method === 'B' ? character : encodeQ(piece);
    octets += piece.length;
  }
  words.push(frame(method, word));
  return words;
}

function frame(method: 'B' | 'Q', word: string): string {
  return `=?utf-8?${method}?${method === 'B' ? Buffer.from(word).toString('base64') : word}?=`;
}

/** The form that may also stand in a display name (RFC 2047 section 5, rule 3), so that there is one for all. */
function encodeQ(bytes: Buffer): string {
  let encoded = '';
  for (const byte of bytes) encoded += inQ(byte) ?? `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  return encoded;
}

function inQ(byte: number): string | undefined {
  if (byte === 0x20) return '_';
  const character = String.fromCharCode(byte);
  return /[A-Za-z0-9!*+\-/]/.test(character) ? character : undefined;
}
