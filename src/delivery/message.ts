import type { OutgoingEmail, SealedKey } from '../core/outgoing.ts';
import { build, isPersonal, openKey, type Signing, unsubscribeKey } from '../core/outgoing-message.ts';
import type { DkimKey } from '../mail/dkim.ts';
import type { UnsubscribePlaces } from '../mail/list-unsubscribe.ts';

const keysKept = 1_000;

/**
 * Builds the signed bytes of emails. The same email gives the same bytes each time, so that a second copy after a crash
 * is recognised as one. Jobs of one email that run together share one building of it.
 */
export class MessageBuilder {
  readonly #encryptionKey: Buffer;
  readonly #places: UnsubscribePlaces | null;
  readonly #keys = new Map<string, DkimKey>();
  readonly #building = new Map<string, { bytes: Promise<Buffer>; users: number }>();

  /** @param unsubscribing where those are heard who unsubscribe from marketing mail; without it that mail does not say how */
  constructor(encryptionKey: Buffer, unsubscribing: Omit<UnsubscribePlaces, 'key'> | null = null) {
    this.#encryptionKey = encryptionKey;
    this.#places = unsubscribing && { ...unsubscribing, key: unsubscribeKey(encryptionKey) };
  }

  /** True when each recipient gets a copy of its own. */
  isPersonal(email: OutgoingEmail): boolean {
    return this.#places !== null && isPersonal(email);
  }

  /**
   * Runs `use` with the message; the bytes are let go when nobody uses them any more.
   *
   * @param position whose copy it is, where the email is personal
   */
  async with<T>(
    email: OutgoingEmail,
    signing: Signing,
    position: number | null,
    use: (bytes: Buffer) => Promise<T>,
  ): Promise<T> {
    const copy = this.#places && position !== null ? { position, places: this.#places } : null;
    const name = `${email.id} ${copy?.position ?? ''}`;
    const known = this.#building.get(name);
    const keys = () => signing.keys.map((key) => this.#key(signing, key));
    const entry = known ?? { bytes: build(email, keys(), copy), users: 0 };
    entry.users += 1;
    this.#building.set(name, entry);
    try {
      return await use(await entry.bytes);
    } finally {
      entry.users -= 1;
      if (entry.users === 0) this.#building.delete(name);
    }
  }

  /** Parsed once: parsing a key costs as much as signing with it. */
  #key(signing: Signing, sealed: SealedKey): DkimKey {
    const name = `${signing.domainId} ${sealed.selector}`;
    const known = this.#keys.get(name);
    if (known) return known;
    const key = openKey(this.#encryptionKey, signing, sealed);
    if (this.#keys.size >= keysKept) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}
