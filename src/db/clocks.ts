import type { DatabaseClock } from '../clock.ts';
import type { Sql } from './sql.ts';

/** The clocks of servers that take over from each other may differ by as much, which passes by itself. */
export const apartMs = 60_000;

/**
 * SQL: now, in whole milliseconds, as times are stored. `now()` itself would be rounded, often to a moment in the future, and
 * a query right afterwards for what is due by now would not find the row.
 */
export const dueFromNow = `date_trunc('milliseconds', now())`;

/** Sets a clock by the database's time. */
export async function tellTime(db: Sql, clock: DatabaseClock): Promise<void> {
  await clock.hear(async () => {
    const [row] = await db.query<{ time: Date }>({ text: 'SELECT clock_timestamp() AS time', values: [] });
    return row ?? null;
  });
}

/** The database's time. */
export async function databaseTime(db: Sql): Promise<Date> {
  const [row] = await db.query<{ time: Date }>({ text: 'SELECT now() AS time' });
  if (!row) throw new Error('the database does not say what time it is');
  return row.time;
}

/** The earlier of this time and the database's. */
export async function noLater(db: Sql, time: Date): Promise<Date> {
  const there = await databaseTime(db);
  return there < time ? there : time;
}
