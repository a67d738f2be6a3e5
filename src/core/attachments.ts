import type { Sql } from '../db/client.ts';

/**
 * Removes those of an account's files that no email has any more, in the caller's transaction: after whatever made them
 * needless, and before it ends. A call that accepts one of them again at this moment waits, and brings its bytes anew.
 *
 * @param hashes SHA-256, in hex
 * @returns how many went
 */
export async function dropUnneeded(tx: Sql, accountId: string, hashes: string[]): Promise<number> {
  if (hashes.length === 0) return 0;
  const values = [accountId, [...new Set(hashes)].sort().map((hash) => Buffer.from(hash, 'hex'))];
  await tx.query({
    text: 'SELECT FROM attachments WHERE account_id = $1 AND sha256 = ANY($2) ORDER BY sha256 FOR UPDATE',
    values,
  });
  // A statement of its own: it sees what was committed while the locks were waited for. Each hash is asked for by itself, and
  // the account of each email that has it: as joins the planner would go through all emails of the account, or all with files.
  const gone = await tx.query({
    text: `DELETE FROM attachments a WHERE a.account_id = $1 AND a.sha256 = ANY($2) AND CASE WHEN EXISTS (
             SELECT FROM email_contents c
              WHERE c.attachments <> '[]' AND c.attachments @> jsonb_build_array(jsonb_build_object('sha256', encode(a.sha256, 'hex')))
                AND (SELECT e.account_id FROM emails e WHERE e.id = c.email_id) = a.account_id) THEN false ELSE true END RETURNING 1`,
    values,
  });
  return gone.length;
}
