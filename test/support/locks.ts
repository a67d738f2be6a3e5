import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../src/db/client.ts';

/** Returns once somebody waits for a lock of another transaction. */
export async function untilOneWaits(db: Database): Promise<void> {
  for (;;) {
    const waiting = await db.query({
      text: `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    });
    if (waiting.length > 0) return;
    await sleep(5);
  }
}
