import type { Database, Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import { newId } from '../../ids.ts';
import type { Queue } from '../../queue.ts';
import { inOneOrder, settleAs, type Undecided } from '../recipients/settlement.ts';
import { type Key, walk } from '../recipients/waiting.ts';
import { heldNotes } from '../recipients/waiting-for.ts';

/**
 * The whole service on hold: it accepts mail, and begins no delivery and no webhook call until somebody says so. A
 * database that was restored from a backup does not know what was sent since the backup, and would send it again.
 */

/** What may be done with mail that was due when the hold began: whether it was sent meanwhile nobody knows. */
export const choices = ['send', 'fail'] as const;
export type Choice = (typeof choices)[number];

const batchSize = 500;

/** The latest: whoever ends a hold is asked about them. */
const startsKept = 20;

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

/**
 * What each node does when it starts: notes that it did where the service is on hold already, and begins a hold where that is
 * asked for. The hold may have come with a backup that was made during it, and have ended in what this is a copy of: nobody
 * but whoever restored it knows (see `beginnings`).
 */
export async function noteStart(db: Sql, isAskedFor: boolean): Promise<void> {
  await db.query({
    text: `UPDATE service_hold SET starts = (starts || now())[greatest(cardinality(starts) + 2 - $1, 1):]`,
    values: [startsKept],
  });
  if (isAskedFor) await begin(db);
}

/** Since when the service is on hold; null: it is not. */
export async function find(db: Sql): Promise<Date | null> {
  const [row] = await db.query<{ since: Date }>({ name: 'hold-find', text: 'SELECT since FROM service_hold' });
  return row?.since ?? null;
}

/** How many recipients were due or put aside when the hold began, and wait. */
export async function countWaiting(db: Database): Promise<number> {
  const since = await find(db);
  return since ? countDueBy(db, since) : 0;
}

/** A moment from which on this database may have been the only one that knew of mail, and what was due by then and waits. */
export interface Beginning {
  at: Date;
  waiting: number;
}

/** When the hold began, and the starts during it: each may have been the first one on a copy that was made during the hold. */
export interface Beginnings {
  first: Beginning;
  /** The first one too, where nobody has started since. */
  last: Beginning;
  starts: Date[];
}

/** @returns null: there is no hold */
export async function beginnings(db: Database): Promise<Beginnings | null> {
  const [row] = await db.query<{ since: Date; starts: Date[] }>({ text: 'SELECT since, starts FROM service_hold' });
  if (!row) return null;
  const { since, starts } = row;
  const first = { at: since, waiting: await countDueBy(db, since) };
  const latest = starts.at(-1);
  const last = latest ? { at: latest, waiting: await countDueBy(db, latest) } : first;
  return { first, last, starts };
}

/** How many recipients were due by then or put aside, and wait. */
export async function countDueBy(db: Database, time: Date): Promise<number> {
  let count = 0;
  await walkInDoubt(db, time, 10 * batchSize, async (keys) => {
    count += keys.length;
  });
  return count;
}

async function walkInDoubt(
  db: Database,
  dueBy: Date,
  size: number,
  work: (keys: Key[]) => Promise<void>,
): Promise<void> {
  const some = { due: 'true', wanted: inDoubt('$1'), values: [dueBy], withJob: true };
  await walk(db, some, { size }, work);
}

/**
 * Lets deliveries begin again. What became due only after the hold began is sent in either case.
 *
 * @param choice `send`: all that was due is sent, where it was sent since the backup a second time; `fail`: it fails, and
 *   says why
 * @param onProgress told how many recipients have failed so far
 * @param dueBy what was due then fails; left out: when the hold began
 * @returns how many recipients failed; it can be called again when it was cut short
 */
export async function end(
  db: Database,
  queue: Queue,
  choice: Choice,
  onProgress: (failed: number) => void = () => undefined,
  dueBy?: Date,
): Promise<{ failed: number }> {
  let failed = 0;
  const since = await find(db);
  for (let before = -1; choice === 'fail' && since !== null && before < failed; ) {
    before = failed;
    const doubt = { since, dueBy: dueBy ?? since };
    await walkInDoubt(db, doubt.dueBy, batchSize, async (keys) => {
      failed += await db.transaction((tx) => failSome(tx, queue, keys, doubt));
      onProgress(failed);
    });
  }
  // Not one that somebody has begun since.
  await db.query({ text: 'DELETE FROM service_hold WHERE since = $1', values: [since] });
  return { failed };
}

async function failSome(tx: Sql, queue: Queue, keys: Key[], doubt: { since: Date; dueBy: Date }): Promise<number> {
  // As if a node had claimed them, so that the one way to settle recipients serves here as well. What a living node holds
  // is under way, and ends by itself. What is locked, as by whoever makes a job for it just now, is waited for: passed over, it would be sent.
  const claim = { nodeId: newId(), jobId: newId() };
  const ordered = inOneOrder(keys);
  // Where the hold was ended meanwhile, by somebody who decided otherwise, nothing is in doubt any more.
  const waiting = await tx.query<Undecided>({
    text: `UPDATE recipients r SET claimed_by = $1, job_id = $2
             FROM unnest(${unseen('$3::uuid[]')}, ${unseen('$4::smallint[]')}) AS k (email_id, position)
            WHERE r.email_id = k.email_id AND r.position = k.position AND r.next_attempt_at IS NOT NULL
              AND EXISTS (SELECT FROM service_hold WHERE since = $5) AND ${inDoubt('$6')} AND (r.claimed_by IS NULL OR r.claimed_by NOT IN (SELECT id FROM nodes))
        RETURNING r.email_id AS "emailId", r.position, r.attempts`,
    values: [
      claim.nodeId,
      claim.jobId,
      ordered.map(({ emailId }) => emailId),
      ordered.map(({ position }) => position),
      doubt.since,
      doubt.dueBy,
    ],
  });
  await settleAs(tx, queue, claim, waiting, {
    status: 'failed',
    lastResponse:
      'not sent after the service was on hold, as was decided: it may have been sent before, by what this database is a copy of',
  });
  return waiting.length;
}
