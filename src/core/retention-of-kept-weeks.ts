import { isAlone } from '../db/alone.ts';
import type { Database, Sql } from '../db/client.ts';
import { noLater } from '../db/clocks.ts';
import { listPartitions } from '../db/partitions.ts';
import { floorId } from '../ids.ts';
import { isKept, keptFrom, weeksOf } from './retention.ts';

/** Of emails that are looked at together; each that goes takes all its rows along. */
const stretchSize = 500;

/** What hangs on an email and has its id. The email itself goes last. */
const ofEmail = ['returns', 'attempts', 'email_contents', 'sandbox_messages', 'recipients'];

/**
 * Removes the emails of weeks that are over and stay for the sake of others: one account's email that is to be sent in a year, or
 * waits for somebody's word, keeps nobody else's log. Of several nodes one does it.
 *
 * @param now where the database's clock is behind it, that one counts: nobody's wrong clock costs mail
 * @param stop ends it after a stretch
 * @returns how many emails went
 */
export async function thinOut(db: Database, now: Date, stop?: AbortSignal): Promise<number> {
  return db.session(async (session) => {
    if (!(await isAlone(session, 'retention of kept weeks'))) return 0;
    const until = keptFrom(await noLater(session, now));
    const over = (await listPartitions(session)).filter(({ state, to }) => state === 'attached' && to <= until);
    let gone = 0;
    for (const week of weeksOf(over, ['emails', 'recipients'])) {
      const [first] = week;
      // What is not kept is dropped whole.
      if (first?.table !== 'emails' || !(await isKept(db, week, until))) continue;
      const end = floorId(first.to);
      for (let after: string | null = floorId(first.from); after !== null && !stop?.aborted; ) {
        const done = await removeStretch(db, { after, end, until });
        gone += done.gone;
        after = done.last;
      }
    }
    return gone;
  });
}

async function removeStretch(
  db: Database,
  { after, end, until }: { after: string; end: string; until: Date },
): Promise<{ gone: number; last: string | null }> {
  return db.transaction(async (tx) => {
    const rows = await tx.query<{ id: string; over: boolean }>({
      text: `SELECT id, pending = 0 AND coalesce(scheduled_at, created_at) <= $3
                        AND NOT EXISTS (SELECT FROM recipients r WHERE r.email_id = e.id AND (r.job_id IS NOT NULL OR r.next_attempt_at IS NOT NULL)) AS over
               FROM emails e WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $4`,
      values: [after, end, until, stretchSize + 1],
    });
    const next = rows[stretchSize]?.id ?? null;
    const ids = rows.slice(0, stretchSize).flatMap(({ id, over }) => (over ? [id] : []));
    if (ids.length > 0) await remove(tx, ids);
    return { gone: ids.length, last: next };
  });
}

async function remove(tx: Sql, ids: string[]): Promise<void> {
  // As an erasure does, and what comes back for an email: whoever has it first is done before what it wrote is looked for.
  await tx.query({
    text: 'SELECT FROM recipients WHERE email_id = ANY($1) ORDER BY email_id, position FOR UPDATE',
    values: [ids],
  });
  for (const table of ofEmail) await tx.query({ text: `DELETE FROM ${table} WHERE email_id = ANY($1)`, values: [ids] });
  // By the table as a whole: its triggers keep the numbers.
  await tx.query({ text: 'DELETE FROM emails WHERE id = ANY($1)', values: [ids] });
}
