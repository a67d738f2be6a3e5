import type { DatabaseClock } from '../clock.ts';
import type { Database } from './client.ts';

/** Lets a clock hear what time it is for the database. */
export async function tellTime(db: Database, clock: DatabaseClock): Promise<void> {
  await clock.hear(async () => {
    const [row] = await db.query<{ time: Date }>({ text: 'SELECT clock_timestamp() AS time', values: [] });
    return row ?? null;
  });
}
