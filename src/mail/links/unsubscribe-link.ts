import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { type NamedRecipient, parseUnsubscribeToken, uuidBytes, uuidOf } from './token.ts';

/**
 * Whom an unsubscribe link is for, with everything needed to unsubscribe: the link stays in mailboxes longer than we keep the
 * email it came with.
 */
export interface Reader extends NamedRecipient {
  accountId: string;
  address: string;
}

const labels = { sealing: 'sendwright unsubscribe 2 sealing\0', nonce: 'sendwright unsubscribe 2 nonce\0' };
const nonceBytes = 12;
const tagBytes = 16;
/** The account, the email, and the recipient's position. */
const fixedBytes = 16 + 16 + 1;
/** Far more than the longest address needs. */
const mostCharacters = 2_000;

/**
 * The part of the link after `/unsubscribe/`, in base64url: the reader, sealed with AES-256-GCM, so that people the message is
 * forwarded to, and request logs, do not learn the address. It is the same each time, because the same email always has the
 * same bytes: the nonce is derived from the plain text.
 */
export function sealReader(key: Buffer, { accountId, emailId, position, address }: Reader): string {
  const plain = Buffer.concat([uuidBytes(accountId), uuidBytes(emailId), Buffer.of(position), Buffer.from(address)]);
  const nonce = createHmac('sha256', key).update(labels.nonce).update(plain).digest().subarray(0, nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', sealingKey(key), nonce);
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url');
}

/** The reader, or null when we did not make the text. */
export function openReader(key: Buffer, text: string): Reader | null {
  if (text.length > mostCharacters || !/^[\w-]+$/.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  const isOurs = bytes.length > nonceBytes + tagBytes + fixedBytes && bytes.toString('base64url') === text;
  const plain = isOurs ? decipher(key, bytes) : null;
  if (!plain) return null;
  return {
    accountId: uuidOf(plain.subarray(0, 16)),
    emailId: uuidOf(plain.subarray(16, 32)),
    position: plain[32] ?? 0,
    address: plain.toString('utf8', fixedBytes),
  };
}

/** What a link names: a reader, or, in the case-insensitive links of older releases, a recipient of an email. Null: not ours. */
export const parseUnsubscribeLink = (key: Buffer, text: string): Reader | NamedRecipient | null =>
  openReader(key, text) ?? parseUnsubscribeToken(key, text);

function decipher(key: Buffer, bytes: Buffer): Buffer | null {
  const opener = createDecipheriv('aes-256-gcm', sealingKey(key), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  opener.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
  const plain = opener.update(bytes.subarray(nonceBytes + tagBytes));
  try {
    return Buffer.concat([plain, opener.final()]);
  } catch {
    return null;
  }
}

const sealingKeys = new WeakMap<Buffer, Buffer>();

function sealingKey(key: Buffer): Buffer {
  const made = sealingKeys.get(key) ?? createHmac('sha256', key).update(labels.sealing).digest();
  sealingKeys.set(key, made);
  return made;
}
