import type { Database } from '../../db/client.ts';
import { apartMs } from '../../db/clocks.ts';
import { floorId } from '../../ids.ts';
import { emailIdsIn, isSame, letGo, takeBack } from '../../queue.ts';
import { dueNow } from './recipients.ts';
import { type Selection, wakeThose, walk } from './waiting.ts';
import { pausedUntil, warmUpOf } from './waiting-for.ts';

/** No warm-up closes for longer, as its limit ends with its day; and no back-off or rate of a site for as long. */
const longestWarmUpMs = 25 * 3_600_000;
const longestLimitMs = 3_600_000;

/** The attempts of each recipient are looked up, so that one statement must not read many of those that are not wanted. */
const wokenAtOnce = 200;

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

/**
 * Takes mail out of the queue that got its job while the clock of the database was ahead: it would stay there until that time.
 * It waits as rows again, until the time that each had.
 *
 * @param time the database's
 * @param isOver asked before each batch; true ends it early
 */
export async function takeBackAhead(db: Database, time: Date, isOver: () => boolean): Promise<void> {
  const freeing = `UPDATE recipients r SET ${letGo}
                     FROM (SELECT r.email_id, r.position
                             FROM gone CROSS JOIN LATERAL ${emailIdsIn('gone.data')} AS email (id) JOIN recipients r
                                  ON r.email_id = email.id::uuid AND r.job_id ${isSame} gone.id AND r.claimed_by IS NULL
                              FOR UPDATE OF r SKIP LOCKED) ahead
                    WHERE r.email_id = ahead.email_id AND r.position = ahead.position`;
  // Each job wakes up to ten emails.
  await takeBack(db, { queue: 'deliver', freeing, size: 1_000 }, new Date(time.getTime() + apartMs), isOver);
}

/** SQL: the time before which the sender of a recipient `r` does not want it tried; null if there is none. */
const scheduled = '(SELECT e.scheduled_at FROM emails e WHERE e.id = r.email_id)';

/**
 * Makes mail due whose next attempt was set while the clock of the database was ahead: its last one is still to come by the
 * clock as it is now, or a limit closes for longer than any does. Scheduled mail is due at its time, if that is still to
 * come. It reads all mail that waits.
 *
 * @param time the database's
 * @param isOver asked now and then; true ends it early
 */
export async function wakeTriedAhead(db: Database, time: Date, isOver: () => boolean): Promise<void> {
  const later = (ms: number) => new Date(time.getTime() + ms);
  const selection: Selection = {
    due: 'r.next_attempt_at > now() AND r.next_attempt_at < $1',
    // With EXISTS the planner might read all attempts.
    wanted: `(CASE WHEN r.waiting_for LIKE $4 THEN r.next_attempt_at > $3
                   WHEN r.waiting_for IS NOT NULL THEN r.next_attempt_at > $5
                   WHEN r.attempts = 0 THEN false
                   ELSE coalesce((SELECT max(a.at) FROM attempts a WHERE a.email_id = r.email_id AND a.recipient = r.address) > $2, false) END
              AND r.next_attempt_at > coalesce(${scheduled}, '-infinity'))`,
    values: [pausedUntil, later(apartMs), later(longestWarmUpMs), warmUpOf('%'), later(longestLimitMs)],
  };
  await walk(db, selection, { size: wokenAtOnce, isOver }, async (keys) => {
    await wakeThose(db, selection, keys, `greatest(${dueNow}, ${scheduled})`);
  });
}
