import { type EncryptionKey, Keyring, open, seal } from '../../crypto/seal.ts';
import type { Sql } from '../../db/client.ts';

/** The plaintext of the check row. The words do not matter, only that they decrypt. */
const knownText = 'sendwright';
const checkContext = 'encryption check';

/** Whether a process with these keys may work with this database. If not, it could open none of its secrets, or only some. */
export type Admission = 'admitted' | 'another key' | 'two keys are in use';

/** Names the current sealing key, and the previous one while some secrets are still sealed with it. */
export interface KeyState {
  /** Null: sealed before keys had names. */
  keyId: string | null;
  retiringKeyId: string | null;
}

interface CheckRow extends KeyState {
  sealed: Uint8Array;
}

interface Sealed {
  context: string;
  sealed: Uint8Array;
}

/**
 * Checks that these keys open the database's secrets. The first key that meets a database without secrets becomes its
 * key: if nodes start at once with different keys, one is admitted. The row stays locked until the transaction ends, so
 * that no other key starts to seal in the meantime.
 */
export async function admit(tx: Sql, keyring: Keyring): Promise<Admission> {
  const known = (await readCheck(tx)) ?? (await createCheck(tx, keyring));
  if (!known) return 'another key';
  const { retiringKeyId, sealed } = known;
  const opener = openerOf(keyring, { context: checkContext, sealed });
  if (!opener) return 'another key';
  if (known.keyId === null) await nameKey(tx, opener);
  return retiringKeyId === null || keyring.find(retiringKeyId) ? 'admitted' : 'two keys are in use';
}

/**
 * The key that new secrets are sealed with. It cannot change until the transaction ends, so write the secrets within it.
 *
 * @throws Error when this process does not know it
 */
export async function sealingKey(tx: Sql, keyring: Keyring): Promise<EncryptionKey> {
  const row = await readCheck(tx);
  // Without a row no node has started here yet, and the first key to come becomes the key.
  if (!row?.keyId) return keyring.first;
  const key = keyring.find(row.keyId);
  if (!key) throw new Error(`secrets are sealed with the key ${row.keyId} now, which this process does not know`);
  return key;
}

/** The check's row, sealed with this key. */
export const sealCheck = (key: EncryptionKey) => seal(key, Buffer.from(knownText), checkContext);

async function readCheck(tx: Sql): Promise<CheckRow | null> {
  const [row] = await tx.query<CheckRow>({
    text: `SELECT sealed, key_id AS "keyId", retiring_key_id AS "retiringKeyId" FROM encryption_check FOR SHARE`,
  });
  return row ?? null;
}

/** Inserts the check row, with the key that opens the secrets of a database older than the check, or else the first key. */
async function createCheck(tx: Sql, keyring: Keyring): Promise<CheckRow | null> {
  const samples = await sampleSecrets(tx);
  const opener = samples.map((sample) => openerOf(keyring, sample)).find((key) => key !== undefined);
  const key = opener ?? (samples.length === 0 ? keyring.first : undefined);
  if (!key) return null;
  await tx.query({
    text: 'INSERT INTO encryption_check (sealed, key_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    values: [sealCheck(key), key.id],
  });
  return readCheck(tx);
}

async function nameKey(tx: Sql, key: EncryptionKey): Promise<void> {
  await tx.query({
    text: 'UPDATE encryption_check SET sealed = $1, key_id = $2 WHERE key_id IS NULL',
    values: [sealCheck(key), key.id],
  });
}

/**
 * Secrets of a database older than the check, to try keys on. It takes several, because one start with a wrong key may
 * have sealed some of them: a key that opens any of them is accepted.
 */
async function sampleSecrets(tx: Sql): Promise<Sealed[]> {
  return tx.query<Sealed>({
    text: `(SELECT 'domain:' || id AS context, dkim_private_key AS sealed FROM domains ORDER BY id LIMIT 50)
           UNION ALL (SELECT 'webhook:' || id, secret FROM webhooks ORDER BY id LIMIT 50)`,
  });
}

function openerOf(keyring: Keyring, { sealed, context }: Sealed): EncryptionKey | undefined {
  return keyring.all.find(({ key }) => {
    try {
      open(new Keyring(key), sealed, context);
      return true;
    } catch {
      return false;
    }
  });
}

/** @throws Error when no node has started yet */
export async function lockKeyState(tx: Sql): Promise<KeyState> {
  const [row] = await tx.query<KeyState>({
    text: `SELECT key_id AS "keyId", retiring_key_id AS "retiringKeyId" FROM encryption_check FOR UPDATE`,
  });
  if (!row) throw new Error('the database has no encryption key yet');
  return row;
}
