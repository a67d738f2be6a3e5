import { deriveKey, type Keyring, open, seal } from '../../crypto/seal.ts';
import type { Database } from '../../db/client.ts';
import { sealingKey } from './encryption-key.ts';

/**
 * The keys of the tokens in sent mail (unsubscribe links, return paths). They do not change with the master key, because
 * that mail stays in mailboxes for years. Neither does the key of the hashes by which receipts of erasures name addresses.
 */
export interface TokenKeys {
  returnPath: Buffer;
  unsubscribe: Buffer;
  erasedAddress: Buffer;
}

/** The purpose that each was derived from the master key with, before it was stored. */
const purposes = { returnPath: 'return path', unsubscribe: 'unsubscribe', erasedAddress: 'erased address' } as const;

/** The context that a secret of the service is sealed to. */
export const sealContext = (name: string) => `service:${name}`;

/** Reads the token keys, and derives missing ones from the master key. */
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
