import type { Database, Sql } from '../../db/client.ts';
import { databaseTime, dueFromNow } from '../../db/clocks.ts';
import { conflict, notFound } from '../../errors.ts';
import type { WebhookDelivery } from '../../generated/prisma/client.ts';
import { floorId, isId, newId, timeOf } from '../../ids.ts';
import type { Queue } from '../../queue.ts';
import { type DeliveryFilter, search } from './delivery-search.ts';
import { insert, priorities } from './webhook-lines.ts';
import * as webhooks from './webhooks.ts';

/** The event of a test call. Nobody subscribes to it, and it is tried once. */
export const testEvent = 'webhook.test';

/** How many deliveries one replay takes on. */
const replayedAtOnce = 10_000;

/** Later than every other. */
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** What a list shows: not the payload, which names all recipients of the email, but what people know the email by. */
export interface ListedDelivery extends Omit<WebhookDelivery, 'payload'> {
  /** The first recipient that the event is about, or else of the email; null if there is no email. */
  recipient: string | null;
  /** Null if there is no email. */
  subject: string | null;
}

/** One page of the account's deliveries, newest first, and how many match; if `countExact` is false, there are more than that. */
export async function list(
  db: Database,
  accountId: string,
  filter: DeliveryFilter,
  page: { limit: number; offset: number },
): Promise<{ deliveries: ListedDelivery[]; count: number; countExact: boolean }> {
  const { ids, count, countExact } = await search(db, accountId, filter, page);
  const rows = await db.prisma.webhookDelivery.findMany({
    where: { id: { in: ids }, accountId },
    orderBy: { id: 'desc' },
    omit: { payload: true },
  });
  const known = await findNames(db, accountId, ids);
  const deliveries = rows.map((row) => ({ ...row, ...(known.get(row.id) ?? { recipient: null, subject: null }) }));
  return { deliveries, count, countExact };
}

type Names = Pick<ListedDelivery, 'recipient' | 'subject'>;

/** What these deliveries say about their emails, by id. */
async function findNames(db: Database, accountId: string, ids: string[]): Promise<Map<string, Names>> {
  const rows = await db.query<Names & { id: string }>({
    text: `SELECT id, coalesce(data #>> '{recipients,0,address}', data #>> '{to,0}') AS recipient, data ->> 'subject' AS subject
             FROM webhook_deliveries, LATERAL (SELECT payload::json -> 'data' AS data) AS event
            WHERE account_id = $1 AND id = ANY($2)`,
    values: [accountId, ids],
  });
  return new Map(rows.map(({ id, ...names }) => [id, names]));
}

/** @throws ApiError 404 */
export async function get(db: Database, accountId: string, id: string): Promise<WebhookDelivery> {
  const delivery = isId(id) ? await db.prisma.webhookDelivery.findFirst({ where: { id, accountId } }) : null;
  if (!delivery) throw notFound();
  return delivery;
}

/**
 * Sends a delivery again now, whatever its status; a finished one starts its schedule over. A delivery that is being sent,
 * or is about to be, does not change.
 *
 * @throws ApiError 404, or 409 when its endpoint is deleted or disabled
 */
export async function retry(db: Database, queue: Queue, accountId: string, id: string): Promise<WebhookDelivery> {
  const { webhookId } = await get(db, accountId, id);
  await db.transaction(async (tx) => {
    await demandEnabled(tx, accountId, webhookId);
    const job = { id: newId(), deliveryId: id, webhookId, priority: priorities.asked };
    const rows = await tx.query({
      text: `UPDATE webhook_deliveries
                SET attempt_count = CASE WHEN status = 'pending' THEN attempt_count ELSE 0 END,
                    status = 'pending', error = NULL, next_attempt_at = ${dueFromNow}, job_id = $3
              WHERE id = $1 AND account_id = $2 AND job_id IS NULL RETURNING id`,
      values: [id, accountId, job.id],
    });
    if (rows.length > 0) await queue.webhooks.enqueue(tx, [job]);
  });
  queue.webhooks.wake(priorities.asked);
  return get(db, accountId, id);
}

