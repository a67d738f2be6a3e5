import type { Database, Sql } from '../db/client.ts';
import { letGo, type QueueName, removing } from '../queue.ts';

/** A node not seen for this long is dead, and what it had claimed is free. */
export const deadAfterMs = 30_000;

/** Whoever starts has not seen how long the database was away, when nobody could be seen. */
const surelyDeadAfterMs = 60_000;

/**
 * Puts this process on the list of nodes.
 *
 * @param alone true where no other node can be running (the embedded database has one user): whoever is still on the
 *   list died, and what it held is free at once
 */
export async function register(
  db: Database,
  node: { id: string; hostname: string; roles: string[] },
  alone: boolean,
): Promise<void> {
  await db.transaction(async (tx) => {
    await removeAndFree(tx, alone ? 0 : surelyDeadAfterMs);
    await tx.query({
      text: 'INSERT INTO nodes (id, hostname, roles) VALUES ($1, $2, $3)',
      values: [node.id, node.hostname, node.roles],
    });
  });
}

/**
 * Says that this node is alive, and buries those that are not.
 *
 * @param buries false: leaves that to others, or to later
 * @returns how many nodes deliver mail, whether all is on hold, and the database's time; null when this node has been buried itself: what it had
 *   claimed now belongs to others
 */
export async function beat(
  db: Database,
  nodeId: string,
  buries = true,
): Promise<{ senders: number; onHold: boolean; time: Date } | null> {
  const rows = await db.query({
    text: 'UPDATE nodes SET seen_at = now() WHERE id = $1 RETURNING id',
    values: [nodeId],
  });
  if (rows.length === 0) return null;
  if (buries) await db.transaction((tx) => removeAndFree(tx, deadAfterMs));
  const [row] = await db.query<{ senders: number; onHold: boolean; time: Date }>({
    text: `SELECT count(*) FILTER (WHERE 'mta' = ANY(roles))::int AS senders, EXISTS (SELECT FROM service_hold) AS "onHold",
                  clock_timestamp() AS time FROM nodes`,
  });
  return row ?? null;
}

/** Whether a node that delivers mail was seen lately. */
export async function someoneDelivers(db: Database): Promise<boolean> {
  const alive = await db.query({
    text: `SELECT FROM nodes WHERE 'mta' = ANY(roles) AND seen_at > now() - make_interval(secs => $1) LIMIT 1`,
    values: [deadAfterMs / 1000],
  });
  return alive.length > 0;
}

/** Takes all nodes off the list, where none can be running; what they held is free. */
export async function buryAll(db: Database): Promise<void> {
  await db.transaction((tx) => removeAndFree(tx, 0));
}

/** Takes a node off the list, this one or one that is dead; anything it still holds becomes due for the others. */
export async function retire(db: Database, nodeId: string): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [nodeId] });
    await free(tx, [nodeId]);
  });
}

async function removeAndFree(tx: Sql, unseenForMs: number): Promise<void> {
  const dead = await tx.query<{ id: string }>({
    text: `DELETE FROM nodes WHERE seen_at < now() - make_interval(secs => $1) OR $1 = 0 RETURNING id`,
    values: [unseenForMs / 1000],
  });
  if (dead.length > 0)
    await free(
      tx,
      dead.map((node) => node.id),
    );
}

/** Makes what these nodes held due again, and removes the jobs that woke it, which nobody would answer to. */
async function free(tx: Sql, nodeIds: string[]): Promise<void> {
  const held: [table: string, queue: QueueName][] = [
    ['recipients', 'deliver'],
    ['webhook_deliveries', 'webhook'],
  ];
  for (const [table, queue] of held) {
    await tx.query({
      text: `WITH held AS (SELECT DISTINCT job_id AS id FROM ${table} WHERE job_id IS NOT NULL AND claimed_by = ANY($1)),
                  removed AS (${removing(queue, 'SELECT id FROM held')})
             UPDATE ${table} SET ${letGo}
              WHERE job_id IS NOT NULL AND claimed_by = ANY($1)`,
      values: [nodeIds],
    });
  }
}
