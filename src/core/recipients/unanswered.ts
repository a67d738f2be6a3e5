import { Batcher } from '../../batcher.ts';
import { byWeight } from '../../by-weight.ts';
import { type Database, isAway, isUnavailable, type Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import { isSame, letGo, type Queue } from '../../queue.ts';
import type { Claim } from './recipients.ts';
import { inOneOrder } from './settlement.ts';
import { type Settled, tellOf } from './settlement-events.ts';
import { heldNote, pausedUntil, unansweredNote } from './waiting-for.ts';

/**
 * A recipient that is to be held if nobody knows whether it got the message has a note (`unansweredNote`) from just before
 * the final dot on. Only its node knows how the attempt ends; if the node dies, whoever frees its claims has to know this
 * much. The record of the attempt replaces the note; so does the next claim.
 */

const lastResponse =
  'A server was stopped between the whole message and the record of an answer to it. It may have been taken.';

/** Each may be told to many endpoints, with all the addresses of its email. */
const toldAtOnce = 400;

/** Recipients whose final dot is about to be written; those of the same moment share one statement. */
export class Unanswered {
  readonly #batcher: Batcher<Dot, boolean | Error>;

  constructor(db: Database) {
    this.#batcher = new Batcher((dots) => noteAll(db, dots), {
      most: 200,
      weigh: ({ positions }) => positions.length,
      heaviest: 2_000,
    });
  }

  /**
   * Notes that the final dot for these recipients of the claim is about to be written.
   *
   * @returns false if not all of them belong to the claim any more
   * @throws whatever the database says, about these alone
   */
  async note(claim: Claim, addresses: string[]): Promise<boolean> {
    const concerned = claim.recipients.filter(({ address }) => addresses.includes(address));
    const noted = await this.#batcher.add({ claim, positions: concerned.map(({ position }) => position) });
    if (noted instanceof Error) throw noted;
    return noted;
  }
}

interface Dot {
  claim: Claim;
  positions: number[];
}

async function noteAll(db: Database, dots: Dot[]): Promise<(boolean | Error)[]> {
  try {
    return await db.transaction((tx) => note(tx, dots));
  } catch (error) {
    if (dots.length === 1 || isAway(error)) return dots.map(() => error as Error);
  }
  // Somebody has locked one of them; the others must not fail for that.
  const each: (boolean | Error)[] = [];
  let silence: Error | null = null;
  for (const dot of dots) {
    each.push(...(silence === null ? await noteAll(db, [dot]) : [silence]));
    const noted = each.at(-1);
    if (noted instanceof Error && isUnavailable(noted)) silence = noted;
  }
  return each;
}

async function note(tx: Sql, dots: Dot[]): Promise<boolean[]> {
  const each = inOneOrder(
    dots.flatMap(({ claim, positions }, index) => positions.map((position) => ({ ...claim, position, index }))),
  );
  // A server is waiting for the dot, and the notes of all emails of this process would wait for one that is locked.
  await tx.query({ text: "SET LOCAL lock_timeout = '2s'" });
  const noted = await tx.query<{ index: number }>({
    name: 'unanswered-note',
    text: `UPDATE recipients r SET waiting_for = $1
             FROM unnest(${unseen('$2::uuid[]')}, ${unseen('$3::smallint[]')}, ${unseen('$4::uuid[]')}, ${unseen('$5::uuid[]')}, ${unseen('$6::integer[]')})
                  AS dot (email_id, position, job_id, node_id, index)
            WHERE r.email_id = dot.email_id AND r.position = dot.position AND r.job_id ${isSame} dot.job_id AND r.claimed_by = dot.node_id
        RETURNING dot.index`,
    values: [
      unansweredNote,
      each.map(({ emailId }) => emailId),
      each.map(({ position }) => position),
      each.map(({ jobId }) => jobId),
      each.map(({ nodeId }) => nodeId),
      each.map(({ index }) => index),
    ],
  });
  const counts = Map.groupBy(noted, ({ index }) => index);
  return dots.map(({ positions }, index) => counts.get(index)?.length === positions.length);
}

/**
 * Holds the recipients of these dead nodes that may have got the message and are to be held then, as after an attempt that
 * ended so. The log of attempts is left to the node's journal: it alone knows over which session the message was sent.
 */
export async function holdUnanswered(tx: Sql, nodeIds: string[]): Promise<Settled[]> {
  return tx.query<Settled>({
    text: `UPDATE recipients
              SET status = 'deferred', attempts = attempts + 1, next_attempt_at = $3, waiting_for = $4, last_response = $5, ${letGo}, crashes = 0
            WHERE job_id IS NOT NULL AND claimed_by = ANY($1) AND waiting_for = $2
        RETURNING account_id, email_id, address, status::text AS status, attempts, last_response, true AS uncertain, false AS undone`,
    values: [nodeIds, unansweredNote, pausedUntil, heldNote, lastResponse],
  });
}

/** Tells subscribers of held recipients, in the transaction that holds them. */
export async function tellUnanswered(tx: Sql, queue: Queue, held: Settled[]): Promise<void> {
  // Webhooks are not woken: this node's dispatcher looks every second, and a node that stops no longer has one.
  for (const some of byWeight(held, toldAtOnce, () => 1)) await tellOf(tx, queue, some);
}
