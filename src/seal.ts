import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const version = 1;
const ivBytes = 12;
const tagBytes = 16;

/**
 * Encrypts with AES-256-GCM, bound to `context` (such as `domain:<id>`): a ciphertext moved to another row does not open.
 * The result is one version byte, 12 bytes of nonce, 16 of tag, then the ciphertext.
 */
export function seal(key: Buffer, plaintext: Buffer, context: string): Buffer {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([Buffer.of(version), iv, cipher.getAuthTag(), body]);
}

/** @throws Error when the key or the context is not the one that it was sealed with, or a byte was changed */
export function open(key: Buffer, sealed: Uint8Array, context: string): Buffer {
  const bytes = Buffer.from(sealed);
  if (bytes[0] !== version) throw new Error('sealed with a version that is not known here');
  const iv = bytes.subarray(1, 1 + ivBytes);
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes }).setAAD(Buffer.from(context));
  decipher.setAuthTag(bytes.subarray(1 + ivBytes, 1 + ivBytes + tagBytes));
  return Buffer.concat([decipher.update(bytes.subarray(1 + ivBytes + tagBytes)), decipher.final()]);
}

/** A key for one purpose, derived from the master key: losing one use does not weaken another. */
export function deriveKey(master: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), `sendwright ${purpose}`, 32));
}
