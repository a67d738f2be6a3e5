import type { Database, Sql } from '../../db/client.ts';
import { beforeAllIds, newId } from '../../ids.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { isWaitingJob, letGo, type Queue } from '../../queue.ts';

/**
 * The lines of deliveries that wait for the endpoints. The queue holds only the head of each line; the rest waits as due
 * rows. So a search for work scans at most `roomInQueue` deliveries of an endpoint, even if a million wait, and only a
 * handful while the endpoint does not answer.
 */

const roomInQueue = 500;

/** Concurrent calls to one endpoint by one node, and the limit of its jobs in the queue while it does not answer. */
export const callsAtOnce = 4;

/** An endpoint that has answered within this time is assumed to go on answering. */
const answersFor = '1 minute';

/** The least time between two updates of `answered_at`: an endpoint that answers all the time causes few writes. */
export const answerNotedEvery = '20 seconds';

/** What people wait for comes first, and endpoints that fail last. */
export const priorities = { asked: 20, normal: 10, failing: 0 };

/** SQL: whether this endpoint has only failed for a while. A failure among successes does not count. */
export const isFailing = (w: string) => `coalesce(${w}.failing_since < now() - interval '10 seconds', false)`;

/** SQL: whether its account misses events: calls to it fail, or it was switched off because they did. Not if its owner switched it off. */
export const isMissingEvents = (w: string) =>
  `(${w}.status = 'enabled' AND ${w}.failing_since IS NOT NULL OR ${w}.disabled_reason IS NOT NULL)`;

/** SQL: whether this endpoint has answered lately and is not failing. */
export const isAnswering = (w: string) =>
  `coalesce(NOT ${isFailing(w)} AND ${w}.answered_at > now() - interval '${answersFor}', false)`;

/** SQL: how many more jobs this endpoint may have in the queue. */
export const roomOf = (w: string) =>
  `greatest(0, CASE WHEN ${isAnswering(w)} THEN ${roomInQueue} ELSE ${callsAtOnce} END
     - (SELECT count(*) FROM (SELECT FROM webhook_deliveries b WHERE b.webhook_id = ${w}.id AND b.job_id IS NOT NULL
                               LIMIT ${roomInQueue}) busy))::int`;

/** A delivery to be made. */
export interface Draft {
  id: string;
  accountId: string;
  webhookId: string;
  emailId: string | null;
  event: string;
  payload: string;
  /** Whether it gets a job at once. */
  woken: boolean;
}

/** Characters of payload written at once: a payload names all recipients of its email, and is written once per endpoint. */
const charactersAtOnce = 4_000_000;

/** The weight of a delivery besides its payload, in characters. */
const charactersOfRow = 2_000;

/**
 * Writes deliveries and their jobs, with two statements per few megabytes.
 *
 * @param queue null: none gets a job at once; the next round wakes them
 */
export async function insert(
  tx: Sql,
  queue: Queue | null,
  drafts: Draft[],
  priority: number = priorities.normal,
): Promise<void> {
  const parts = byWeight(drafts, charactersAtOnce, ({ payload }) => payload.length + charactersOfRow);
  for (const part of parts) await insertPart(tx, queue, part, priority);
}

