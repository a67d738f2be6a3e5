import { formatMailbox, isAscii, type Mailbox } from '../address/address.ts';
import { parseAddressList } from '../address/address-list.ts';
import {
  type Header,
  holdsMailboxes,
  holdsUrlsOrIds,
  inAngles,
  longestValue,
  refuseHeader,
} from '../headers/headers.ts';
import { mostHops, only, type ReceivedField, readFields } from '../headers/received-fields.ts';
import { refuseText } from '../text/characters.ts';
import { readWords } from '../text/encoded-words.ts';
import { MimeError } from '../text/mime-error.ts';
import { readParts } from './mime.ts';
import { readContent, type SubmittedContent } from './submitted-content.ts';

/** The fields that say how to send; they are not part of the message. */
const controls = {
  'X-Sendwright-Idempotency-Key': 'idempotencyKey',
  'X-Sendwright-Tags': 'tags',
  'X-Sendwright-Type': 'type',
  'X-Sendwright-Scheduled-At': 'scheduledAt',
  'X-Sendwright-On-Uncertain': 'onUncertain',
  'X-Sendwright-TLS': 'tls',
} as const;

type Control = (typeof controls)[keyof typeof controls];

const controlNames = Object.keys(controls).join(', ');
const controlOf = new Map(Object.entries(controls).map(([name, control]) => [name.toLowerCase(), control]));

/** A message from a mail client, decoded. `to` and `cc` are what it shows; the envelope decides who gets it. */
export interface SubmittedMessage extends SubmittedContent {
  from: Mailbox;
  sender: Mailbox | null;
  to: Mailbox[];
  cc: Mailbox[];
  replyTo: Mailbox[];
  /** Empty when it has none. */
  subject: string;
  /** All that a client may set itself, in order. */
  headers: Header[];
  controls: Partial<Record<Control, string>>;
}

/** `From` or `Sender` does not name one sender, so the message may not be sent. */
export class SenderError extends MimeError {}

/** The message has come through so many servers that it must be looping. */
export class LoopError extends MimeError {}

/**
 * Parses a message into the parts of an email. Fields that `refuseHeader` reserves for us or that mail servers add on the way
 * (Date, Message-ID, Received, DKIM-Signature, Bcc, ...) are left out, and so are fields without a value.
 *
 * Octets above 127 in its headers are read as UTF-8 even without SMTPUTF8, because scripts write such subjects.
 *
 * @param message with only CRLF line ends, and without NUL
 * @throws {MimeError} with a sentence that names the header or the part; SenderError, LoopError
 */
export async function readSubmission(message: Buffer): Promise<SubmittedMessage> {
  const { fields, body } = readFields(message);
  const hops = fields.filter(({ name }) => name.toLowerCase() === 'received').length;
  if (hops > mostHops) throw new LoopError(`the message has passed through more than ${mostHops} servers`);
  const from = readSender(fields, 'From');
  if (!from) throw new SenderError('From: is required');
  const content = await readContent(readParts(fields, message.subarray(body)));
  return {
    from,
    sender: readSender(fields, 'Sender'),
    to: readAddresses(fields, 'To'),
    cc: readAddresses(fields, 'Cc'),
    replyTo: readAddresses(fields, 'Reply-To'),
    subject: readText('Subject', only(fields, 'subject') ?? ''),
    ...content,
    headers: readOthers(fields),
    controls: readControls(fields),
  };
}

function readSender(fields: ReceivedField[], name: 'From' | 'Sender'): Mailbox | null {
  try {
    const value = only(fields, name.toLowerCase());
    if (value === null) return null;
    const { mailboxes, holdsGroup } = parseAddressList(name, value);
    const [mailbox, second] = mailboxes;
    if (!mailbox || second || holdsGroup) throw new MimeError(`${name}: must be one address`);
    return mailbox;
  } catch (error) {
    throw error instanceof MimeError ? new SenderError(error.message) : error;
  }
}

/**
 * Reads several fields as one, because some clients write several. Skips a field without any `@`, such as cron's `To: root`:
 * like `root@localhost` it names a user of the sending machine, for whom the envelope has another address.
 */
function readAddresses(fields: ReceivedField[], name: string): Mailbox[] {
  const own = fields.filter((field) => field.name.toLowerCase() === name.toLowerCase() && field.value.includes('@'));
  return own.flatMap(({ value }) => parseAddressList(name, value, { leavesOutLocal: true }).mailboxes);
}

