import type { Database, Sql } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import { letGo, type Queue } from '../../queue.ts';
import { givenBack } from '../recipients/recipients.ts';
import type { Settled } from '../recipients/settlement-events.ts';
import { crashedNote, pausedUntil } from '../recipients/waiting-for.ts';
import { emitUnanswered, holdUnanswered } from './unanswered.ts';

/** A node not seen for this long is dead, and its claims are freed. */
export const deadAfterMs = 30_000;

/** The same while a node starts: it does not know how long the database was away, during which no node could be seen. */
const deadAtStartAfterMs = 60_000;

/** After this many crashes in a row a recipient is tried at a random time, apart from the others that were in hand with it. */
const triedApartAfter = 3;

/** After this many it is held until somebody decides: it may be what causes them. */
const heldAfter = 20;

/** Is told of recipients that are held from now on, because their node is gone. */
export interface HeldListener {
  /** The node crashed, as several did before while they had this recipient in hand. */
  onCrashes(held: { emailId: string; crashes: number }): void;
  /** These may have got the message. Called in the transaction that holds them. */
  onUnanswered(tx: Sql, held: Settled[]): Promise<void>;
}

/** Logs crashes, and emits the webhook events of recipients that may have got the message. */
export const reportHeld = (log: Logger, queue: Queue): HeldListener => ({
  onCrashes: (held) =>
    log.error(held, 'a recipient of this email is held: process after process ended while delivering to it'),
  onUnanswered: (tx, held) => emitUnanswered(tx, queue, held),
});

/**
 * Puts this process on the list of nodes. Dead nodes are removed from it, and their claims are freed.
 *
 * @param alone true if no other node can be running (the embedded database has one user): all nodes on the list are dead
 * @returns how many nodes deliver mail now
 */
export async function register(
  db: Database,
  node: { id: string; hostname: string; roles: string[] },
  alone: boolean,
  listener: HeldListener,
): Promise<number> {
  return db.transaction(async (tx) => {
    await removeUnseen(tx, alone ? 0 : deadAtStartAfterMs, listener);
    await tx.query({
      text: 'INSERT INTO nodes (id, hostname, roles) VALUES ($1, $2, $3)',
      values: [node.id, node.hostname, node.roles],
    });
    const [row] = await tx.query<{ senders: number }>({ text: `SELECT ${countOfSenders} AS senders FROM nodes` });
    return row?.senders ?? 0;
  });
}

const countOfSenders = `count(*) FILTER (WHERE 'mta' = ANY(roles))::int`;

/**
 * Says that this node is alive.
 *
 * @returns how many nodes deliver mail, whether the service is on hold, and the database's time; null if this node itself
 *   was taken for dead: its claims now belong to others
 */
export async function beat(
  db: Database,
  nodeId: string,
): Promise<{ senders: number; onHold: boolean; time: Date } | null> {
  const rows = await db.query({
    text: 'UPDATE nodes SET seen_at = now() WHERE id = $1 RETURNING id',
    values: [nodeId],
  });
  if (rows.length === 0) return null;
  const [row] = await db.query<{ senders: number; onHold: boolean; time: Date }>({
    text: `SELECT ${countOfSenders} AS senders, EXISTS (SELECT FROM service_hold) AS "onHold",
                  clock_timestamp() AS time FROM nodes`,
  });
  return row ?? null;
}

/** Whether a node that delivers mail is alive. */
export async function anyDelivers(db: Database): Promise<boolean> {
  const alive = await db.query({
    text: `SELECT FROM nodes WHERE 'mta' = ANY(roles) AND seen_at > now() - make_interval(secs => $1) LIMIT 1`,
    values: [deadAfterMs / 1000],
  });
  return alive.length > 0;
}

/** Removes this node, which stops in good order. Anything that it still holds becomes due for the others. */
export async function unregister(db: Database, nodeId: string, listener: HeldListener): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [nodeId] });
    // Their outcome could not be recorded before the node stopped.
    await hold(tx, [nodeId], listener);
    await free(tx, 'recipients', [nodeId], givenBack);
    await free(tx, 'webhook_deliveries', [nodeId], letGo);
  });
}

/**
 * Removes nodes that have not been seen for `deadAfterMs`, and frees their claims. It may wait for locks on those, and fail
 * because of them: a node must not depend on it to stay alive itself.
 */
export async function removeDead(db: Database, listener: HeldListener): Promise<void> {
  await db.transaction((tx) => removeUnseen(tx, deadAfterMs, listener));
}

/** Removes a node that is known to have crashed, and frees its claims. */
export async function removeCrashed(db: Database, nodeId: string, listener: HeldListener): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [nodeId] });
    await freeAfterCrash(tx, [nodeId], listener);
  });
}

/** Removes all nodes, when none can be running, and frees their claims. */
export async function removeAll(db: Database, listener: HeldListener): Promise<void> {
  await db.transaction((tx) => removeUnseen(tx, 0, listener));
}

/** @param unseenForMs 0: removes all */
async function removeUnseen(tx: Sql, unseenForMs: number, listener: HeldListener): Promise<void> {
  const dead = await tx.query<{ id: string }>({
    text: `DELETE FROM nodes WHERE seen_at < now() - make_interval(secs => $1) OR $1 = 0 RETURNING id`,
    values: [unseenForMs / 1000],
  });
  const nodeIds = dead.map(({ id }) => id);
  if (nodeIds.length > 0) await freeAfterCrash(tx, nodeIds, listener);
}

/** Holds the recipients of these nodes that may have got the message, if their email asks for that. */
async function hold(tx: Sql, nodeIds: string[], listener: HeldListener): Promise<void> {
  const held = await holdUnanswered(tx, nodeIds);
  if (held.length > 0) await listener.onUnanswered(tx, held);
}

/**
 * A single message may have crashed the nodes, and would crash every other node that takes it. Nobody knows which one, so
 * recipients that were in hand at several crashes are tried apart, and one that was in hand at each is held in the end.
 */
async function freeAfterCrash(tx: Sql, nodeIds: string[], listener: HeldListener): Promise<void> {
  await hold(tx, nodeIds, listener);
  const countingCrash = `${letGo}, crashes = crashes + 1,
                next_attempt_at = CASE WHEN crashes + 1 >= ${heldAfter} THEN '${pausedUntil.toISOString()}'::timestamptz
                                       WHEN crashes + 1 >= ${triedApartAfter} THEN now() + random() * make_interval(secs => crashes + 1)
                                       ELSE next_attempt_at END,
                waiting_for = CASE WHEN crashes + 1 >= ${heldAfter} THEN '${crashedNote}' ELSE waiting_for END`;
  type Freed = { emailId: string; crashes: number };
  const freed = await free<Freed>(tx, 'recipients', nodeIds, countingCrash, 'email_id AS "emailId", crashes');
  for (const recipient of freed) if (recipient.crashes >= heldAfter) listener.onCrashes(recipient);
  await free(tx, 'webhook_deliveries', nodeIds, letGo);
}

/** Frees the claims of these nodes, so that others can claim the rows. @param changes SQL: what is set in each row */
async function free<Row extends object>(
  tx: Sql,
  table: 'recipients' | 'webhook_deliveries',
  nodeIds: string[],
  changes: string,
  returning = '1',
): Promise<Row[]> {
  return tx.query<Row>({
    text: `UPDATE ${table} SET ${changes}
            WHERE job_id IS NOT NULL AND claimed_by = ANY($1) RETURNING ${returning}`,
    values: [nodeIds],
  });
}
