import { codeOf, type Database, isUnavailable, type Sql } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Keyring } from '../seal.ts';
import { addUp, forgetZeros } from './email-counts.ts';
import { Redaction, type Work } from './erased.ts';
import { type Cleaned, cancelSome, eraseSome, isLeft } from './erasing-emails.ts';
import { eraseAnswers, eraseSuppression } from './erasing-records.ts';
import { type Counts, lock, note, openErasure, type PendingErasure, pending, type SealedErasure } from './erasures.ts';

const emailsAtOnce = 20;

/**
 * Erases what was asked for, as far as that can be done now: what is being sent at this moment is waited for, by the next
 * round. Each batch is a transaction of its own, and what it did is not found again, so a process that is killed loses one
 * batch, and the next goes on. Of several nodes one does it.
 *
 * @param stop ends it after a batch
 */
export async function eraseDue(
  db: Database,
  keyring: Keyring,
  log: Pick<Logger, 'warn'>,
  stop: AbortSignal,
): Promise<void> {
  const eraseSealed = async (one: SealedErasure) => erase(db, openErasure(keyring, one), { stop });
  let waiting = await pending(db, null);
  if (waiting.length === 0) return;
  await db.session(async (session) => {
    const [row] = await session.query<{ mine: boolean }>({
      text: `SELECT pg_try_advisory_lock(hashtext('sendwright erasures')) AS mine`,
    });
    if (!row?.mine) return;
    for (; waiting.length > 0; waiting = await pending(db, waiting.at(-1)?.id ?? null)) {
      for (const one of waiting) {
        if (stop.aborted) return;
        // One that fails does not keep the others waiting.
        await eraseSealed(one).catch((error: Error) =>
          log.warn({ erasureId: one.id, error: error.message }, 'an erasure failed; it is tried again'),
        );
      }
    }
  });
}

export interface ErasingOptions {
  /** Told how much of it is done, after each batch. */
  onProgress?: (counts: Counts) => void;
  /** Ends it after a batch. */
  stop?: AbortSignal;
}

/** The same for one, whoever else is at work. @returns whether it is done, by whomever */
export async function erase(
  db: Database,
  { id, accountId, address }: PendingErasure,
  options: ErasingOptions = {},
): Promise<boolean> {
  const work: Work = { id, accountId, redaction: new Redaction(address) };
  const each = <Place>(step: Step<Place>) => repeat(db, id, step, options);
  const erasing =
    (most: number): Step<Cleaned> =>
    (tx, counts, place) =>
      eraseSome(tx, work, counts, most, place ?? new Map());
  await each<string>((tx, counts, place) => cancelSome(tx, work, counts, place));
  await each(erasing(emailsAtOnce)).catch(async (error) => {
    // Many megabytes each can be too much together, for a statement or for us.
    if (isUnavailable(error) && codeOf(error) !== tookTooLong) throw error;
    await each(erasing(1));
  });
  await each<string>((tx, counts, place) => eraseAnswers(tx, work, counts, place));
  if (options.stop?.aborted) return false;
  // What is under way is waited for; before that there is no end to the numbers.
  if (await isLeft(db, work)) return false;
  // A tag that named the address is counted under another name by now, and what is left of its number is nothing.
  await addUp(db, 'after another');
  await forgetZeros(db);
  return db.transaction((tx) => finish(tx, work));
}

const tookTooLong = '57014';

/** @param place where the last one ended; null: at the beginning. @returns where this one ended; null: it was the last */
type Step<Place> = (tx: Sql, counts: Counts, place: Place | null) => Promise<Place | null>;

/** Does steps, each in a transaction with what it counts, until one was the last, or the erasure is done. */
async function repeat<Place>(
  db: Database,
  id: string,
  step: Step<Place>,
  { onProgress, stop }: ErasingOptions,
): Promise<void> {
  let place: Place | null = null;
  do {
    place = await db.transaction(async (tx): Promise<Place | null> => {
      const state = await lock(tx, id);
      if (!state) return null;
      const next = await step(tx, state.counts, place);
      await note(tx, id, state.counts, false);
      onProgress?.(state.counts);
      return next;
    });
  } while (place !== null && !stop?.aborted);
}

async function finish(tx: Sql, work: Work): Promise<boolean> {
  const state = await lock(tx, work.id);
  if (!state) return true;
  if (await isLeft(tx, work)) return false;
  const { keepsSuppression, counts } = state;
  counts.suppressions += await eraseSuppression(tx, work, keepsSuppression);
  await note(tx, work.id, counts, true);
  return true;
}
