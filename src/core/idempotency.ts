import type { Sql } from '../db/client.ts';
import { conflict } from '../errors.ts';

/** A send call that must happen once, however often and however parallel it is made. */
export interface Idempotency {
  key: string;
  /** SHA-256 of method, path and body: what makes two calls the same. */
  fingerprint: Buffer;
}

const keptForHours = 24;

/**
 * Takes the key for this transaction. A parallel call with the same key waits here, on whichever node, until the first
 * is committed, and then gets its answer; where the first is rolled back, it goes on as the first itself.
 *
 * @returns what the first call answered, or null when this is the first
 * @throws ApiError 409 when the key belongs to another request
 */
export async function take(tx: Sql, accountId: string, call: Idempotency): Promise<{ response: unknown } | null> {
  const [taken] = await tx.query({
    name: 'idempotency-take',
    text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, expires_at)
           VALUES ($1, $2, $3, now() + make_interval(hours => $4))
           ON CONFLICT (account_id, key) DO UPDATE
              SET fingerprint = excluded.fingerprint, response = NULL, expires_at = excluded.expires_at
            WHERE idempotency_keys.expires_at <= now()
        RETURNING key`,
    values: [accountId, call.key, call.fingerprint, keptForHours],
  });
  if (taken) return null;
  const [first] = await tx.query<{ fingerprint: Buffer; response: unknown }>({
    name: 'idempotency-read',
    text: 'SELECT fingerprint, response FROM idempotency_keys WHERE account_id = $1 AND key = $2',
    values: [accountId, call.key],
  });
  if (!first?.fingerprint.equals(call.fingerprint)) throw conflict('the idempotency key was used with another request');
  return { response: first.response };
}

/** Keeps the answer of the call whose key this transaction took. */
export async function keep(tx: Sql, accountId: string, key: string, response: unknown): Promise<void> {
  await tx.query({
    name: 'idempotency-keep',
    text: 'UPDATE idempotency_keys SET response = $3 WHERE account_id = $1 AND key = $2',
    values: [accountId, key, JSON.stringify(response)],
  });
}

/** Forgets what is over. */
export async function forgetExpired(db: Sql): Promise<void> {
  await db.query({ text: 'DELETE FROM idempotency_keys WHERE expires_at <= now()' });
}
