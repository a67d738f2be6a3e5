import { BoundedMap } from '../../bounded-map.ts';
import type { SealedKey } from '../../core/outgoing/outgoing.ts';
import { openKey, type Signing } from '../../core/outgoing/outgoing-message.ts';
import type { Keyring } from '../../crypto/seal.ts';
import type { DkimKey } from '../../mail/compose/dkim-key.ts';

const mostKept = 1_000;

/** The DKIM keys that messages are signed with. Each is opened once: parsing a key costs as much as signing with it. */
export class SigningKeys {
  readonly #keyring: Keyring;
  readonly #keys = new BoundedMap<string, { sealed: Buffer; key: DkimKey }>(mostKept);

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  of(signing: Signing): DkimKey[] {
    return signing.keys.map((key) => this.#open(signing, key));
  }

  #open(signing: Signing, sealed: SealedKey): DkimKey {
    const name = `${signing.domainId} ${sealed.selector}`;
    const known = this.#keys.get(name);
    // A selector may come back with another key.
    if (known?.sealed.equals(sealed.sealed)) return known.key;
    const key = openKey(this.#keyring, signing, sealed);
    this.#keys.set(name, { sealed: sealed.sealed, key });
    return key;
  }
}
