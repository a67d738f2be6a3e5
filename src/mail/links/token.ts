import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { isAscii } from '../address/address.ts';
import { fromBase32, toBase32 } from '../encoding/base32.ts';

const bounces = 'bounces+';
const unsubscribe = 'unsubscribe+';
const macLength = 10;
/** Set in the byte of the position if the return path is for other recipients too. */
const notAlone = 0x80;

/** Labels keep the uses of a key apart: a token for one is not valid for another. */
const labels = {
  email: 'sendwright return path 1\0',
  recipient: 'sendwright return path 2\0',
  unsubscribe: 'sendwright unsubscribe 1\0',
};

/** One recipient of an email. */
export interface NamedRecipient {
  emailId: string;
  /** Its index among the recipients, from 0. */
  position: number;
}

/** Which recipient a return path is for. Null: any recipient of the email, as in the form without a position. */
export interface ReturnPath {
  emailId: string;
  /** Not `alone`: the transaction had several recipients, all with the same destination as this one. */
  recipient: { position: number; alone: boolean } | null;
}

/**
 * The envelope sender of an email, `bounces+<token>@<host>`: bounces come back to it, and only we can have made it. The
 * token is the UUID, the recipient if one is given, and 80 bits of HMAC-SHA256, in lower-case base32 because servers may
 * change the case. The local part has at most 52 octets. Throws when `emailId` is not a UUID.
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
 * What this address names, or null when it is not a return path of ours, such as one that is forged, cut, or of another host.
 * Compares in constant time; case-insensitive.
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

/**
 * Names one recipient where there is no room for an address. Only we can have made it, and it works as long as the email
 * is kept.
 */
export function createUnsubscribeToken(key: Buffer, { emailId, position }: NamedRecipient): string {
  return sign(key, 'unsubscribe', Buffer.concat([uuidBytes(emailId), Buffer.of(checked(position))]));
}

/** The recipient that the token names, or null when it is not one of ours. Case-insensitive, because addresses carry it too. */
export function parseUnsubscribeToken(key: Buffer, token: string): NamedRecipient | null {
  if (!isAscii(token)) return null;
  const named = verify(key, 'unsubscribe', token.toLowerCase(), 17);
  return named && { emailId: uuidOf(named), position: named[16] ?? 0 };
}

/** The address that a mail program writes to if it cannot send a POST: `unsubscribe+<token>@<host>`. */
export function createUnsubscribeAddress(key: Buffer, named: NamedRecipient, host: string): string {
  return `${unsubscribe}${createUnsubscribeToken(key, named)}@${host}`;
}

/** The recipient that this address names, or null when it is not one of ours. */
export function parseUnsubscribeAddress(key: Buffer, address: string, host: string): NamedRecipient | null {
  const token = tokenOf(address, unsubscribe, host);
  return token === null ? null : parseUnsubscribeToken(key, token);
}

/** The token of `<prefix><token>@<host>`, in lower case; null for any other address. */
function tokenOf(address: string, prefix: string, host: string): string | null {
  // Beyond ASCII, other characters may become the same in lower case: the Kelvin sign becomes a "k".
  if (!isAscii(address)) return null;
  const lower = address.toLowerCase();
  const end = lower.length - host.length - 1;
  if (!lower.startsWith(prefix) || end < prefix.length || lower.slice(end) !== `@${host.toLowerCase()}`) return null;
  return lower.slice(prefix.length, end);
}

/** The 16 bytes of a UUID. Throws when it is not one. */
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
  toBase32(Buffer.concat([named, mac(key, use, named)]));

/** The signed bytes of the token, `length` of them; null when it was not signed for this use. */
function verify(key: Buffer, use: keyof typeof labels, token: string, length: number): Buffer | null {
  const bytes = fromBase32(token, length + macLength);
  if (!bytes) return null;
  const named = bytes.subarray(0, length);
  return timingSafeEqual(bytes.subarray(length), mac(key, use, named)) ? named : null;
}

/** Kept, because creating a KeyObject costs more than the rest of `mac`. */
const keyObjects = new WeakMap<Buffer, KeyObject>();

function mac(key: Buffer, use: keyof typeof labels, named: Buffer): Buffer {
  const secret = keyObjects.get(key) ?? createSecretKey(key);
  keyObjects.set(key, secret);
  return createHmac('sha256', secret).update(labels[use]).update(named).digest().subarray(0, macLength);
}
