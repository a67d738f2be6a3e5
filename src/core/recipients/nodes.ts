import type { Database, Sql } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import { letGo, type Queue } from '../../queue.ts';
import { givenBack } from './recipients.ts';
import type { Settled } from './settlement-events.ts';
import { holdUnanswered, tellUnanswered } from './unanswered.ts';
import { crashedNote, pausedUntil } from './waiting-for.ts';

/** A node not seen for this long is dead, and its claims are free. */
export const deadAfterMs = 30_000;

/** A process that starts does not know how long the database was away, during which no node could be seen. */
const surelyDeadAfterMs = 60_000;

/** After this many processes in a row ended with it, a recipient is tried at a time of its own: one of many is the cause. */
const suspectAfter = 3;

/** After this many it is held until somebody decides: it may be the cause. */
const heldAfter = 20;

/** Is told of the recipients that are held from now on. */
export interface Witness {
  /** Process after process ended while it had this recipient. */
  crashed(held: { emailId: string; crashes: number }): void;
  /** Recipients of a dead node that may have got the message; part of the transaction. */
  unanswered(tx: Sql, held: Settled[]): Promise<void>;
}

const nobody: Witness = { crashed: () => undefined, unanswered: async () => undefined };

/** Logs crashes for whoever runs the service, and tells subscribers of the unanswered. */
export const tellHeld = (log: Logger, queue: Queue): Witness => ({
  crashed: (held) =>
    log.error(held, 'a recipient of this email is held: a process ended each time that it had it in hand'),
  unanswered: (tx, held) => tellUnanswered(tx, queue, held),
});

/**
 * Puts this process on the list of nodes.
 *
 * @param alone true if no other node can be running (the embedded database has one user): every node still on the list is
 *   dead, and its claims are freed at once
 */
export async function register(
  db: Database,
  node: { id: string; hostname: string; roles: string[] },
  alone: boolean,
  witness = nobody,
): Promise<void> {
  await db.transaction(async (tx) => {
    await removeAndFree(tx, alone ? 0 : surelyDeadAfterMs, witness);
    await tx.query({
      text: 'INSERT INTO nodes (id, hostname, roles) VALUES ($1, $2, $3)',
      values: [node.id, node.hostname, node.roles],
    });
  });
}

/**
 * Says that this node is alive.
 *
 * @returns how many nodes deliver mail, whether the service is on hold, and the database's time; null if this node itself
 *   was buried: its claims now belong to others
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
    text: `SELECT count(*) FILTER (WHERE 'mta' = ANY(roles))::int AS senders, EXISTS (SELECT FROM service_hold) AS "onHold",
                  clock_timestamp() AS time FROM nodes`,
  });
  return row ?? null;
}

/**
 * Takes nodes off the list that have not reported for long, and frees their claims. It may wait for locks on those, and fail
 * because of them: it must never be part of what keeps the living alive.
 */
export async function buryDead(db: Database, witness = nobody): Promise<void> {
  await db.transaction((tx) => removeAndFree(tx, deadAfterMs, witness));
}

/** Whether a node that delivers mail was seen lately. */
export async function someoneDelivers(db: Database): Promise<boolean> {
  const alive = await db.query({
    text: `SELECT FROM nodes WHERE 'mta' = ANY(roles) AND seen_at > now() - make_interval(secs => $1) LIMIT 1`,
    values: [deadAfterMs / 1000],
  });
  return alive.length > 0;
}

/** Takes all nodes off the list, when none can be running, and frees their claims. */
export async function buryAll(db: Database, witness = nobody): Promise<void> {
  await db.transaction((tx) => removeAndFree(tx, 0, witness));
}

/** Takes this node off the list; anything it still holds becomes due for the others. */
export async function retire(db: Database, nodeId: string, witness = nobody): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [nodeId] });
    // Those whose result could not be recorded before it stopped.
    await holdMaybeSent(tx, [nodeId], witness);
    await free(tx, 'recipients', [nodeId], givenBack);
    await free(tx, 'webhook_deliveries', [nodeId], letGo);
  });
}

/** The same for a node that is known to be dead. */
export async function bury(db: Database, nodeId: string, witness = nobody): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [nodeId] });
    await freeOfDead(tx, [nodeId], witness);
  });
}

async function removeAndFree(tx: Sql, unseenForMs: number, witness: Witness): Promise<void> {
  const dead = await tx.query<{ id: string }>({
    text: `DELETE FROM nodes WHERE seen_at < now() - make_interval(secs => $1) OR $1 = 0 RETURNING id`,
    values: [unseenForMs / 1000],
  });
  if (dead.length > 0)
    await freeOfDead(
      tx,
      dead.map((node) => node.id),
      witness,
    );
}

async function holdMaybeSent(tx: Sql, nodeIds: string[], witness: Witness): Promise<void> {
  const held = await holdUnanswered(tx, nodeIds);
  if (held.length > 0) await witness.unanswered(tx, held);
}

/**
 * One message may be what ended them, and would end every process that takes it. Nobody knows which: recipients that were in
 * hand again and again are tried one by one, and the one whose turn it is each time is held.
 */
async function freeOfDead(tx: Sql, nodeIds: string[], witness: Witness): Promise<void> {
  await holdMaybeSent(tx, nodeIds, witness);
  const until = `'${pausedUntil.toISOString()}'::timestamptz`;
  const counted = `${letGo}, crashes = crashes + 1,
                next_attempt_at = CASE WHEN crashes + 1 >= ${heldAfter} THEN ${until}
                                       WHEN crashes + 1 >= ${suspectAfter} THEN now() + random() * make_interval(secs => crashes + 1)
                                       ELSE next_attempt_at END,
                waiting_for = CASE WHEN crashes + 1 >= ${heldAfter} THEN '${crashedNote}' ELSE waiting_for END`;
  const freed = await free<{ email_id: string; crashes: number }>(
    tx,
    'recipients',
    nodeIds,
    counted,
    'email_id, crashes',
  );
  for (const { email_id: emailId, crashes } of freed) if (crashes >= heldAfter) witness.crashed({ emailId, crashes });
  await free(tx, 'webhook_deliveries', nodeIds, letGo);
}

/** Makes what these nodes held due again. */
async function free<Row extends object>(
  tx: Sql,
  table: 'recipients' | 'webhook_deliveries',
  nodeIds: string[],
  changes: string,
  told = '1',
): Promise<Row[]> {
  return tx.query<Row>({
    text: `UPDATE ${table} SET ${changes}
            WHERE job_id IS NOT NULL AND claimed_by = ANY($1) RETURNING ${told}`,
    values: [nodeIds],
  });
}
