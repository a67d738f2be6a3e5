import { type EncryptionKey, type Keyring, open, seal, sealedPrefix } from '../../crypto/seal.ts';
import type { Database, Sql } from '../../db/client.ts';
import * as domains from '../domains/domains.ts';
import * as erasures from '../privacy/erasures.ts';
import { admit, lockKeyState, sealCheck } from '../secrets/encryption-key.ts';
import * as serviceSecrets from '../secrets/service-secrets.ts';
import * as webhooks from '../webhooks/webhooks.ts';
import { strangersTo } from './encryption-key-holders.ts';

/** A column of sealed secrets: the column with the row's name, and the SQL of the name that the secret is bound to. */
interface Place {
  table: string;
  column: string;
  id: string;
  boundTo: string;
  context: (name: string) => string;
}

const places: Place[] = [
  { table: 'domains', column: 'dkim_private_key', id: 'id', boundTo: 'id', context: domains.sealContext },
  { table: 'dkim_keys', column: 'private_key', id: 'id', boundTo: 'domain_id', context: domains.sealContext },
  { table: 'webhooks', column: 'secret', id: 'id', boundTo: 'id', context: webhooks.sealContext },
  { table: 'webhooks', column: 'previous_secret', id: 'id', boundTo: 'id', context: webhooks.sealContext },
  { table: 'service_secrets', column: 'sealed', id: 'name', boundTo: 'name', context: serviceSecrets.sealContext },
  { table: 'erasures', column: 'sealed_address', id: 'id', boundTo: 'id', context: erasures.sealContext },
];

const batchSize = 200;

/** Why a rotation is not possible now, in words for the operator. */
export class RotationRefused extends Error {}

/** Progress, reported after each batch: how many of all secrets are done. */
export type OnProgress = (done: number, all: number) => void;

/**
 * Seals every secret of the database with this key while nodes are running. New secrets are sealed with it from the start.
 * If a rotation is killed at any moment, the next call continues it; of two concurrent ones one is refused.
 *
 * @returns how many secrets were sealed again
 * @throws RotationRefused
 */
export async function rotate(
  db: Database,
  keyring: Keyring,
  next: EncryptionKey,
  onProgress: OnProgress = () => undefined,
): Promise<number> {
  return db.session(async (session) => {
    const [lock] = await session.query<{ ours: boolean }>({ text: `SELECT pg_try_advisory_lock(${lockName}) AS ours` });
    if (!lock?.ours) throw new RotationRefused('the encryption key is being changed already, by another process');
    try {
      return await rotateLocked(db, keyring, next, onProgress);
    } finally {
      // A session that is lost has released the lock already.
      await session.query({ text: `SELECT pg_advisory_unlock(${lockName})` }).catch(() => undefined);
    }
  });
}

const lockName = `hashtext('sendwright'), hashtext('encryption keys')`;

async function rotateLocked(
  db: Database,
  keyring: Keyring,
  next: EncryptionKey,
  onProgress: OnProgress,
): Promise<number> {
  if ((await db.transaction((tx) => admit(tx, keyring))) !== 'admitted')
    throw new RotationRefused('secrets are sealed with neither of these keys: set the one that the nodes have');
  // In a database from before these keys were stored: they are derived from the key that goes.
  await serviceSecrets.tokenKeys(db, keyring);
  await db.transaction((tx) => begin(tx, keyring, next));
  let done = 0;
  for (let left = await count(db, next); left > 0; left = await count(db, next)) {
    const before = done;
    for (const place of places)
      done += await resealAll(db, keyring, next, place, (sealed) => onProgress(done + sealed, before + left));
    // If nothing could be resealed, nothing was moved meanwhile either that the next pass would find.
    if (done === before) await refuseUnopened(db, keyring, next);
  }
  await db.query({
    text: 'UPDATE encryption_check SET retiring_key_id = NULL WHERE key_id = $1',
    values: [next.id],
  });
  return done;
}

