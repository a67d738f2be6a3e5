import type { Database, Sql } from '../db/client.ts';
import { unseen } from '../db/prepared.ts';
import { newId } from '../ids.ts';
import type { Queue } from '../queue.ts';
import { inOneOrder, settleAs, type Undecided } from './settlement.ts';
import { type Key, walk } from './waiting.ts';
import { heldNotes } from './waiting-for.ts';

/**
 * The whole service on hold: it accepts mail, and begins no delivery and no webhook call until somebody says so. A
 * database that was restored from a backup does not know what was sent since the backup, and would send it again.
 */

/** What may be done with mail that was due when the hold began: whether it was sent meanwhile nobody knows. */
export const choices = ['send', 'fail'] as const;
export type Choice = (typeof choices)[number];

const batchSize = 500;

/**
 * SQL: a recipient `r` whom mail may have been sent to since the backup: it was due, or put aside for a limit or a pause,
 * which may have ended. What waits for somebody's word goes on waiting for that.
 */
const inDoubt = (since: string) =>
  `coalesce(r.waiting_for NOT IN (${heldNotes.map((note) => `'${note}'`).join(', ')}), true)
                    AND (r.next_attempt_at <= ${since} OR r.waiting_for IS NOT NULL)`;

/** From within five seconds on no node begins a delivery; what is under way ends by itself. @returns since when */
export async function begin(db: Sql): Promise<Date> {
  const [row] = await db.query<{ since: Date }>({
    text: `INSERT INTO service_hold DEFAULT VALUES ON CONFLICT (id) DO UPDATE SET since = service_hold.since RETURNING since`,
  });
  return row?.since ?? new Date();
}

/** Since when the service is on hold; null: it is not. */
export async function find(db: Sql): Promise<Date | null> {
  const [row] = await db.query<{ since: Date }>({ name: 'hold-find', text: 'SELECT since FROM service_hold' });
  return row?.since ?? null;
}

/** How many recipients were due or put aside when the hold began, and wait. */
export async function countWaiting(db: Database): Promise<number> {
  let count = 0;
  await walkInDoubt(db, 10 * batchSize, async (keys) => {
    count += keys.length;
  });
  return count;
}

async function walkInDoubt(db: Database, size: number, work: (keys: Key[]) => Promise<void>): Promise<void> {
  const since = await find(db);
  if (since === null) return;
  const some = { due: 'true', wanted: inDoubt('$1'), values: [since], withJob: true };
  await walk(db, some, { size }, work);
}

/**
 * Lets deliveries begin again. What became due only after the hold began is sent in either case.
 *
 * @param choice `send`: all that was due is sent, where it was sent since the backup a second time; `fail`: it fails, and
 *   says why
 * @param onProgress told how many recipients have failed so far
 * @returns how many recipients failed; it can be called again when it was cut short
 */
export async function end(
  db: Database,
  queue: Queue,
  choice: Choice,
  onProgress: (failed: number) => void = () => undefined,
): Promise<{ failed: number }> {
  let failed = 0;
  for (let before = -1; choice === 'fail' && before < failed; ) {
    before = failed;
    await walkInDoubt(db, batchSize, async (keys) => {
      failed += await db.transaction((tx) => failSome(tx, queue, keys));
      onProgress(failed);
    });
  }
  await db.query({ text: 'DELETE FROM service_hold' });
  return { failed };
}

async function failSome(tx: Sql, queue: Queue, keys: Key[]): Promise<number> {
  // As if a node had claimed them, so that the one way to settle recipients serves here as well. What a living node holds
  // is under way, and ends by itself. What is locked, as by whoever makes a job for it just now, is waited for: passed over, it would be sent.
  const claim = { nodeId: newId(), jobId: newId() };
  const ordered = inOneOrder(keys);
  // Where the hold was ended meanwhile, by somebody who decided otherwise, nothing is in doubt any more.
  const waiting = await tx.query<Undecided>({
    text: `UPDATE recipients r SET claimed_by = $1, job_id = $2
             FROM unnest(${unseen('$3::uuid[]')}, ${unseen('$4::smallint[]')}) AS k (email_id, position)
            WHERE r.email_id = k.email_id AND r.position = k.position AND r.next_attempt_at IS NOT NULL
              AND EXISTS (SELECT FROM service_hold) AND ${inDoubt('(SELECT since FROM service_hold)')} AND (r.claimed_by IS NULL OR r.claimed_by NOT IN (SELECT id FROM nodes))
        RETURNING r.email_id AS "emailId", r.position, r.attempts`,
    values: [claim.nodeId, claim.jobId, ordered.map(({ emailId }) => emailId), ordered.map(({ position }) => position)],
  });
  await settleAs(tx, queue, claim, waiting, {
    status: 'failed',
    lastResponse:
      'not sent after the service was on hold, as was decided: it may have been sent before, by what this database is a copy of',
  });
  return waiting.length;
}
