import type { Database, Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import type { Queue } from '../../queue.ts';
import { failThose, inOneOrder } from './settlement.ts';
import { isDueOrTried, type Key, walk } from './waiting.ts';
import { heldNotesInSql } from './waiting-for.ts';

/** Gives up many recipients that wait, so that they fail for good. */

/** Which of the recipients that are not settled: SQL conditions on a recipient `r`, which share one list of values. */
export interface Concerned {
  of: string;
  /** The part of the condition by which an index leads to them; the others are not read. */
  within?: string;
  values: unknown[];
}

/** How much one call does, and who is told. */
export interface Giving {
  /** The most recipients of a batch. */
  size?: number;
  /** How long the call works from the first of them on that it finds. */
  ms?: number;
  /** Is told how many a batch gave up, once that is committed: what follows may fail, and this cannot be undone. */
  onStopped?: (stopped: number) => void;
}

/** The recipients that are not given up though they are concerned. */
export interface LeftAlone {
  /** In the hands of a node: the message may be on its way. */
  inHand: number;
  /** Held until the owner of the email decides. */
  held: number;
}

/** As many as are settled together at the end of a hold. */
export const batchSize = 500;

/** How long one call works from the first of them on that it finds. */
export const callMs = 5_000;

/** What one call did, and what it left. */
export interface GivenUp extends LeftAlone {
  /** How many were given up. */
  stopped: number;
  /** There was no time for all: the call is to be repeated. */
  rest: boolean;
}

/** SQL: a recipient `r` that can be given up. */
export const canBeGivenUp = `r.claimed_by IS NULL AND ${isDueOrTried} AND coalesce(r.waiting_for NOT IN (${heldNotesInSql}), true)`;

/**
 * Makes these recipients fail for good, in batches, each in its own transaction. Those that a node has in hand, that wait for
 * their scheduled time, or that are held are left alone; so is mail that is accepted later. What a node has in hand at first and
 * gives back meanwhile is given up too.
 *
 * @param lastResponse is shown to the owners of the mail
 */
export async function giveUpThose(
  db: Database,
  queue: Queue,
  concerned: Concerned,
  lastResponse: string,
  { size = batchSize, ms = callMs, onStopped = () => {} }: Giving,
): Promise<GivenUp> {
  const { of, within = 'true', values } = concerned;
  let stopped = 0;
  const condition = `${within} AND ${canBeGivenUp} AND ${of}`;
  const giveUp = async (keys: Key[]): Promise<number> => {
    const { failed, webhookDeliveries } = await db.transaction(async (tx) => {
      await lock(tx, keys);
      return failThose(tx, queue, keys, { condition, values, lastResponse });
    });
    if (webhookDeliveries > 0) queue.webhooks.wake();
    stopped += failed;
    onStopped(failed);
    return failed;
  };
  const wanted = `${within} AND (r.claimed_by IS NOT NULL OR ${canBeGivenUp}) AND ${of}`;
  const leftInBatches: Key[][] = [];
  const isDone = await walk(db, { due: within, wanted, values, withJob: true }, { size, ms }, async (keys) => {
    const failed = await giveUp(keys);
    if (failed < keys.length) leftInBatches.push(keys);
    return failed > 0;
  });
  // Counted before they are looked at again: so whatever was in hand and comes back is in the count, or is given up here.
  const leftAlone = await countLeftAlone(db, concerned);
  if (isDone) for (const keys of leftInBatches) await giveUp(keys);
  return { stopped, ...leftAlone, rest: !isDone };
}

/** In the order in which nodes settle recipients, as they may at this moment: otherwise the two could deadlock. */
async function lock(tx: Sql, keys: Key[]): Promise<void> {
  const ordered = inOneOrder(keys);
  await tx.query({
    text: `SELECT FROM recipients r JOIN unnest(${unseen('$1::uuid[]')}, ${unseen('$2::smallint[]')}) AS k (email_id, position)
               ON r.email_id = k.email_id AND r.position = k.position
            ORDER BY r.email_id, r.position FOR NO KEY UPDATE OF r`,
    values: [ordered.map(({ emailId }) => emailId), ordered.map(({ position }) => position)],
  });
}

/** Reads none of those that can be given up: they may be millions, and are counted after each call. */
async function countLeftAlone(db: Database, { of, within = 'true', values }: Concerned): Promise<LeftAlone> {
  const [row] = await db.query<LeftAlone>({
    // The notes are in the text: only then is it known that an index has just these.
    text: `SELECT count(*) FILTER (WHERE claimed_by IS NOT NULL)::int AS "inHand", count(*) FILTER (WHERE claimed_by IS NULL)::int AS held
             FROM (SELECT r.claimed_by FROM recipients r
                    WHERE r.job_id IS NULL AND r.next_attempt_at IS NOT NULL AND r.waiting_for IN (${heldNotesInSql}) AND ${within} AND ${of}
                    UNION ALL
                   SELECT r.claimed_by FROM recipients r
                    WHERE r.job_id IS NOT NULL AND r.next_attempt_at IS NOT NULL AND ${within} AND ${of}
                      AND (r.claimed_by IS NOT NULL OR r.waiting_for IN (${heldNotesInSql}))) left_alone`,
    values,
  });
  return row ?? { inHand: 0, held: 0 };
}
