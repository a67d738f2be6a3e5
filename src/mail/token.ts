import { createHmac, timingSafeEqual } from 'node:crypto';
import { isAscii } from './address.ts';

const prefix = 'bounces+';
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const macLength = 10;
const tokenLength = Math.ceil(((16 + macLength) * 8) / 5);

/**
 * The envelope sender of an email, `bounces+<token>@<host>`: bounces come back to it, and only we can have made it. The
 * token is the UUID and 80 bits of HMAC-SHA256, in lower-case base32 because servers may change the case; the local part
 * has 50 octets. Throws when `emailId` is not a UUID.
 */
export function createReturnPath(key: Buffer, emailId: string, host: string): string {
  const id = Buffer.from(emailId.replaceAll('-', ''), 'hex');
  if (id.length !== 16) throw new Error('the email id is not a UUID');
  return `${prefix}${encode(Buffer.concat([id, mac(key, id)]))}@${host}`;
}

/**
 * The email that this address names, or null when it is not a return path of ours: forged, cut, or of another host.
 * Compares in constant time; case-insensitive.
 */
export function parseReturnPath(key: Buffer, address: string, host: string): string | null {
  // Only ASCII has one lower case: the Kelvin sign is a "k" in lower case, too.
  if (!isAscii(address)) return null;
  const lower = address.toLowerCase();
  const end = prefix.length + tokenLength;
  if (!lower.startsWith(prefix) || lower.slice(end) !== `@${host.toLowerCase()}`) return null;
  const bytes = decode(lower.slice(prefix.length, end));
  if (!bytes) return null;
  const id = bytes.subarray(0, 16);
  if (!timingSafeEqual(bytes.subarray(16), mac(key, id))) return null;
  return id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** The label keeps this use of the key apart from every other one. */
function mac(key: Buffer, id: Buffer): Buffer {
  return createHmac('sha256', key).update('sendwright return path 1\0').update(id).digest().subarray(0, macLength);
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

/** The bytes of a token, or null when it holds another character or ends in bits that no token of ours has. */
function decode(text: string): Buffer | null {
  const bytes = Buffer.alloc(16 + macLength);
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
