import type { Sql } from '../../db/client.ts';
import { deleteRows } from '../../db/delete-rows.ts';
import { rowOf, unseen } from '../../db/prepared.ts';
import { type ApiError, conflict } from '../../errors.ts';

/** A call that must take effect once, even if it is repeated, or made several times at once. */
export interface Idempotency {
  key: string;
  /** SHA-256 of method, path and body: two calls with the same one are the same call. */
  fingerprint: Buffer;
}

const keptForHours = 24;

/** What to do with a call: it is the first with its key, or gets the answer of the first, or is refused. */
export type Turn = 'first' | { response: unknown } | ApiError;

/**
 * Takes the keys of these calls for this transaction. A concurrent call with the same key, on any node, waits here until
 * the first is committed, and then gets its answer; if the first is rolled back, the waiting call becomes the first.
 *
 * @param calls each with a different key
 * @returns the turn of each call, in order; a 409 when the key belongs to another request
 */
export async function take(tx: Sql, accountId: string, calls: Idempotency[]): Promise<Turn[]> {
  if (calls.length === 0) return [];
  // In the same order on every node: two transactions that share keys would otherwise deadlock.
  const ordered = calls.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const taken = await tx.query<{ key: string }>({
    name: 'idempotency-take',
    text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, expires_at)
           SELECT $1, c.key, c.fingerprint, now() + make_interval(hours => $4) FROM unnest($2::text[], $3::bytea[]) AS c (key, fingerprint)
           ON CONFLICT (account_id, key) DO UPDATE
              SET fingerprint = excluded.fingerprint, response = NULL, expires_at = excluded.expires_at
            WHERE idempotency_keys.expires_at <= now()
        RETURNING key`,
    values: [accountId, ordered.map(({ key }) => key), ordered.map(({ fingerprint }) => fingerprint), keptForHours],
  });
  const first = new Set(taken.map(({ key }) => key));
  const earlier = await answered(
    tx,
    accountId,
    calls.flatMap(({ key }) => (first.has(key) ? [] : [key])),
  );
  return calls.map(({ key, fingerprint }) => {
    if (first.has(key)) return 'first';
    const answer = earlier.get(key);
    if (!answer?.fingerprint.equals(fingerprint)) return conflict('the idempotency key was used with another request');
    return { response: answer.response };
  });
}

async function answered(
  tx: Sql,
  accountId: string,
  keys: string[],
): Promise<Map<string, { fingerprint: Buffer; response: unknown }>> {
  if (keys.length === 0) return new Map();
  const rows = await tx.query<{ key: string; fingerprint: Buffer; response: unknown }>({
    name: 'idempotency-read',
    text: 'SELECT key, fingerprint, response FROM idempotency_keys WHERE account_id = $1 AND key = ANY($2)',
    values: [accountId, keys],
  });
  return new Map(rows.map((row) => [row.key, row]));
}

/**
 * The answer that was kept for this call, if there is one: a repeated call gets it even if its request would be refused now,
 * such as because its time has passed.
 */
export async function answerTo(db: Sql, accountId: string, call: Idempotency): Promise<{ response: unknown } | null> {
  const [row] = await db.query<{ response: unknown }>({
    name: 'idempotency-answer',
    text: `SELECT response FROM idempotency_keys
            WHERE account_id = $1 AND key = $2 AND fingerprint = $3 AND expires_at > now()`,
    values: [accountId, call.key, call.fingerprint],
  });
  return row ?? null;
}

/** Stores the answers of calls whose keys this transaction took, and frees the keys of calls that had no effect. */
export async function keep(
  tx: Sql,
  accountId: string,
  answers: { key: string; response: unknown }[],
  free: string[],
): Promise<void> {
  if (answers.length > 0) {
    await tx.query({
      name: 'idempotency-keep',
      // By place: these rows are this transaction's own. For a join by key, a plan made while there were few reads all keys of
      // the account, and may compare each with each.
      text: `UPDATE idempotency_keys k SET response = a.response
               FROM unnest(${unseen('$2::text[]')}, ${unseen('$3::json[]')}) AS a (key, response)
              CROSS JOIN LATERAL ${rowOf('idempotency_keys', 'account_id = $1 AND key = a.key', 'ctid AS place')} taken
              WHERE k.ctid = taken.place`,
      values: [accountId, answers.map(({ key }) => key), answers.map(({ response }) => JSON.stringify(response))],
    });
  }
  if (free.length === 0) return;
  await tx.query({
    text: 'DELETE FROM idempotency_keys WHERE account_id = $1 AND key = ANY($2)',
    values: [accountId, free],
  });
}

/** Keys deleted per statement: the answer to a batch can take a megabyte. */
const forgottenAtOnce = 1_000;

/** Deletes the keys that have expired. */
export const forgetExpired = (db: Sql, stop?: AbortSignal): Promise<void> =>
  deleteRows(db, { table: 'idempotency_keys', where: 'expires_at <= now()', atOnce: forgottenAtOnce }, stop);
