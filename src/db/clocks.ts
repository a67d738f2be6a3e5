import type { DatabaseClock } from '../clock.ts';
import type { Database, Sql } from './client.ts';

/**
 * SQL: now, in whole milliseconds as times are stored. `now()` itself would be rounded, often to a moment that is still to
 * come, and whoever asks at once for what is due by now would not find it.
 */
export const dueFromNow = `date_trunc('milliseconds', now())`;

/** Lets a clock hear what time it is for the database. */
export async function tellTime(db: Database, clock: DatabaseClock): Promise<void> {
  await clock.hear(async () => {
    const [row] = await db.query<{ time: Date }>({ text: 'SELECT clock_timestamp() AS time', values: [] });
    return row ?? null;
  });
}

/** What time it is for the database. */
export async function databaseTime(db: Sql): Promise<Date> {
  const [row] = await db.query<{ time: Date }>({ text: 'SELECT now() AS time' });
  if (!row) throw new Error('the database does not say what time it is');
  return row.time;
}

/** This time, or that of the database where it is not as late yet. */
export async function noLater(db: Sql, time: Date): Promise<Date> {
  const there = await databaseTime(db);
  return there < time ? there : time;
}