/** Starts to seal with the key, if every running process can open with it. */
async function begin(tx: Sql, keyring: Keyring, next: EncryptionKey): Promise<void> {
  const { keyId, retiringKeyId } = await lockKeyState(tx);
  if (keyId === next.id) return;
  if (keyId === null || !keyring.find(keyId))
    throw new RotationRefused('secrets are sealed with neither of these keys');
  if (retiringKeyId !== null)
    throw new RotationRefused(`the change to the key ${keyId} is not finished: run it again with that one`);
  const strangers = await strangersTo(tx, next.id);
  if (strangers.length > 0)
    throw new RotationRefused(
      `these processes do not know the new key yet, by their machines: ${[...new Set(strangers)].join(', ')}; restart them with it (one that was killed is forgotten after a minute)`,
    );
  await tx.query({
    text: 'UPDATE encryption_check SET sealed = $1, key_id = $2, retiring_key_id = $3',
    values: [sealCheck(next), next.id, keyId],
  });
}

/** SQL that finds secrets sealed with another key; $1 is the prefix of those sealed with the new key. */
const isStale = (column: string) => `${column} IS NOT NULL AND substr(${column}, 1, length($1::bytea)) <> $1::bytea`;

async function resealAll(
  db: Database,
  keyring: Keyring,
  next: EncryptionKey,
  place: Place,
  onBatch: (sealed: number) => void,
): Promise<number> {
  const { table, column, id } = place;
  let sealed = 0;
  for (let last = ''; ; ) {
    const stale = await staleOf(db, next, place, last);
    const fresh = stale.flatMap((row) => {
      const opened = tryOpen(keyring, row.sealed, place.context(row.bound));
      return opened ? [{ ...row, fresh: seal(next, opened, place.context(row.bound)) }] : [];
    });
    const rows = await db.query({
      // A secret that changed meanwhile is left alone.
      text: `UPDATE ${table} t SET ${column} = v.fresh FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS v(id, stale, fresh)
              WHERE t.${id}::text = v.id AND t.${column} = v.stale RETURNING v.id`,
      values: [fresh.map((row) => row.id), fresh.map((row) => row.sealed), fresh.map((row) => row.fresh)],
    });
    sealed += rows.length;
    if (rows.length > 0) onBatch(sealed);
    if (stale.length < batchSize) return sealed;
    last = stale.at(-1)?.id ?? '';
  }
}

interface StaleRow {
  id: string;
  bound: string;
  sealed: Buffer;
}

async function staleOf(sql: Sql, next: EncryptionKey, place: Place, after: string): Promise<StaleRow[]> {
  const { table, column, id, boundTo } = place;
  return sql.query<StaleRow>({
    text: `SELECT ${id}::text AS id, ${boundTo}::text AS bound, ${column} AS sealed FROM ${table}
            WHERE ${isStale(column)} AND ${id}::text > $2 ORDER BY ${id}::text LIMIT ${batchSize}`,
    values: [sealedPrefix(next), after],
  });
}

/** In one statement, so that a secret that moves from one place to another is counted in one of them. */
async function count(sql: Sql, next: EncryptionKey): Promise<number> {
  const counts = places.map(({ table, column }) => `(SELECT count(*) FROM ${table} WHERE ${isStale(column)})`);
  const [row] = await sql.query<{ left: number }>({
    text: `SELECT (${counts.join(' + ')})::int AS left`,
    values: [sealedPrefix(next)],
  });
  return row?.left ?? 0;
}

async function refuseUnopened(db: Database, keyring: Keyring, next: EncryptionKey): Promise<void> {
  for (const place of places) {
    const stale = await staleOf(db, next, place, '');
    const lost = stale.filter((row) => !tryOpen(keyring, row.sealed, place.context(row.bound)));
    if (lost.length > 0)
      throw new RotationRefused(
        `neither key opens what ${place.table} has in ${place.column} for ${lost
          .map((row) => row.id)
          .slice(0, 5)
          .join(', ')}: remove it, or find the key, and run this again`,
      );
  }
}

function tryOpen(keyring: Keyring, sealed: Buffer, context: string): Buffer | null {
  try {
    return open(keyring, sealed, context);
  } catch {
    return null;
  }
}
