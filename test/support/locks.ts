import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../src/db/client.ts';

const withinMs = 120_000;

/** Returns once somebody waits for a lock of another transaction. @param statement the pattern, for LIKE, of what waits */
export async function untilOneWaits(db: Database, statement = '%'): Promise<void> {
  for (const end = Date.now() + withinMs; Date.now() < end; await sleep(5)) {
    const waiting = await db.query({
      text: `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1`,
      values: [statement],
    });
    if (waiting.length > 0) return;
  }
  throw new Error(`nobody waits for a lock, within ${withinMs} ms`);
}
