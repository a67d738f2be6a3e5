import type { Database, Sql } from '../../db/client.ts';
import { isAway, isUnavailable } from '../../db/errors.ts';
import { unseen } from '../../db/prepared.ts';
import { Batcher } from '../../pace/batcher.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { isSame, letGo, type Queue } from '../../queue.ts';
import type { Claim } from '../recipients/recipients.ts';
import { inOneOrder } from '../recipients/settlement.ts';
import { emitEvents, type Settled, settledAtOnce } from '../recipients/settlement-events.ts';
import { heldNote, pausedUntil, unansweredNote } from '../recipients/waiting-for.ts';

/**
 * Recipients of emails with `on_uncertain: hold` get a note (`unansweredNote`) just before the final dot. Only their node knows
 * how the attempt ends. If the node dies, the note tells the node that frees its claims to hold them. The record of the
 * attempt replaces the note, and so does the next claim.
 */

const lastResponse =
  'A server was stopped after the whole message and before an answer to it was recorded. It may have been taken.';

/** Writes the notes; those of the same moment share one statement. */
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
   * @throws the error of the database for these recipients alone
   */
  async note(claim: Claim, addresses: string[]): Promise<boolean> {
    const recipients = claim.recipients.filter(({ address }) => addresses.includes(address));
    const noted = await this.#batcher.add({ claim, positions: recipients.map(({ position }) => position) });
    if (noted instanceof Error) throw noted;
    return noted;
  }
}

/** A final dot that is about to be written, and its recipients. */
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
  // One of the rows may be locked; the others must not fail because of it.
  const results: (boolean | Error)[] = [];
  let outage: Error | null = null;
  for (const dot of dots) {
    const noted: boolean | Error = outage ?? (await noteAll(db, [dot]))[0] ?? false;
    if (noted instanceof Error && isUnavailable(noted)) outage = noted;
    results.push(noted);
  }
  return results;
}

async function note(tx: Sql, dots: Dot[]): Promise<boolean[]> {
  const rows = inOneOrder(
    dots.flatMap(({ claim, positions }, index) => positions.map((position) => ({ ...claim, position, index }))),
  );
  // A server is waiting for the dot, and one locked row would hold up the notes of all emails of this process.
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
      rows.map(({ emailId }) => emailId),
      rows.map(({ position }) => position),
      rows.map(({ jobId }) => jobId),
      rows.map(({ nodeId }) => nodeId),
      rows.map(({ index }) => index),
    ],
  });
  const counts = Map.groupBy(noted, ({ index }) => index);
  return dots.map(({ positions }, index) => counts.get(index)?.length === positions.length);
}

/**
 * Holds the recipients with a note that these nodes left behind, as after an attempt without an answer. The attempt itself is
 * logged from the node's journal: it alone knows over which session the message was sent.
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

/** Emits the events of held recipients, in the transaction that holds them. */
export async function emitUnanswered(tx: Sql, queue: Queue, held: Settled[]): Promise<void> {
  // Webhooks are not woken: this node's dispatcher looks every second, and a node that stops no longer has one.
  for (const some of byWeight(held, settledAtOnce, () => 1)) await emitEvents(tx, queue, some, []);
}
