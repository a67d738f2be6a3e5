import type { Keyring } from '../../crypto/seal.ts';
import { isAlone } from '../../db/alone.ts';
import type { Database, Sql } from '../../db/client.ts';
import { isAway } from '../../db/errors.ts';
import type { Logger } from '../../log.ts';
import { addUp } from '../log/email-counts.ts';
import { type Place as EmailPlace, type FoundEmails, findLeft } from './affected-emails.ts';
import { cancelWaiting } from './canceling.ts';
import { eraseOutliving, isOutlivingLeft } from './erasing-deliveries.ts';
import { eraseFromEmails, eraseFromOneEmail } from './erasing-emails.ts';
import { eraseAnswers } from './erasing-records.ts';
import type { Counts, PendingErasure, Work } from './erasures.ts';
import * as erasures from './erasures.ts';
import { Redaction } from './redaction.ts';

/**
 * Erases what was asked for, as far as that is possible now: what is being sent at this moment is left for the next round.
 * Each batch is its own transaction, and what it erased is not found again: a killed process loses one batch, and the next
 * process continues. Only one node at a time does this. Accounts take turns, including those that ask meanwhile.
 *
 * @param stop ends it after a batch
 * @param turnMs how long one account's turn lasts while others wait; it does at least one batch
 */
export async function eraseDue(
  db: Database,
  keyring: Keyring,
  log: Pick<Logger, 'warn'>,
  stop: AbortSignal,
  turnMs = 1_000,
): Promise<void> {
  let waiting = await erasures.accountsWaiting(db);
  if (waiting.length === 0) return;
  await db.session(async (session) => {
    if (!(await isAlone(session, 'erasures'))) return;
    const underWay = new Map<string, AsyncGenerator<void, void>>();
    do {
      for (const accountId of new Set([...underWay.keys(), ...waiting])) {
        const erasing = underWay.get(accountId) ?? eraseOf(db, keyring, log, accountId);
        if (await takeTurn(erasing, stop, turnMs)) underWay.set(accountId, erasing);
        else underWay.delete(accountId);
        if (stop.aborted) return;
      }
      waiting = underWay.size > 0 ? await erasures.accountsWaiting(db) : [];
    } while (underWay.size > 0);
  });
}

/** @returns whether there is more for the next turn */
async function takeTurn(erasing: AsyncGenerator<void, void>, stop: AbortSignal, turnMs: number): Promise<boolean> {
  const end = performance.now() + turnMs;
  do {
    if ((await erasing.next()).done) return false;
  } while (!stop.aborted && performance.now() < end);
  return true;
}

/** All pending erasures of an account, one after the other. */
async function* eraseOf(
  db: Database,
  keyring: Keyring,
  log: Pick<Logger, 'warn'>,
  accountId: string,
): AsyncGenerator<void, void> {
  let waiting = await erasures.pending(db, accountId, null);
  for (; waiting.length > 0; waiting = await erasures.pending(db, accountId, waiting.at(-1)?.id ?? null)) {
    for (const one of waiting) {
      try {
        yield* eraseInBatches(db, erasures.unseal(keyring, one));
      } catch (error) {
        // An erasure that fails does not keep the others waiting.
        log.warn({ erasureId: one.id, error: (error as Error).message }, 'an erasure failed; it is tried again');
      }
    }
  }
}

export interface ErasingOptions {
  /** Called with the counts so far after each batch. */
  onProgress?: (counts: Counts) => void;
  /** Ends it after a batch. */
  stop?: AbortSignal;
}

/** Does one erasure, even if another node is at work. @returns whether it is done, by this or any other process */
export async function erase(
  db: Database,
  one: PendingErasure,
  { onProgress, stop }: ErasingOptions = {},
): Promise<boolean> {
  const erasing = eraseInBatches(db, one, onProgress);
  for (;;) {
    const batch = await erasing.next();
    if (batch.done) return batch.value;
    if (stop?.aborted) return false;
  }
}

/** Yields after each batch. @returns whether the erasure is done */
async function* eraseInBatches(
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
    // Several emails of many megabytes can be too much for a statement, or for this process.
    if (isAway(error)) throw error;
    yield* each(eraseFromOneEmail);
  }
  // While mail is under way the erasure waits. The other searches would run once a second, for nothing.
  for await (const isLeft of lookForLeft(db, work)) {
    if (isLeft) return false;
    yield;
  }
  yield* each(eraseOutliving);
  yield* each(eraseAnswers);
  // A tag that named the address is now counted under another name; this takes the count of the old one down to zero.
  await addUp(db, 'after another');
  return db.transaction((tx) => finish(tx, work));
}

/** @param place where the last step ended; null: at the beginning. @returns where this one ended; null: it was the last */
type Step<Place> = (tx: Sql, work: Work, counts: Counts, place: Place | null) => Promise<Place | null>;

/** Repeats a step, each in one transaction with its counts, until the last one, or until the erasure is done. */
async function* repeat<Place>(
  db: Database,
  work: Work,
  step: Step<Place>,
  onProgress?: ErasingOptions['onProgress'],
): AsyncGenerator<void, void> {
  let place: Place | null = null;
  do {
    place = await db.transaction(async (tx): Promise<Place | null> => {
      const state = await erasures.lock(tx, work.id);
      if (!state) return null;
      const next = await step(tx, work, state.counts, place);
      await erasures.note(tx, work.id, state.counts);
      onProgress?.(state.counts);
      return next;
    });
    yield;
  } while (place !== null);
}

/** Yields after each stretch of the account's emails whether any of them is left to erase from. */
async function* lookForLeft(tx: Sql, work: Work): AsyncGenerator<boolean, void> {
  let place: EmailPlace | null = null;
  do {
    const { ids, next }: FoundEmails = await findLeft(tx, work, place);
    yield ids.length > 0;
    place = next;
  } while (place !== null);
}

/** @returns whether the erasure is done: nothing is left to erase */
async function finish(tx: Sql, work: Work): Promise<boolean> {
  const state = await erasures.lock(tx, work.id);
  if (!state) return true;
  for await (const isLeft of lookForLeft(tx, work)) if (isLeft) return false;
  if (await isOutlivingLeft(tx, work)) return false;
  const { keepsSuppression, counts } = state;
  counts.suppressions += await eraseSuppression(tx, work, keepsSuppression);
  await erasures.conclude(tx, work.id, counts);
  return true;
}

/** Deletes a suppression, or keeps it in force without its email. @returns how many were deleted */
async function eraseSuppression(tx: Sql, { accountId, redaction }: Work, keeps: boolean): Promise<number> {
  const rows = await tx.query({
    text: keeps
      ? 'UPDATE suppressions SET email_id = NULL WHERE account_id = $1 AND address = $2 RETURNING 1'
      : 'DELETE FROM suppressions WHERE account_id = $1 AND address = $2 RETURNING 1',
    values: [accountId, redaction.address],
  });
  return keeps ? 0 : rows.length;
}
