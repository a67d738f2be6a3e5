import type { Database } from '../../db/client.ts';
import { heldNotes, pausedUntil } from './waiting-for.ts';

const isHeld = `waiting_for IN (${heldNotes.map((note) => `'${note}'`).join(', ')})`;

/**
 * SQL: the ids of the emails of which a recipient is held, as an array, so that they are looked for once, by
 * `recipients_held_idx`, whose words these are, and emails then by their ids.
 *
 * @param account the parameter with its id; null: of all accounts
 */
export const heldIds = (account: string | null): string =>
  `ARRAY(SELECT DISTINCT email_id FROM recipients
          WHERE ${account === null ? 'true' : `account_id = ${account}`} AND job_id IS NULL
            AND next_attempt_at = '${pausedUntil.toISOString()}' AND ${isHeld})`;

/** Which of these emails have a recipient that is held. */
export async function heldOf(db: Database, emailIds: string[]): Promise<Set<string>> {
  if (emailIds.length === 0) return new Set();
  const rows = await db.query<{ email_id: string }>({
    name: 'held-of',
    text: `SELECT DISTINCT email_id FROM recipients WHERE email_id = ANY($1::uuid[]) AND ${isHeld}`,
    values: [emailIds],
  });
  return new Set(rows.map((row) => row.email_id));
}
