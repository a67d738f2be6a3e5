import { isAlone } from '../../db/alone.ts';
import { type Database, isAway, type Sql } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import type { Keyring } from '../../seal.ts';
import { addUp } from '../log/email-counts.ts';
import { Redaction, type Work } from '../returns/erased.ts';
import { areOutliving, eraseOutliving } from './erasing-deliveries.ts';
import { cancelWaiting, eraseFromEmails, eraseFromOneEmail, isLeft } from './erasing-emails.ts';
import { eraseAnswers } from './erasing-records.ts';
import { accountsWaiting, type Counts, lock, note, openErasure, type PendingErasure, pending } from './erasures.ts';

/**
 * Erases what was asked for, as far as that can be done now: what is being sent at this moment is waited for, by the next
 * round. Each batch is a transaction of its own, and what it did is not found again, so a process that is killed loses one
 * batch, and the next goes on. Of several nodes one does it. Accounts take turns, whoever asks meanwhile too.
 *
 * @param stop ends it after a batch
 * @param turnMs how long those of one account go on, a batch at the least, while those of others wait
 */
export async function eraseDue(
  db: Database,
  keyring: Keyring,
  log: Pick<Logger, 'warn'>,
  stop: AbortSignal,
  turnMs = 1_000,
): Promise<void> {
  let waiting = await accountsWaiting(db);
  if (waiting.length === 0) return;
  await db.session(async (session) => {
    if (!(await isAlone(session, 'erasures'))) return;
    const under = new Map<string, AsyncGenerator<void, void>>();
    do {
      for (const accountId of new Set([...under.keys(), ...waiting])) {
        const erasing = under.get(accountId) ?? eraseOf(db, keyring, log, accountId);
        if (await goOn(erasing, stop, turnMs)) under.set(accountId, erasing);
        else under.delete(accountId);
        if (stop.aborted) return;
      }
      waiting = under.size > 0 ? await accountsWaiting(db) : [];
    } while (under.size > 0);
  });
}

/** @returns whether there is more, for the next turn */
async function goOn(erasing: AsyncGenerator<void, void>, stop: AbortSignal, turnMs: number): Promise<boolean> {
  const end = performance.now() + turnMs;
  do {
    if ((await erasing.next()).done) return false;
  } while (!stop.aborted && performance.now() < end);
  return true;
}

/** All of an account that wait, one after the other. */
async function* eraseOf(
  db: Database,
  keyring: Keyring,
  log: Pick<Logger, 'warn'>,
  accountId: string,
): AsyncGenerator<void, void> {
  let waiting = await pending(db, accountId, null);
  for (; waiting.length > 0; waiting = await pending(db, accountId, waiting.at(-1)?.id ?? null)) {
    for (const one of waiting) {
      try {
        yield* batches(db, openErasure(keyring, one));
      } catch (error) {
        // One that fails does not keep the others waiting.
        log.warn({ erasureId: one.id, error: (error as Error).message }, 'an erasure failed; it is tried again');
      }
    }
  }
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
  one: PendingErasure,
  { onProgress, stop }: ErasingOptions = {},
): Promise<boolean> {
  const erasing = batches(db, one, onProgress);
  for (;;) {
    const batch = await erasing.next();
    if (batch.done) return batch.value;
    if (stop?.aborted) return false;
  }
}

/** Comes back after each batch. */
async function* batches(
  db: Database,
  { id, accountId, address }: PendingErasure,
  onProgress?: ErasingOptions['onProgress'],
): AsyncGenerator<void, boolean> {
  const work: Work = { id, accountId, redaction: new Redaction(address) };
  const each = <Place>(step: Step<Place>) => repeat(db, work, step, onProgress);
  yield* each(cancelWaiting);
  try {
    yield* each(eraseFromEmails);
  } catch (error) {
    // Many megabytes each can be too much together, for a statement or for us.
    if (isAway(error)) throw error;
    yield* each(eraseFromOneEmail);
  }
  // What is under way is waited for; all that is looked through otherwise would be, once a second, for nothing.
  if (await isLeft(db, work)) return false;
  yield* each(eraseOutliving);
  yield* each(eraseAnswers);
  // A tag that named the address is counted under another name by now, and its number comes down to nothing.
  await addUp(db, 'after another');
  return db.transaction((tx) => finish(tx, work));
}

/** @param place where the last one ended; null: at the beginning. @returns where this one ended; null: it was the last */
type Step<Place> = (tx: Sql, work: Work, counts: Counts, place: Place | null) => Promise<Place | null>;

/** Does steps, each in a transaction with what it counts, until one was the last, or the erasure is done. */
async function* repeat<Place>(
  db: Database,
  work: Work,
  step: Step<Place>,
  onProgress?: ErasingOptions['onProgress'],
): AsyncGenerator<void, void> {
  let place: Place | null = null;
  do {
    place = await db.transaction(async (tx): Promise<Place | null> => {
      const state = await lock(tx, work.id);
      if (!state) return null;
      const next = await step(tx, work, state.counts, place);
      await note(tx, work.id, state.counts, false);
      onProgress?.(state.counts);
      return next;
    });
    yield;
  } while (place !== null);
}

async function finish(tx: Sql, work: Work): Promise<boolean> {
  const state = await lock(tx, work.id);
  if (!state) return true;
  if ((await isLeft(tx, work)) || (await areOutliving(tx, work))) return false;
  const { keepsSuppression, counts } = state;
  counts.suppressions += await eraseSuppression(tx, work, keepsSuppression);
  await note(tx, work.id, counts, true);
  return true;
}

/** A suppression goes on holding, and forgets which email it came from; or goes as well. @returns how many there were */
async function eraseSuppression(tx: Sql, { accountId, redaction }: Work, keeps: boolean): Promise<number> {
  const rows = await tx.query({
    text: keeps
      ? 'UPDATE suppressions SET email_id = NULL WHERE account_id = $1 AND address = $2 RETURNING 1'
      : 'DELETE FROM suppressions WHERE account_id = $1 AND address = $2 RETURNING 1',
    values: [accountId, redaction.address],
  });
  return keeps ? 0 : rows.length;
}
