import { isAlone } from '../../db/alone.ts';
import type { Database, Sql } from '../../db/client.ts';
import { noLater } from '../../db/clocks.ts';
import { databaseCodeOf, isAway } from '../../db/errors.ts';
import { listPartitions, type Partition } from '../../db/partitions.ts';
import { floorId } from '../../ids.ts';
import { isKept, keptFrom, type Limits, runAll, weeksOf } from './retention.ts';

/** The most emails that are looked at together, each with all of its rows; and the most webhook deliveries. */
const stretchSize = 500;

/** Tables with rows that belong to an email and have its id. The email itself is deleted last. */
const tablesOfEmail = ['returns', 'attempts', 'email_contents', 'sandbox_messages', 'recipients'];

/** How many were removed. */
export interface ThinnedOut {
  emails: number;
  deliveries: number;
}

/**
 * Removes emails and webhook deliveries of weeks that are over but kept for the sake of others: one account's email that is
 * scheduled for next year, or waits for a decision, must not keep anybody else's log. Only one node at a time does this.
 *
 * @param now if the database's clock is behind it, the database's counts: a wrong clock must not cost mail
 * @param stop ends it after a stretch
 */
export async function thinOut(db: Database, now: Date, stop?: AbortSignal): Promise<ThinnedOut> {
  const gone = { emails: 0, deliveries: 0 };
  await db.session(async (session) => {
    if (!(await isAlone(session, 'retention of kept weeks'))) return;
    const limits = { until: keptFrom(await noLater(session, now)), stop };
    const over = (await listPartitions(session)).filter(({ state, to }) => state === 'attached' && to <= limits.until);
    // If one of them fails, the other still runs.
    await runAll([
      async () => {
        for (const week of weeksOf(over, ['emails', 'recipients']))
          if (week[0]?.table === 'emails')
            await thinOutWeek(db, week, limits, removeEmails, (count) => (gone.emails += count));
      },
      async () => {
        for (const week of weeksOf(over, ['webhook_deliveries']))
          await thinOutWeek(db, week, limits, removeDeliveries, (count) => (gone.deliveries += count));
      },
    ]);
  });
  return gone;
}

/** PostgreSQL's error code for a missing table. */
const undefinedTable = '42P01';

/** Whether the week is kept. If not, it is dropped as a whole, perhaps by another node at this moment. */
async function isStillKept(db: Sql, week: Partition[], limits: Limits): Promise<boolean> {
  try {
    return await isKept(db, week, limits);
  } catch (error) {
    if (databaseCodeOf(error) === undefinedTable) return false;
    throw error;
  }
}

/** @param onGone called with the count after each stretch */
async function thinOutWeek(
  db: Database,
  week: Partition[],
  limits: Limits,
  remove: (db: Database, stretch: Stretch) => Promise<Removed>,
  onGone: (count: number) => void,
): Promise<void> {
  const [first] = week;
  if (!first || !(await isStillKept(db, week, limits))) return;
  const end = floorId(first.to);
  let size = stretchSize;
  for (let from: string | null = floorId(first.from); from !== null && !limits.stop?.aborted; ) {
    try {
      const done: Removed = await remove(db, { from, end, until: limits.until, size });
      onGone(done.gone);
      from = done.next;
    } catch (error) {
      // Some emails have thousands of attempts, or megabytes: together they can take longer than a statement may.
      if (size === 1 || isAway(error)) throw error;
      size = Math.ceil(size / 8);
    }
  }
}

interface Stretch {
  from: string;
  end: string;
  until: Date;
  size: number;
}

interface Removed {
  gone: number;
  /** Where to continue; null at the end. */
  next: string | null;
}

async function removeDeliveries(db: Database, { from, end, size }: Stretch): Promise<Removed> {
  const [row] = await db.query<Removed>({
    text: `WITH stretch AS MATERIALIZED (SELECT id FROM webhook_deliveries WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3 + 1),
                gone AS (
             DELETE FROM webhook_deliveries d USING (SELECT id FROM stretch ORDER BY id LIMIT $3) s
              WHERE d.id = s.id AND d.job_id IS NULL AND d.next_attempt_at IS NULL RETURNING 1)
           SELECT (SELECT count(*)::int FROM gone) AS gone, (SELECT id FROM stretch ORDER BY id OFFSET $3) AS next`,
    values: [from, end, size],
  });
  return row ?? { gone: 0, next: null };
}

async function removeEmails(db: Database, { from, end, until, size }: Stretch): Promise<Removed> {
  return db.transaction(async (tx) => {
    const rows = await tx.query<{ id: string; over: boolean }>({
      text: `SELECT id, pending = 0 AND coalesce(scheduled_at, created_at) <= $3
                        AND NOT EXISTS (SELECT FROM recipients r WHERE r.email_id = e.id
                                           AND (r.job_id IS NOT NULL OR r.next_attempt_at IS NOT NULL OR r.settled_at > $3)) AS over
               FROM emails e WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $4`,
      values: [from, end, until, size + 1],
    });
    const next = rows[size]?.id ?? null;
    const ids = rows.slice(0, size).flatMap(({ id, over }) => (over ? [id] : []));
    if (ids.length > 0) await deleteEmails(tx, ids);
    return { gone: ids.length, next };
  });
}

async function deleteEmails(tx: Sql, ids: string[]): Promise<void> {
  // Erasures and returns take the same lock: the transaction that has it first ends before the others look for the rows.
  await tx.query({
    text: 'SELECT FROM recipients WHERE email_id = ANY($1) ORDER BY email_id, position FOR UPDATE',
    values: [ids],
  });
  for (const table of tablesOfEmail)
    await tx.query({ text: `DELETE FROM ${table} WHERE email_id = ANY($1)`, values: [ids] });
  // Deleted through the parent table, whose triggers keep the counts.
  await tx.query({ text: 'DELETE FROM emails WHERE id = ANY($1)', values: [ids] });
}
