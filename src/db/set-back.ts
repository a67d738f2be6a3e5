import { isAlone } from './alone.ts';
import type { Database } from './client.ts';
import { apartMs } from './clocks.ts';

/** What was under way when the clock was set back is recorded by the old time for some seconds. */
const recordedMs = 20_000;

/**
 * Does what is to be done once the database's clock was set back by more than `apartMs`, also while no node ran, and again
 * until everything of the old time is recorded. The work may read all mail that waits: only one node at a time does it.
 *
 * @param work gets the database's time; if it fails, the next call does it
 * @returns to be called again and again: a clock that is ahead between two calls alone is not seen
 */
export function whenSetBack(
  db: Database,
  work: (time: Date, stop: AbortSignal) => Promise<void>,
): (stop: AbortSignal) => Promise<void> {
  return async (stop) => {
    const { time, setBackAt } = await seeTime(db);
    if (setBackAt === null) return;
    await db.session(async (session) => {
      if (!(await isAlone(session, 'what was tried while the clock was ahead'))) return;
      await work(time, stop);
      if (stop.aborted || time.getTime() - setBackAt.getTime() < recordedMs) return;
      await session.query({
        text: 'UPDATE time_seen SET set_back_at = NULL WHERE set_back_at = $1',
        values: [setBackAt],
      });
    });
  };
}

/** Notes the database's time for all nodes. */
async function seeTime(db: Database): Promise<{ time: Date; setBackAt: Date | null }> {
  const [row] = await db.query<{ time: Date; setBackAt: Date | null }>({
    text: `INSERT INTO time_seen AS t (seen_at) VALUES (now())
               ON CONFLICT (id) DO UPDATE
              SET seen_at = excluded.seen_at,
                  set_back_at = CASE WHEN t.seen_at > excluded.seen_at + make_interval(secs => ${apartMs / 1_000}) THEN excluded.seen_at
                                     ELSE t.set_back_at END
           RETURNING seen_at AS time, set_back_at AS "setBackAt"`,
  });
  if (!row) throw new Error('the database does not say what time it is');
  return row;
}
