import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { isAscii } from './address.ts';

const bounces = 'bounces+';
const unsubscribe = 'unsubscribe+';
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const macLength = 10;
/** Set beside the position of a recipient who is not the only one that the return path is for. */
const notAlone = 0x80;

/** The label keeps each use of a key apart from every other one. */
const labels = {
  email: 'sendwright return path 1\0',
  recipient: 'sendwright return path 2\0',
  unsubscribe: 'sendwright unsubscribe 1\0',
};

/** One recipient of an email. */
export interface NamedRecipient {
  emailId: string;
  /** Its place among the recipients, from 0. */
  position: number;
}

/** Whom a return path speaks for. Null: any recipient of the email, as in the form without a position. */
export interface ReturnPath {
  emailId: string;
  /** Not alone: the transaction had several recipients, all of the same destination as this one. */
  recipient: { position: number; alone: boolean } | null;
}

/**
 * The envelope sender of an email, `bounces+<token>@<host>`: bounces come back to it, and only we can have made it. The
 * token is the UUID, where one is named the recipient, and 80 bits of HMAC-SHA256, in lower-case base32 because servers may
 * change the case; the local part has 52 octets at the most. Throws when `emailId` is not a UUID.
 */
export function createReturnPath(
  key: Buffer,
  emailId: string,
  host: string,
  recipient: ReturnPath['recipient'] = null,
): string {
  const id = uuidBytes(emailId);
  if (recipient === null) return `${bounces}${sign(key, 'email', id)}@${host}`;
  const { position, alone } = recipient;
  const named = Buffer.concat([id, Buffer.of(alone ? checked(position) : checked(position) | notAlone)]);
  return `${bounces}${sign(key, 'recipient', named)}@${host}`;
}

/**
 * What this address names, or null when it is not a return path of ours: forged, cut, or of another host. Compares in
 * constant time; case-insensitive.
 */
export function parseReturnPath(key: Buffer, address: string, host: string): ReturnPath | null {
  const token = tokenOf(address, bounces, host);
  if (token === null) return null;
  const email = verify(key, 'email', token, 16);
  if (email) return { emailId: uuidOf(email), recipient: null };
  const named = verify(key, 'recipient', token, 17);
  if (!named) return null;
  const place = named[16] ?? 0;
  return { emailId: uuidOf(named), recipient: { position: place & ~notAlone, alone: (place & notAlone) === 0 } };
}

/** Names one recipient where there is no room for an address: only we can have made it, and it is good for as long as the email is kept. */
export function createUnsubscribeToken(key: Buffer, { emailId, position }: NamedRecipient): string {
  return sign(key, 'unsubscribe', Buffer.concat([uuidBytes(emailId), Buffer.of(checked(position))]));
}

/** The recipient that the token names, or null when it is not one of ours. Case-insensitive, as it comes in addresses too. */
export function parseUnsubscribeToken(key: Buffer, token: string): NamedRecipient | null {
  if (!isAscii(token)) return null;
  const named = verify(key, 'unsubscribe', token.toLowerCase(), 17);
  return named && { emailId: uuidOf(named), position: named[16] ?? 0 };
}

/** The address that a mail program writes to where it has no way to post: `unsubscribe+<token>@<host>`. */
export function createUnsubscribeAddress(key: Buffer, named: NamedRecipient, host: string): string {
  return `${unsubscribe}${createUnsubscribeToken(key, named)}@${host}`;
}

/** The recipient that this address names, or null when it is not one of ours. */
export function parseUnsubscribeAddress(key: Buffer, address: string, host: string): NamedRecipient | null {
  const token = tokenOf(address, unsubscribe, host);
  return token === null ? null : parseUnsubscribeToken(key, token);
}

/** Of `<prefix><token>@<host>`, in lower case; null for another address. */
function tokenOf(address: string, prefix: string, host: string): string | null {
  // Only ASCII has one lower case: the Kelvin sign is a "k" in lower case, too.
  if (!isAscii(address)) return null;
  const lower = address.toLowerCase();
  const end = lower.length - host.length - 1;
  if (!lower.startsWith(prefix) || end < prefix.length || lower.slice(end) !== `@${host.toLowerCase()}`) return null;
  return lower.slice(prefix.length, end);
}

/** Throws when it is none. */
export function uuidBytes(uuid: string): Buffer {
  const bytes = Buffer.from(uuid.replaceAll('-', ''), 'hex');
  if (bytes.length !== 16) throw new Error('the id is not a UUID');
  return bytes;
}

export const uuidOf = (bytes: Buffer) =>
  bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

function checked(position: number): number {
  if (!Number.isInteger(position) || position < 0 || position >= notAlone)
    throw new Error('no email has such a recipient');
  return position;
}

const sign = (key: Buffer, use: keyof typeof labels, named: Buffer) =>
  encode(Buffer.concat([named, mac(key, use, named)]));

/** What the token names, of so many bytes; null when it was not signed for this use. */
function verify(key: Buffer, use: keyof typeof labels, token: string, length: number): Buffer | null {
  const bytes = decode(token, length + macLength);
  if (!bytes) return null;
  const named = bytes.subarray(0, length);
  return timingSafeEqual(bytes.subarray(length), mac(key, use, named)) ? named : null;
}

/** Making one costs more than the rest. */
const keyObjects = new WeakMap<Buffer, KeyObject>();

function mac(key: Buffer, use: keyof typeof labels, named: Buffer): Buffer {
  const secret = keyObjects.get(key) ?? createSecretKey(key);
  keyObjects.set(key, secret);
  return createHmac('sha256', secret).update(labels[use]).update(named).digest().subarray(0, macLength);
}

/** RFC 4648 section 6, in lower case and without padding. */
function encode(bytes: Buffer): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(value >> (bits - 5)) & 31];
  }
  return bits > 0 ? text + alphabet[(value << (5 - bits)) & 31] : text;
}

/** The bytes of a token, or null when they are not so many, it holds another character or ends in bits that no token of ours has. */
function decode(text: string, size: number): Buffer | null {
  if (text.length !== Math.ceil((size * 8) / 5)) return null;
  const bytes = Buffer.alloc(size);
  let length = 0;
  let bits = 0;
  let value = 0;
  for (const character of text) {
    const digit = alphabet.indexOf(character);
    if (digit === -1) return null;
    value = ((value << 5) | digit) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[length++] = value >> bits;
      value &= (1 << bits) - 1;
    }
  }
  return length === bytes.length && value === 0 ? bytes : null;
}
