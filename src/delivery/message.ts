import type { KeyObject } from 'node:crypto';
import type { OutgoingEmail } from '../core/outgoing.ts';
import { build, openKey, type Signing } from '../core/outgoing-message.ts';

const keysKept = 1_000;

/**
 * Builds the signed bytes of emails. The same email gives the same bytes each time, so that a second copy after a crash
 * is recognised as one. Jobs of one email that run together share one building of it.
 */
export class MessageBuilder {
  readonly #encryptionKey: Buffer;
  readonly #keys = new Map<string, KeyObject>();
  readonly #building = new Map<string, { bytes: Promise<Buffer>; users: number }>();

  constructor(encryptionKey: Buffer) {
    this.#encryptionKey = encryptionKey;
  }

  /** Runs `use` with the message; the bytes are let go when nobody uses them any more. */
  async with<T>(email: OutgoingEmail, signing: Signing, use: (bytes: Buffer) => Promise<T>): Promise<T> {
    const entry = this.#building.get(email.id) ?? { bytes: build(email, signing, this.#privateKey(signing)), users: 0 };
    entry.users += 1;
    this.#building.set(email.id, entry);
    try {
      return await use(await entry.bytes);
    } finally {
      entry.users -= 1;
      if (entry.users === 0) this.#building.delete(email.id);
    }
  }

  /** Parsed once: parsing a key costs as much as signing with it. */
  #privateKey(signing: Signing): KeyObject {
    const name = `${signing.domainId} ${signing.selector}`;
    const known = this.#keys.get(name);
    if (known) return known;
    const key = openKey(this.#encryptionKey, signing);
    if (this.#keys.size >= keysKept) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}
