import type { Database } from '../../db/client.ts';
import { apartMs, dueFromNow } from '../../db/clocks.ts';

/** It reads all calls that wait: of an endpoint that has not answered for days these can be millions. */
const statementMs = 60_000;

/**
 * Makes webhook calls due whose time was set while the clock of the database was ahead: they were made, or tried last, at a time
 * that is still to come by the clock as it is now.
 *
 * @param time the database's
 */
export async function wakeCallsAhead(db: Database, time: Date): Promise<void> {
  await db.session(
    (session) =>
      session.query({
        text: `UPDATE webhook_deliveries d SET next_attempt_at = ${dueFromNow}
                 FROM (SELECT id FROM webhook_deliveries
                        WHERE job_id IS NULL AND next_attempt_at > now()
                          AND greatest(created_at, (attempts -> -1 ->> 'at')::timestamptz) > $1
                          FOR UPDATE SKIP LOCKED) ahead
                WHERE d.id = ahead.id`,
        values: [new Date(time.getTime() + apartMs)],
      }),
    statementMs,
  );
}