async function insertPart(tx: Sql, queue: Queue | null, drafts: Draft[], priority: number): Promise<void> {
  const jobIds = drafts.map((draft) => (queue && draft.woken ? newId() : null));
  await tx.query({
    name: 'webhook-deliveries-insert',
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, job_id, next_attempt_at)
           SELECT *, now() FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::uuid[])`,
    values: [
      drafts.map((draft) => draft.id),
      drafts.map((draft) => draft.accountId),
      drafts.map((draft) => draft.webhookId),
      drafts.map((draft) => draft.emailId),
      drafts.map((draft) => draft.event),
      drafts.map((draft) => draft.payload),
      jobIds,
    ],
  });
  await queue?.webhooks.enqueue(
    tx,
    drafts.flatMap(({ id: deliveryId, webhookId }, index) => {
      const jobId = jobIds[index];
      return jobId ? [{ id: jobId, deliveryId, webhookId, priority }] : [];
    }),
  );
}

/** SQL: why deliveries for this endpoint end; null while it takes calls. `w` is the alias of a LEFT JOIN. */
export const endingOf = (w: string) =>
  `CASE WHEN ${w}.id IS NULL THEN 'the endpoint was deleted' WHEN ${w}.status <> 'enabled' THEN 'the endpoint was disabled' END`;

/** The most that one round takes on. */
const endedAtOnce = 1_000;
const wokenAtOnce = 5_000;

/**
 * Makes jobs for due deliveries, those that waited longest first, as many as each endpoint has room for in the queue. Ends
 * deliveries whose endpoint is deleted or disabled, due or not.
 *
 * @returns how many were woken, and whether there may be more to do at once
 */
export async function wakeDue(db: Database, queue: Queue): Promise<{ woken: number; more: boolean }> {
  const result = await db.transaction(async (tx) => {
    const rows = await findDue(tx);
    if (rows.length === 0) return { woken: 0, more: false };
    const ending = rows.filter((row) => row.ending !== null);
    const due = rows
      .filter((row) => row.ending === null)
      .map((row) => ({
        id: newId(),
        deliveryId: row.id,
        webhookId: row.webhook_id,
        priority: row.failing ? priorities.failing : priorities.normal,
      }));
    await tx.query({
      name: 'webhook-deliveries-wake',
      text: `UPDATE webhook_deliveries d
                SET job_id = r.job_id, error = r.ending,
                    status = CASE WHEN r.ending IS NULL THEN d.status ELSE 'failed' END,
                    next_attempt_at = CASE WHEN r.ending IS NULL THEN d.next_attempt_at END
               FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS r (id, job_id, ending) WHERE d.id = r.id`,
      values: [
        [...due.map((job) => job.deliveryId), ...ending.map((row) => row.id)],
        [...due.map((job) => job.id), ...ending.map(() => null)],
        [...due.map(() => null), ...ending.map((row) => row.ending)],
      ],
    });
    await queue.webhooks.enqueue(tx, due);
    return { woken: due.length, more: rows.length >= wokenAtOnce || ending.length >= endedAtOnce };
  });
  if (result.woken > 0) queue.webhooks.wake();
  return result;
}

interface DueRow {
  id: string;
  webhook_id: string;
  /** As `endingOf` gives it. */
  ending: string | null;
  failing: boolean;
}

async function findDue(tx: Sql): Promise<DueRow[]> {
  return tx.query<DueRow>({
    name: 'webhook-deliveries-due',
    // The first part steps from endpoint to endpoint through the index, without reading all deliveries of each.
    text: `WITH RECURSIVE waiting AS (
             (SELECT webhook_id FROM webhook_deliveries WHERE job_id IS NULL AND next_attempt_at IS NOT NULL
               ORDER BY webhook_id LIMIT 1)
             UNION ALL
             SELECT (SELECT d.webhook_id FROM webhook_deliveries d
                      WHERE d.job_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.webhook_id > waiting.webhook_id
                      ORDER BY d.webhook_id LIMIT 1)
               FROM waiting WHERE waiting.webhook_id IS NOT NULL),
           lines AS MATERIALIZED (
             SELECT waiting.webhook_id, ${endingOf('w')} AS ending, ${isFailing('w')} AS failing, ${roomOf('w')} AS room
               FROM waiting LEFT JOIN webhooks w ON w.id = waiting.webhook_id WHERE waiting.webhook_id IS NOT NULL)
           SELECT due.id, lines.webhook_id, lines.ending, lines.failing
             FROM lines CROSS JOIN LATERAL (
               SELECT d.id FROM webhook_deliveries d
                WHERE d.webhook_id = lines.webhook_id AND d.job_id IS NULL AND d.next_attempt_at IS NOT NULL
                  AND d.next_attempt_at <= CASE WHEN lines.ending IS NULL THEN now() ELSE 'infinity' END
                ORDER BY d.next_attempt_at LIMIT CASE WHEN lines.ending IS NULL THEN lines.room ELSE ${endedAtOnce} END
                  FOR UPDATE SKIP LOCKED) due
            LIMIT ${wokenAtOnce}`,
  });
}

/** How far a sweep has got. */
export interface Place {
  webhookId: string;
  deliveryId: string;
}

/**
 * Checks one stretch of the deliveries that have a job, and makes those due again whose job is gone or whose node no
 * longer exists.
 *
 * @param after where the last stretch ended; null starts from the beginning
 * @returns where this one ended; null when it reached the end
 */
export async function sweep(
  db: Database,
  after: Place | null,
  limit: number,
): Promise<{ freed: number; next: Place | null }> {
  const [row] = await db.query<{ freed: number; seen: number; webhook_id: string | null; id: string | null }>({
    text: `WITH stretch AS (
             SELECT webhook_id, id, job_id, claimed_by FROM webhook_deliveries
              WHERE job_id IS NOT NULL AND (webhook_id, id) > ($1::uuid, $2::uuid)
              ORDER BY webhook_id, id LIMIT $3),
           orphans AS (
             SELECT s.* FROM stretch s
              WHERE (s.claimed_by IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = s.claimed_by))
                 OR (s.claimed_by IS NULL AND NOT ${isWaitingJob('s.job_id', 'webhook')})),
           freed AS (
             UPDATE webhook_deliveries d SET ${letGo}
               FROM orphans o
              WHERE d.id = o.id AND d.job_id = o.job_id AND d.claimed_by IS NOT DISTINCT FROM o.claimed_by
          RETURNING 1)
           SELECT (SELECT count(*)::int FROM freed) AS freed, (SELECT count(*)::int FROM stretch) AS seen, last.webhook_id, last.id
             FROM (SELECT 1) one LEFT JOIN LATERAL (
               SELECT webhook_id, id FROM stretch ORDER BY webhook_id DESC, id DESC LIMIT 1) last ON true`,
    values: [after?.webhookId ?? beforeAllIds, after?.deliveryId ?? beforeAllIds, limit],
  });
  if (!row) return { freed: 0, next: null };
  const { freed, seen, webhook_id: webhookId, id: deliveryId } = row;
  return { freed, next: seen < limit || !webhookId || !deliveryId ? null : { webhookId, deliveryId } };
}
