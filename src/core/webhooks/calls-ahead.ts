import type { Database } from '../../db/client.ts';
import { apartMs, dueFromNow } from '../../db/clocks.ts';
import { deliveryIdIn, isSame, letGo, takeBack } from '../../queue.ts';

/** It reads all calls that wait: of an endpoint that has not answered for days these can be millions. */
const statementMs = 60_000;

const wokenAtOnce = 5_000;

/**
 * Takes webhook calls out of the queue that got their jobs while the clock of the database was ahead: they would stay there
 * until that time, and take the room of all other calls to their endpoint. They wait as rows again.
 *
 * @param time the database's
 * @param isOver asked before each batch; true ends it early
 */
export async function takeBackCallsAhead(db: Database, time: Date, isOver: () => boolean): Promise<void> {
  const freeing = `UPDATE webhook_deliveries d SET ${letGo}
                     FROM (SELECT d.id FROM gone JOIN webhook_deliveries d
                                  ON d.id = ${deliveryIdIn('gone.data')} AND d.job_id ${isSame} gone.id AND d.claimed_by IS NULL
                              FOR UPDATE OF d SKIP LOCKED) ahead
                    WHERE d.id = ahead.id`;
  await takeBack(db, { queue: 'webhook', freeing, size: wokenAtOnce }, new Date(time.getTime() + apartMs), isOver);
}

/**
 * Makes webhook calls due whose time was set while the clock of the database was ahead: they were made, or tried last, at a time
 * that is still to come by the clock as it is now. One batch after the other, as nodes wait for calls that are locked.
 *
 * @param time the database's
 * @param isOver asked before each batch; true ends it early
 */
export async function wakeCallsAhead(db: Database, time: Date, isOver: () => boolean): Promise<void> {
  await db.session(async (session) => {
    await session.query({ text: 'BEGIN' });
    await session.query({
      text: `DECLARE ahead NO SCROLL CURSOR FOR
              SELECT id FROM webhook_deliveries
               WHERE job_id IS NULL AND next_attempt_at > now()
                 AND greatest(created_at, (attempts -> -1 ->> 'at')::timestamptz) > $1`,
      values: [new Date(time.getTime() + apartMs)],
    });
    while (!isOver()) {
      const ahead = await session.query<{ id: string }>({ text: `FETCH ${wokenAtOnce} FROM ahead` });
      await wake(
        db,
        ahead.map(({ id }) => id),
      );
      if (ahead.length < wokenAtOnce) return;
    }
  }, statementMs);
}

async function wake(db: Database, ids: string[]): Promise<void> {
  await db.query({
    // A call that is locked has just been taken, or is tried now by an order of its owner.
    text: `UPDATE webhook_deliveries d SET next_attempt_at = ${dueFromNow}
             FROM (SELECT id FROM webhook_deliveries
                    WHERE id = ANY($1) AND num_nulls(job_id) = 1 AND next_attempt_at > now() FOR UPDATE SKIP LOCKED) ahead
            WHERE d.id = ahead.id`,
    values: [ids],
  });
}
