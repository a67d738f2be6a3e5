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

/** What was under way when the clock was set back is recorded by the old time for some seconds: the work is done again. */
const repeated = 3;

/**
 * Does what is to be done once the database's clock was set back by more than `apartMs`. The first call does it, too: nobody
 * knows what happened before. Work that fails is done by the next call.
 *
 * @param work gets the database's time
 * @returns to be called again and again: what happens between two calls is not seen
 */
export function whenSetBack(
  db: Sql,
  work: (time: Date, stop: AbortSignal) => Promise<void>,
): (stop: AbortSignal) => Promise<void> {
  let last: { time: number; at: number } | null = null;
  let owed = 1;
  return async (stop) => {
    const asked = performance.now();
    const time = await databaseTime(db);
    if (last && time.getTime() < last.time + (asked - last.at) - apartMs) owed = repeated;
    last = { time: time.getTime(), at: performance.now() };
    if (owed === 0) return;
    await work(time, stop);
    owed -= 1;
  };
}
