import type { Database, Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import { notFound } from '../../errors.ts';
import type { Queue } from '../../queue.ts';
import { failThose, inOneOrder, stoppedForAll } from '../recipients/settlement.ts';
import { isDueOrTried, isUnsettled, type Key, queryAllWaiting, walk } from '../recipients/waiting.ts';
import { heldNotes, heldNotesInSql } from '../recipients/waiting-for.ts';
import { domainOf } from './destinations.ts';

/** Gives up all mail that waits for one domain, whoever sent it, such as for a domain that is gone or was mistyped. */

/** The recipients at a domain that are not settled. Scheduled ones count only from their time on. */
export interface Waiting {
  domain: string;
  /** Those that would be given up. */
  waiting: number;
  /** In the hands of a node: the message may be on its way. */
  inHand: number;
  /** Held until the owner of the email decides. */
  held: number;
}

/** What one call did, and what it left. */
export interface GivenUp extends Omit<Waiting, 'waiting'> {
  /** How many were given up. */
  stopped: number;
  /** There are more: the call is to be repeated. */
  rest: boolean;
}

/** How much one call does, and who is told. */
export interface Giving {
  /** The most recipients of a batch. */
  size?: number;
  /** How long the call works. */
  ms?: number;
  /** Whether it was typed on the command line. */
  isTyped?: boolean;
  /** Is told how many a batch gave up, once that is committed: what follows may fail, and this cannot be undone. */
  onStopped?: (stopped: number) => void;
}

/** As many as are settled together at the end of a hold. */
const batchSize = 500;

/** How long one call works. */
const callMs = 5_000;

/** SQL: a recipient `r` at `$1` that can be given up; `$2` are the notes of those that are held. */
const canBeGivenUp = `r.destination = $1 AND r.claimed_by IS NULL AND ${isDueOrTried} AND coalesce(r.waiting_for <> ALL ($2), true)`;

/**
 * @param name a domain, and not the name of a site: what cannot be undone is never done for all domains of a provider
 * @throws ApiError 404 if it is not a domain
 */
export async function findWaiting(db: Database, name: string): Promise<Waiting> {
  const domain = domainIn(name);
  const [row] = await queryAllWaiting<Omit<Waiting, 'domain'>>(db, {
    text: `SELECT count(*) FILTER (WHERE ${canBeGivenUp})::int AS waiting,
                  count(*) FILTER (WHERE r.claimed_by IS NOT NULL)::int AS "inHand",
                  count(*) FILTER (WHERE r.claimed_by IS NULL AND r.waiting_for = ANY ($2))::int AS held
             FROM recipients r
            WHERE ${isUnsettled} AND r.destination = $1`,
    values: [domain, heldNotes],
  });
  return { domain, ...(row ?? { waiting: 0, inHand: 0, held: 0 }) };
}

/** Those at the domain that cannot be given up. Reads none of the others: they may be millions, and are counted after each call. */
async function findLeftAlone(db: Database, domain: string): Promise<Pick<Waiting, 'inHand' | 'held'>> {
  const [row] = await db.query<Pick<Waiting, 'inHand' | 'held'>>({
    // The notes are in the text: only then is it known that an index has just these.
    text: `SELECT count(*) FILTER (WHERE claimed_by IS NOT NULL)::int AS "inHand", count(*) FILTER (WHERE claimed_by IS NULL)::int AS held
             FROM (SELECT claimed_by FROM recipients
                    WHERE job_id IS NULL AND next_attempt_at IS NOT NULL AND waiting_for IN (${heldNotesInSql}) AND destination = $1
                    UNION ALL
                   SELECT claimed_by FROM recipients
                    WHERE job_id IS NOT NULL AND next_attempt_at IS NOT NULL AND destination = $1
                      AND (claimed_by IS NOT NULL OR waiting_for IN (${heldNotesInSql}))) left_alone`,
    values: [domain],
  });
  return row ?? { inHand: 0, held: 0 };
}

/**
 * Makes recipients that wait for this domain fail for good, in batches, each in its own transaction. Those that a node has in
 * hand, that wait for their scheduled time, or that are held for the decision of their owner are left alone; so is mail that
 * is accepted later.
 *
 * @param name as for `findWaiting`
 * @param reason is shown to the owners of the mail, after what was done
 * @throws ApiError 404 if it is not a domain
 */
export async function giveUp(
  db: Database,
  queue: Queue,
  name: string,
  reason: string | null,
  { size = batchSize, ms = callMs, isTyped = false, onStopped = () => {} }: Giving = {},
): Promise<GivenUp> {
  const domain = domainIn(name);
  const lastResponse = stoppedForAll(domain, reason, isTyped);
  const end = performance.now() + ms;
  let stopped = 0;
  let hasBegun = false;
  const selection = { due: 'true', wanted: canBeGivenUp, values: [domain, heldNotes], withJob: true };
  // Not before the first batch: the next call would have to read again what comes before that.
  const isOver = () => hasBegun && performance.now() >= end;
  const isDone = await walk(db, selection, { size, isOver }, async (keys) => {
    const batch = await db.transaction((tx) => giveUpBatch(tx, queue, keys, { domain, lastResponse }));
    if (batch.webhookDeliveries > 0) queue.webhooks.wake();
    stopped += batch.stopped;
    onStopped(batch.stopped);
    hasBegun = true;
  });
  const { inHand, held } = await findLeftAlone(db, domain);
  return { domain, stopped, inHand, held, rest: !isDone };
}

async function giveUpBatch(
  tx: Sql,
  queue: Queue,
  keys: Key[],
  { domain, lastResponse }: { domain: string; lastResponse: string },
): Promise<{ stopped: number; webhookDeliveries: number }> {
  const ordered = inOneOrder(keys);
  // Locked in the order in which nodes settle recipients, as they may at this moment: otherwise the two could deadlock.
  await tx.query({
    text: `SELECT FROM recipients r JOIN unnest(${unseen('$1::uuid[]')}, ${unseen('$2::smallint[]')}) AS k (email_id, position)
               ON r.email_id = k.email_id AND r.position = k.position
            ORDER BY r.email_id, r.position FOR NO KEY UPDATE OF r`,
    values: [ordered.map(({ emailId }) => emailId), ordered.map(({ position }) => position)],
  });
  const { failed, webhookDeliveries } = await failThose(tx, queue, keys, {
    condition: canBeGivenUp,
    values: [domain, heldNotes],
    lastResponse,
  });
  return { stopped: failed, webhookDeliveries };
}

/** @throws ApiError 404 */
function domainIn(name: string): string {
  const domain = domainOf(name);
  if (domain === null) throw notFound();
  return domain;
}
