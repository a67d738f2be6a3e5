import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Sql } from '../../db/client.ts';
import { dueFromNow, noLater } from '../../db/clocks.ts';
import type { Queue } from '../../queue.ts';
import { failThose } from '../recipients/settlement.ts';
import { type Key, type Selection, walk } from '../recipients/waiting.ts';
import { heldNotesInSql } from '../recipients/waiting-for.ts';

/**
 * Puts the whole service on hold: it accepts mail, but starts no delivery and no webhook call until somebody ends the hold.
 * A database restored from a backup does not know what was sent since the backup, and would send it again.
 */

/** What to do with mail that was due when the hold began: it may or may not have been sent since the backup. */
export const choices = ['send', 'fail'] as const;
export type Choice = (typeof choices)[number];

const batchSize = 500;

/** A living node says so every five seconds. */
const silentAfterMs = 15_000;

/** The latest ones. The person who ends a hold is asked about them. */
const startsKept = 20;

/** SQL: a recipient `r` who does not wait for a decision of its own. */
const notHeld = `coalesce(r.waiting_for NOT IN (${heldNotesInSql}), true)`;

/**
 * SQL: a recipient `r` who may have been sent mail since the backup: one that was due, or that waited for a limit or a
 * pause, which may have ended. Recipients that wait for a decision of their own keep waiting for it.
 */
const inDoubt = (dueBy: string) =>
  `${notHeld}
                    AND (r.next_attempt_at <= ${dueBy} OR r.waiting_for IS NOT NULL)`;

/** All recipients in doubt. */
const allInDoubt = (dueBy: Date): Selection => ({
  due: 'true',
  wanted: inDoubt('$1'),
  values: [dueBy],
  withJob: true,
});

/** At most five seconds later no node starts a delivery any more; those under way finish. @returns since when */
export async function begin(db: Sql): Promise<Date> {
  const [row] = await db.query<{ since: Date }>({
    text: `INSERT INTO service_hold DEFAULT VALUES ON CONFLICT (id) DO UPDATE SET since = service_hold.since RETURNING since`,
  });
  return row?.since ?? new Date();
}

/**
 * Called by each node when it starts. Records the start if the service is already on hold, and begins a hold if asked to.
 * The hold may have come with a backup that was made during it, and may have ended in the original database: only the person
 * who restored it knows (see `beginnings`).
 */
export async function noteStart(db: Sql, isAskedFor: boolean): Promise<void> {
  await db.query({
    text: `UPDATE service_hold SET starts = (starts || now())[greatest(cardinality(starts) + 2 - $1, 1):]`,
    values: [startsKept],
  });
  if (isAskedFor) await begin(db);
}

/** Since when the service is on hold; null: it is not on hold. */
export async function find(db: Sql): Promise<Date | null> {
  const [row] = await db.query<{ since: Date }>({ name: 'hold-find', text: 'SELECT since FROM service_hold' });
  return row?.since ?? null;
}

/** How many recipients are in doubt: they were due when the hold began, or parked, and still wait. */
export async function countWaiting(db: Database): Promise<number> {
  const since = await find(db);
  return since ? countDueBy(db, since) : 0;
}

/** A moment since which only this database may know of new mail. */
export interface Beginning {
  at: Date;
  /** How many recipients were due by then, or parked, and still wait. */
  waiting: number;
}

/** When the hold began, and the starts during it: each may be the first on a copy that was made during the hold. */
export interface Beginnings {
  first: Beginning;
  /** The same as `first` if no node has started since. */
  last: Beginning;
  starts: Date[];
}

/** @returns null if there is no hold */
export async function beginnings(db: Database): Promise<Beginnings | null> {
  const [row] = await db.query<{ since: Date; starts: Date[] }>({ text: 'SELECT since, starts FROM service_hold' });
  if (!row) return null;
  const { since, starts } = row;
  const first = { at: since, waiting: await countDueBy(db, since) };
  const latest = starts.at(-1);
  const last = latest ? { at: latest, waiting: await countDueBy(db, latest) } : first;
  return { first, last, starts };
}

