import type { Database } from '../../db/client.ts';
import { deriveKey, type Keyring, open, seal } from '../../seal.ts';
import { sealingKey } from './encryption-key.ts';

/**
 * The keys of the tokens that stand in mail: who unsubscribes, whose bounce it is. They stay what they are when the master
 * key is changed, as that mail is in mailboxes for years; so does the key of the hashes that receipts of erasures name
 * addresses by.
 */
export interface TokenKeys {
  returnPath: Buffer;
  unsubscribe: Buffer;
  erasedAddress: Buffer;
}

/** What each was derived from the master key as, before it was kept. */
const purposes = { returnPath: 'return path', unsubscribe: 'unsubscribe', erasedAddress: 'erased address' } as const;

export const sealContext = (name: string) => `service:${name}`;

/** Reads the keys of the tokens, and derives those that are not there yet from the master key. */
export async function tokenKeys(db: Database, keyring: Keyring): Promise<TokenKeys> {
  return db.transaction(async (tx) => {
    const key = await sealingKey(tx, keyring);
    const names = Object.values(purposes);
    const drafts = names.map((name) => seal(key, deriveKey(key.key, name), sealContext(name)));
    await tx.query({
      text: 'INSERT INTO service_secrets SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT DO NOTHING',
      values: [names, drafts],
    });
    const rows = await tx.query<{ name: string; sealed: Buffer }>({ text: 'SELECT name, sealed FROM service_secrets' });
    const opened = new Map(rows.map(({ name, sealed }) => [name, open(keyring, sealed, sealContext(name))]));
    const of = (name: string) => {
      const found = opened.get(name);
      if (!found) throw new Error(`the database has no key for ${name}`);
      return found;
    };
    const { returnPath, unsubscribe, erasedAddress } = purposes;
    return { returnPath: of(returnPath), unsubscribe: of(unsubscribe), erasedAddress: of(erasedAddress) };
  });
}
