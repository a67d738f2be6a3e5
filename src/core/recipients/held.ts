import type { Database } from '../../db/client.ts';
import { heldNotesInSql, pausedUntil } from './waiting-for.ts';

/** SQL: a recipient that is held until somebody decides. */
const isHeld = `waiting_for IN (${heldNotesInSql})`;

/**
 * SQL: an array with the ids of the emails that have a held recipient. The condition is that of `recipients_held_idx` word for
 * word: the ids are looked up once in this index, and the emails then by their ids.
 *
 * @param account the parameter with the account's id; null: all accounts
 */
export const heldIds = (account: string | null): string =>
  `ARRAY(SELECT DISTINCT email_id FROM recipients
          WHERE ${account === null ? 'true' : `account_id = ${account}`} AND job_id IS NULL
            AND next_attempt_at = '${pausedUntil.toISOString()}' AND ${isHeld})`;

/** Which of these emails have a held recipient. */
export async function heldOf(db: Database, emailIds: string[]): Promise<Set<string>> {
  if (emailIds.length === 0) return new Set();
  const rows = await db.query<{ email_id: string }>({
    name: 'held-of',
    text: `SELECT DISTINCT email_id FROM recipients WHERE email_id = ANY($1::uuid[]) AND ${isHeld}`,
    values: [emailIds],
  });
  return new Set(rows.map((row) => row.email_id));
}
