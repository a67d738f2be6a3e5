import type { Database } from '../../db/client.ts';
import { floorId } from '../../ids.ts';
import { dueNow } from './recipients.ts';

/** The clocks of servers that take over from each other may differ by seconds, which pass by themselves. */
const apartMs = 60_000;

/**
 * Makes mail due that was accepted while the clock of the database was ahead, and not taken before it was corrected: it would
 * wait until that time. Scheduled mail has its time from its sender, and keeps it.
 *
 * @param time the database's
 */
export async function wakeAhead(db: Database, time: Date): Promise<void> {
  // Ids tell when they were made: usually there is none of later, and nothing is read.
  const after = floorId(new Date(time.getTime() + apartMs));
  await db.query({
    text: `UPDATE recipients SET next_attempt_at = ${dueNow}, job_id = NULL
            WHERE email_id >= $1 AND status = 'queued' AND attempts = 0 AND waiting_for IS NULL AND claimed_by IS NULL
              AND next_attempt_at > now() AND EXISTS (SELECT FROM emails e WHERE e.id = email_id AND e.scheduled_at IS NULL)`,
    values: [after],
  });
}
