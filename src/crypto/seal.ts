import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Sealed without the key's id, as everything was before keys could be changed. */
const nameless = 1;
const version = 2;
const idBytes = 8;
const ivBytes = 12;
const tagBytes = 16;

/** A master key with its id, which is derived from it and reveals nothing about it. */
export interface EncryptionKey {
  /** 16 hexadecimal digits. */
  id: string;
  key: Buffer;
}

/** The master keys that are known: one, or two while one replaces the other. */
export class Keyring {
  readonly first: EncryptionKey;
  readonly #keys: ReadonlyMap<string, EncryptionKey>;

  /** @param keys of 32 bytes each */
  constructor(first: Buffer, ...others: Buffer[]) {
    this.first = named(first);
    this.#keys = new Map([this.first, ...others.map(named)].map((key) => [key.id, key]));
  }

  get ids(): string[] {
    return [...this.#keys.keys()];
  }

  get all(): EncryptionKey[] {
    return [...this.#keys.values()];
  }

  find(id: string): EncryptionKey | undefined {
    return this.#keys.get(id);
  }
}

function named(key: Buffer): EncryptionKey {
  return { id: deriveKey(key, 'key id').toString('hex', 0, idBytes), key };
}

/** The keys of a process: its own, and one that will replace it or has done so. */
export const keyringOf = (key: Buffer, next: Buffer | null) => (next ? new Keyring(key, next) : new Keyring(key));

/** The first bytes of everything that is sealed with this key. */
export const sealedPrefix = ({ id }: EncryptionKey) => Buffer.concat([Buffer.of(version), Buffer.from(id, 'hex')]);

/**
 * Encrypts with AES-256-GCM, bound to `context` (such as `domain:<id>`): a ciphertext moved to another row does not open.
 * The result is one version byte, 8 of the key's id, 12 of nonce, 16 of tag, then the ciphertext; the first two are bound too.
 */
export function seal(key: EncryptionKey, plaintext: Buffer, context: string): Buffer {
  const prefix = sealedPrefix(key);
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', key.key, iv).setAAD(Buffer.concat([prefix, Buffer.from(context)]));
  const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([prefix, iv, cipher.getAuthTag(), body]);
}

/** @throws Error if the key is none of these, the context is another one, or a byte was changed */
export function open(keyring: Keyring, sealed: Uint8Array, context: string): Buffer {
  const bytes = Buffer.from(sealed);
  if (bytes[0] === nameless) return openNameless(keyring, bytes.subarray(1), Buffer.from(context));
  if (bytes[0] !== version) throw new Error('sealed with an unknown version');
  const prefix = bytes.subarray(0, 1 + idBytes);
  const id = prefix.toString('hex', 1);
  const key = keyring.find(id);
  if (!key) throw new Error(`sealed with the key ${id}, which is unknown`);
  return decrypt(key, bytes.subarray(prefix.length), Buffer.concat([prefix, Buffer.from(context)]));
}

function openNameless(keyring: Keyring, bytes: Buffer, bound: Buffer): Buffer {
  for (const key of keyring.all) {
    try {
      return decrypt(key, bytes, bound);
    } catch {
      // The tag does not match this key; it may match the next.
    }
  }
  throw new Error('sealed with an unknown key');
}

function decrypt({ key }: EncryptionKey, bytes: Buffer, bound: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes });
  decipher.setAAD(bound).setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]);
}

/** A key for one purpose, derived from the master key: losing one use does not weaken another. */
export function deriveKey(master: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), `sendwright ${purpose}`, 32));
}
