import { refuseText } from '../text/characters.ts';
import { readWords } from '../text/encoded-words.ts';
import { MimeError } from '../text/mime-error.ts';
import { AddressError, type Mailbox, parseMailbox, quote } from './address.ts';

/** What stands between two commas. `comment`: the one behind the address, which may hold the name (RFC 5322 section 3.4). */
interface Entry {
  text: string;
  comment: string | null;
}

/**
 * The mailboxes of an address field (RFC 5322 section 3.4), including the members of groups. Each is read by
 * `parseMailbox`, so nothing is repaired. Encoded-words can only affect a name: they are decoded after the address is found.
 *
 * @param field its name, for errors
 * @param leavesOutLocal whether to drop entries that name somebody on the machine or in the network that the message comes from
 * @throws {MimeError}
 */
export function parseAddressList(
  field: string,
  text: string,
  { leavesOutLocal = false } = {},
): { mailboxes: Mailbox[]; holdsGroup: boolean } {
  const { entries, holdsGroup } = splitEntries(field, text);
  const kept = leavesOutLocal ? entries.filter(({ text }) => !isLocal(text)) : entries;
  return { mailboxes: kept.map((entry) => parseEntry(field, entry)), holdsGroup };
}

/** `root`, `<root>`, `root@localhost`: a Unix user, at most with a one-label host. Not `Smith` in `Smith, Ann <a@b.example>`. */
function isLocal(entry: string): boolean {
  const address = /<([^<>]*)> *$/.exec(entry)?.[1] ?? entry;
  return /^ *[a-z_][a-z0-9_.-]{0,31}(?:@[A-Za-z0-9_-]{1,63})? *$/.test(address);
}

function parseEntry(field: string, { text, comment }: Entry): Mailbox {
  try {
    const mailbox = parseMailbox(inOneQuote(text));
    if (mailbox.name === null) return comment === null ? mailbox : { ...mailbox, name: nameIn(comment) };
    const name = readWords(mailbox.name);
    const refused = refuseText(name);
    if (refused) throw new AddressError(`the name ${refused}`);
    // The decoded name is parsed again, because names have rules of their own.
    return name === mailbox.name ? mailbox : { ...mailbox, name: parseMailbox(`${quote(name)} <a@b.c>`).name };
  } catch (error) {
    if (error instanceof AddressError) throw new MimeError(`${field}: ${error.message}`);
    throw error;
  }
}

/** The name that a comment holds, null if it cannot be one: until somebody reads it as a name, anything may stand there. */
function nameIn(comment: string): string | null {
  const name = readWords(comment.replaceAll(/\\(.)/g, '$1'));
  try {
    return parseMailbox(`${quote(name)} <a@b.c>`).name;
  } catch (error) {
    if (error instanceof AddressError) return null;
    throw error;
  }
}

/**
 * Puts the whole name in one pair of quotes: any word of a phrase may have its own (RFC 5322 section 3.2.5), as in
 * `John "Johnny" Smith`. An entry that lacks quotes where it needs them is returned as it is.
 */
function inOneQuote(entry: string): string {
  const open = entry.lastIndexOf('<');
  const phrase = entry.slice(0, Math.max(0, open));
  if (!phrase.includes('"')) return entry;
  let name = '';
  let quoted = false;
  for (let i = 0; i < phrase.length; i++) {
    const character = phrase[i] ?? '';
    if (character === '"') quoted = !quoted;
    else if (quoted) name += character === '\\' ? (phrase[++i] ?? '') : character;
    else if (/[\\<>()[\],;:@]/.test(character)) return entry;
    else name += character;
  }
  return quoted ? entry : `${quote(name)} ${entry.slice(open)}`;
}

/** The entries between commas, with comments apart and without the names and delimiters of groups. */
function splitEntries(field: string, text: string): { entries: Entry[]; holdsGroup: boolean } {
  const entries: Entry[] = [];
  let entry = '';
  let comment = '';
  let beforeComment = 0;
  let inAngles = false;
  let inGroup = false;
  let holdsGroup = false;
  const close = () => {
    const isBehind = comment !== '' && entry.slice(beforeComment).trim() === '';
    if (entry.trim() !== '') entries.push({ text: entry, comment: isBehind ? comment : null });
    entry = '';
    comment = '';
  };
  let i = 0;
  for (; i < text.length; i++) {
    const character = text[i] ?? '';
    if (character === '(') {
      const end = endOfComment(text, i);
      comment = text.slice(i + 1, end);
      beforeComment = entry.length;
      i = end;
    } else if (inAngles || character === '<') {
      entry += character;
      inAngles = character !== '>';
    } else if (character === '"') {
      const end = endOfQuote(text, i);
      entry += text.slice(i, end + 1);
      i = end;
    } else if (character === ',') close();
    else if (character === ':' && !inGroup) {
      // The text before the colon is the group's name.
      entry = '';
      comment = '';
      inGroup = true;
      holdsGroup = true;
    } else if (character === ';' && inGroup) {
      close();
      inGroup = false;
    } else entry += character;
  }
  // A quote or a comment that does not end has led past the end.
  if (inAngles || i > text.length) throw new MimeError(`${field}: a quote, a comment or an address is not closed`);
  close();
  return { entries, holdsGroup };
}

/** The offset of the quote's last character; the text's length if it does not end. */
function endOfQuote(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return Math.min(at, text.length);
}

/** The same for a comment, which may hold others. */
function endOfComment(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) return at;
  }
  return text.length;
}