function readText(name: string, value: string): string {
  const text = readWords(value);
  const refused = refuseText(text);
  if (refused) throw new MimeError(`${name}: ${refused}`);
  return text;
}

/**
 * Fields that may occur only once (RFC 5322 section 3.6, RFC 2369 and RFC 3834): of two, mail programs use either. Any other
 * field may be repeated, such as cron's X-Cron-Env.
 */
const once = /^(?:in-reply-to|references|auto-submitted|list-.*)$/;

/** The sender's OpenPGP key, on every mail. Autocrypt limits it to 10 KiB; our usual limit is for values written by hand. */
const openPgpKey = /^autocrypt(?:-gossip)?$/;
const longestKey = 10 * 1024;

/** Keys, and notes of filters on the way: if too long they are dropped, because mail can do without them. */
const dispensable =
  /^(?:autocrypt|x-ms-exchange-|x-microsoft-|x-forefront-|x-spam-|x-ymail-|x-gm-|x-google-|(?:x-)?ironport-|x-proofpoint-|x-barracuda-|x-mimecast-)/;

function readOthers(fields: ReceivedField[]): Header[] {
  const headers = fields.flatMap(({ name, value: raw }) => {
    // A name that is refused even with this value is reserved for us.
    if (raw === '' || refuseHeader(name, 'x') !== null) return [];
    const lower = name.toLowerCase();
    const most = openPgpKey.test(lower) ? longestKey : longestValue;
    const value = otherValue(name, raw);
    if (value === '') return [];
    if (value.length > most && dispensable.test(lower)) return [];
    const refused = refuseHeader(name, value, most);
    if (refused) throw new MimeError(`${name}: ${refused}`);
    return [{ name, value }];
  });
  const seen = new Set<string>();
  for (const { name } of headers) {
    const lower = name.toLowerCase();
    if (once.test(lower) && seen.has(lower)) throw new MimeError(`${name}: appears twice`);
    seen.add(lower);
  }
  return headers;
}

function otherValue(name: string, raw: string): string {
  if (holdsMailboxes(name)) return readMailboxes(name, raw) ?? readText(name, raw);
  const text = holdsUrlsOrIds(name) ? readAround(name, raw) : readText(name, raw);
  if (!/^(?:in-reply-to|references)$/i.test(name)) return text;
  // Non-ASCII ids come from other people's mail: drop them rather than refuse the reply (RFC 6532 section 3.7).
  const ids = text
    .replaceAll(inAngles, (id) => (isAscii(id) ? id : ''))
    .replace(/ +/g, ' ')
    .trim();
  return /^references$/i.test(name) ? shortened(ids) : ids;
}

/** A `<...>` that looks like an encoded-word is not one (RFC 2047 section 5); one within an encoded-word is decoded with it. */
function readAround(name: string, raw: string): string {
  const within = raw.match(inAngles) ?? [];
  if (!within.some((one) => one.includes('=?'))) return readText(name, raw);
  const around = raw.split(inAngles).map((text) => readText(name, text));
  return around.map((text, index) => text + (within[index] ?? '')).join('');
}

/** The mailboxes as text that can be parsed again, since a decoded name may hold a comma; null if not all are addresses. */
function readMailboxes(name: string, raw: string): string | null {
  try {
    return parseAddressList(name, raw).mailboxes.map(formatMailbox).join(', ');
  } catch (error) {
    if (error instanceof MimeError) return null;
    throw error;
  }
}

/** Keeps the first id of a long thread, which identifies it, and the last ones, for the place in it (RFC 5537 section 3.4.4). */
function shortened(references: string): string {
  if (references.length <= longestValue) return references;
  const [first = '', ...others] = references.trim().split(/\s+/);
  let begin = others.length;
  for (let length = first.length; begin > 0; begin -= 1) {
    length += 1 + (others[begin - 1] ?? '').length;
    if (length > longestValue) break;
  }
  return [first, ...others.slice(begin)].join(' ');
}

function readControls(fields: ReceivedField[]): SubmittedMessage['controls'] {
  const found: SubmittedMessage['controls'] = {};
  for (const { name, value } of fields) {
    const lower = name.toLowerCase();
    if (!lower.startsWith('x-sendwright-')) continue;
    const control = controlOf.get(lower);
    // Not ignored: the client meant something by it.
    if (!control) throw new MimeError(`${name}: is not one of ${controlNames}`);
    if (found[control] !== undefined) throw new MimeError(`${name}: appears twice`);
    found[control] = readText(name, value);
  }
  return found;
}
