import { isAlone } from '../db/alone.ts';
import type { Database, Sql } from '../db/client.ts';
import { noLater } from '../db/clocks.ts';
import { listPartitions } from '../db/partitions.ts';
import { floorId } from '../ids.ts';
import { isKept, keptFrom, weeksOf } from './retention.ts';

/** Of emails that are looked at together, each of which takes all its rows along; and of calls to webhooks. */
const stretchSize = 500;

/** What hangs on an email and has its id. The email itself goes last. */
const ofEmail = ['returns', 'attempts', 'email_contents', 'sandbox_messages', 'recipients'];

/** How many went. */
export interface ThinnedOut {
  emails: number;
  deliveries: number;
}

/**
 * Removes the emails, and the calls to webhooks, of weeks that are over and stay for the sake of others: one account's email that
 * is to be sent in a year, or waits for somebody's word, keeps nobody else's log. Of several nodes one does it.
 *
 * @param now where the database's clock is behind it, that one counts: nobody's wrong clock costs mail
 * @param stop ends it after a stretch
 */
export async function thinOut(db: Database, now: Date, stop?: AbortSignal): Promise<ThinnedOut> {
  const gone = { emails: 0, deliveries: 0 };
  await db.session(async (session) => {
    if (!(await isAlone(session, 'retention of kept weeks'))) return;
    const until = keptFrom(await noLater(session, now));
    const over = (await listPartitions(session)).filter(({ state, to }) => state === 'attached' && to <= until);
    const walks = [
      { tables: ['emails', 'recipients'] as const, remove: removeEmails, kind: 'emails' as const },
      { tables: ['webhook_deliveries'] as const, remove: removeDeliveries, kind: 'deliveries' as const },
    ];
    for (const { tables, remove, kind } of walks)
      for (const week of weeksOf(over, [...tables])) {
        const [first] = week;
        // What is not kept is dropped whole.
        if (first?.table !== tables[0] || !(await isKept(db, week, until))) continue;
        const end = floorId(first.to);
        for (let from: string | null = floorId(first.from); from !== null && !stop?.aborted; ) {
          const done: Removed = await remove(db, { from, end, until });
          gone[kind] += done.gone;
          from = done.next;
        }
      }
  });
  return gone;
}

interface Stretch {
  from: string;
  end: string;
  until: Date;
}

interface Removed {
  gone: number;
  /** Where to go on; null: at the end. */
  next: string | null;
}

async function removeDeliveries(db: Database, { from, end }: Stretch): Promise<Removed> {
  const [row] = await db.query<Removed>({
    text: `WITH stretch AS MATERIALIZED (SELECT id FROM webhook_deliveries WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3 + 1),
                gone AS (
             DELETE FROM webhook_deliveries d USING (SELECT id FROM stretch ORDER BY id LIMIT $3) s
              WHERE d.id = s.id AND d.job_id IS NULL AND d.next_attempt_at IS NULL RETURNING 1)
           SELECT (SELECT count(*)::int FROM gone) AS gone, (SELECT id FROM stretch ORDER BY id OFFSET $3) AS next`,
    values: [from, end, stretchSize],
  });
  return row ?? { gone: 0, next: null };
}

async function removeEmails(db: Database, { from, end, until }: Stretch): Promise<Removed> {
  return db.transaction(async (tx) => {
    const rows = await tx.query<{ id: string; over: boolean }>({
      text: `SELECT id, pending = 0 AND coalesce(scheduled_at, created_at) <= $3
                        AND NOT EXISTS (SELECT FROM recipients r WHERE r.email_id = e.id AND (r.job_id IS NOT NULL OR r.next_attempt_at IS NOT NULL)) AS over
               FROM emails e WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $4`,
      values: [from, end, until, stretchSize + 1],
    });
    const next = rows[stretchSize]?.id ?? null;
    const ids = rows.slice(0, stretchSize).flatMap(({ id, over }) => (over ? [id] : []));
    if (ids.length > 0) await remove(tx, ids);
    return { gone: ids.length, next };
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