/** How many recipients were due by this time, or parked, and still wait. */
export const countDueBy = (db: Database, time: Date): Promise<number> => count(db, allInDoubt(time));

/** How many recipients are due now: what nodes begin with once nothing is on hold. */
export const countDue = (db: Database): Promise<number> =>
  count(db, { due: `next_attempt_at <= ${dueFromNow}`, wanted: notHeld, values: [], withJob: true });

async function count(db: Database, selection: Selection): Promise<number> {
  let counted = 0;
  await walk(db, selection, { size: 10 * batchSize }, async (keys) => {
    counted += keys.length;
  });
  return counted;
}

/**
 * Lets deliveries start again. Mail that became due only after the hold began is sent in either case.
 *
 * @param choice `send`: everything that was due is sent, even if that is the second time since the backup; `fail`: it fails,
 *   and says why
 * @param onProgress told how many recipients have failed so far
 * @param dueBy with `fail`, mail that was due by then fails; default: when the hold began
 * @returns how many recipients failed; if it was interrupted, it can be called again
 */
export async function end(
  db: Database,
  queue: Queue,
  choice: Choice,
  onProgress: (failed: number) => void = () => undefined,
  dueBy?: Date,
): Promise<{ failed: number }> {
  const since = await find(db);
  const failed =
    choice === 'fail' && since !== null ? await failAll(db, queue, { since, dueBy: dueBy ?? since }, onProgress) : 0;
  // Leaves a hold that was begun since.
  await db.query({ text: 'DELETE FROM service_hold WHERE since = $1', values: [since] });
  return { failed };
}

/** Whose delivery is in doubt: the hold that is being ended, and the time by which they were due. */
interface Doubt {
  since: Date;
  dueBy: Date;
}

/** Fails the recipients in doubt. It walks until it finds none, because a walk sees only what waits when it begins. */
async function failAll(
  db: Database,
  queue: Queue,
  doubt: Doubt,
  onProgress: (failed: number) => void,
): Promise<number> {
  // The hold may have begun while the clock of the database was ahead.
  const aliveSince = await noLater(db, doubt.dueBy);
  await awaitSilence(db, aliveSince);
  let failed = 0;
  let before: number;
  do {
    before = failed;
    await walk(db, allInDoubt(doubt.dueBy), { size: batchSize }, async (keys) => {
      failed += await db.transaction((tx) => failSome(tx, queue, keys, { ...doubt, aliveSince }));
      onProgress(failed);
    });
  } while (failed > before);
  return failed;
}

/**
 * Waits until every node on the list has been seen since then, for `silentAfterMs` at most: a node that has not been seen by then
 * came onto the list with the backup, or is dead.
 */
async function awaitSilence(db: Database, since: Date): Promise<void> {
  for (;;) {
    const unheard = await db.query({
      text: 'SELECT FROM nodes WHERE seen_at < $1 AND clock_timestamp() < $1 + make_interval(secs => $2) LIMIT 1',
      values: [since, silentAfterMs / 1000],
    });
    if (unheard.length === 0) return;
    await sleep(500);
  }
}

/**
 * Fails those that still wait. What a living node holds, one that has been seen since `aliveSince`, is under way, and finishes.
 *
 * @returns how many failed
 */
async function failSome(
  tx: Sql,
  queue: Queue,
  keys: Key[],
  { since, dueBy, aliveSince }: Doubt & { aliveSince: Date },
): Promise<number> {
  // If it skipped locked rows, such as those that get a job just now, they would be sent. If another call has ended the hold
  // meanwhile, with another decision, nothing is in doubt any more.
  const { failed } = await failThose(tx, queue, keys, {
    condition: `EXISTS (SELECT FROM service_hold WHERE since = $1) AND ${inDoubt('$2')}
              AND (r.claimed_by IS NULL OR r.claimed_by NOT IN (SELECT id FROM nodes WHERE seen_at >= $3))`,
    values: [since, dueBy, aliveSince],
    lastResponse: 'not sent after the service was on hold, as an operator decided: it may have been sent before',
  });
  return failed;
}