/**
 * Sends the endpoint's deliveries of a time range again, under the same ids, including those that succeeded. Those that wait
 * for another attempt are due at once, and keep their place in the schedule; those that are being sent, or are about to be, do
 * not change. Tests are left out. One call takes the oldest `replayedAtOnce`, plus any others of the same millisecond as the
 * last of them.
 *
 * @param range `until` null: to the newest, whatever the clock of the node that made it
 * @returns how many, and where to continue when there are more
 * @throws ApiError 404, or 409 when the endpoint is disabled
 */
export async function replay(
  db: Database,
  accountId: string,
  webhookId: string,
  range: { since: Date; until: Date | null },
): Promise<{ count: number; nextSince: Date | null }> {
  await webhooks.get(db, accountId, webhookId);
  return db.transaction(async (tx) => {
    await demandEnabled(tx, accountId, webhookId);
    const since = floorId(range.since);
    const idOfEnd = (end: Date | null) => (end ? floorId(end) : lastId);
    const isIdle = `(status <> 'pending' OR job_id IS NULL AND next_attempt_at > now())`;
    const chosen = `webhook_id = $1 AND id >= $2 AND id < $3 AND ${isIdle} AND event <> $4`;
    const [next] = await tx.query<{ id: string }>({
      text: `SELECT id FROM webhook_deliveries WHERE ${chosen} ORDER BY id OFFSET $5 LIMIT 1`,
      values: [webhookId, since, idOfEnd(range.until), testEvent, replayedAtOnce - 1],
    });
    // API times have whole milliseconds: a caller who continues after one must not skip the rest of it.
    const cut = next && new Date(timeOf(next.id).getTime() + 1);
    const nextSince = cut && (!range.until || cut < range.until) ? cut : null;
    // They get jobs when the endpoint has room for them.
    const rows = await tx.query({
      text: `WITH chosen AS (SELECT id FROM webhook_deliveries WHERE ${chosen} ORDER BY id FOR UPDATE)
             UPDATE webhook_deliveries d
                SET attempt_count = CASE WHEN status = 'pending' THEN attempt_count ELSE 0 END,
                    status = 'pending', error = NULL, next_attempt_at = ${dueFromNow}
               FROM chosen WHERE d.id = chosen.id RETURNING d.id`,
      values: [webhookId, since, idOfEnd(nextSince ?? range.until), testEvent],
    });
    return { count: rows.length, nextSince };
  });
}

/**
 * Queues a test call ahead of everything else that waits for the endpoint.
 *
 * @returns the delivery, whose only attempt will be made in a moment
 * @throws ApiError 404, or 409 when the endpoint is disabled
 */
export async function sendTest(
  db: Database,
  queue: Queue,
  accountId: string,
  askedFor: string,
): Promise<WebhookDelivery> {
  // An id may be in capitals: jobs and the endpoint need the form that is stored.
  const { id: webhookId } = await webhooks.get(db, accountId, askedFor);
  const id = newId();
  const payload = JSON.stringify({
    type: testEvent,
    created_at: (await databaseTime(db)).toISOString(),
    data: { webhook_id: webhookId, message: 'A test call, made on request. No email is behind it.' },
  });
  await db.transaction(async (tx) => {
    await demandEnabled(tx, accountId, webhookId);
    const draft = { id, accountId, webhookId, emailId: null, event: testEvent, payload, woken: true };
    await insert(tx, queue, [draft], priorities.asked);
  });
  queue.webhooks.wake(priorities.asked);
  return get(db, accountId, id);
}

async function demandEnabled(tx: Sql, accountId: string, webhookId: string): Promise<void> {
  const rows = await tx.query({
    text: `SELECT FROM webhooks WHERE id = $1 AND account_id = $2 AND status = 'enabled'`,
    values: [webhookId, accountId],
  });
  if (rows.length === 0) throw conflict('the endpoint is disabled or deleted: nothing is sent to it');
}
