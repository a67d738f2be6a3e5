import type { Database } from '../../db/client.ts';
import { isBuilt } from '../../db/indexes.ts';
import type { WebhookDeliveryStatus } from '../../generated/prisma/enums.ts';

/** Which deliveries of an account; a field that is undefined matches all. */
export interface DeliveryFilter {
  webhookId: string | undefined;
  emailId: string | undefined;
  event: string | undefined;
  status: WebhookDeliveryStatus | undefined;
}

/** Nobody pages further than this, and there may be some for each email. Those of one email are all counted. */
const mostCounted = 10_000;

/**
 * One page of the account's deliveries, newest first, and how many match; if `countExact` is false, there are more than that.
 *
 * @param most where counting ends
 */
export async function search(
  db: Database,
  accountId: string,
  filter: DeliveryFilter,
  page: { limit: number; offset: number },
  most = filter.emailId === undefined ? mostCounted : Number.MAX_SAFE_INTEGER - 1,
): Promise<{ ids: string[]; count: number; countExact: boolean }> {
  const { found, values } = await matching(db, accountId, filter);
  const [limit, offset] = [`$${values.length + 1}`, `$${values.length + 2}`];
  // Each line of deliveries gives as many as the page may need of it.
  const rows = await db.query<{ id: string }>({
    text: `SELECT id FROM (${found(`${limit}::bigint + ${offset}::bigint`, 'newest')}) found
            ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`,
    values: [...values, page.limit, page.offset],
  });
  // The limit within each line keeps PostgreSQL from comparing all deliveries with the states.
  const upTo = `$${values.length + 1}`;
  const [counted] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM (SELECT FROM (${found(upTo, 'any')}) found LIMIT ${upTo}) counted`,
    values: [...values, most + 1],
  });
  const count = counted?.count ?? 0;
  return { ids: rows.map(({ id }) => id), count: Math.min(count, most), countExact: count <= most };
}

/** SQL that selects the ids of what matches, in lines, of which each has up to `limit`: the newest, or whichever are found first. */
type Found = (limit: string, which: 'newest' | 'any') => string;

async function matching(
  db: Database,
  accountId: string,
  { webhookId, emailId, event, status }: DeliveryFilter,
): Promise<{ found: Found; values: unknown[] }> {
  const values: unknown[] = [accountId];
  const parts = ['account_id = $1'];
  const add = (value: unknown, condition: (parameter: string) => string) => {
    if (value !== undefined) parts.push(condition(`$${values.push(value)}`));
  };
  add(webhookId, (p) => `webhook_id = ${p}`);
  add(emailId, (p) => `email_id = ${p}`);
  const isOfState = status !== undefined || event !== undefined;
  if (emailId !== undefined || !isOfState || !(await isBuilt(db, 'webhook_deliveries_state_idx'))) {
    add(event, (p) => `event = ${p}`);
    add(status, (p) => `status = ${p}::webhook_delivery_status`);
    const text = `SELECT id FROM webhook_deliveries WHERE ${parts.join(' AND ')}`;
    return {
      found: (limit, which) => `${text} ${which === 'newest' ? 'ORDER BY id DESC' : ''} LIMIT ${limit}`,
      values,
    };
  }
  const states = statesOf(
    status && `$${values.push(status)}::webhook_delivery_status`,
    event && `$${values.push(event)}`,
  );
  // Where all of a week's deliveries have one state, PostgreSQL expects that of any other as many, and would read them all by
  // account. About a range it assumes that little is in it, and this order is that of the index of states alone.
  const where = [...parts, 'status = state.status', 'event BETWEEN state.event AND state.event'].join(' AND ');
  // That gives the newest of each line at no cost, also where any would do.
  const found: Found = (limit) =>
    `SELECT of_state.id FROM (${states}) state
      CROSS JOIN LATERAL (SELECT id FROM webhook_deliveries WHERE ${where} ORDER BY event, id DESC LIMIT ${limit}) of_state`;
  return { found, values };
}

/**
 * SQL: each status and event for which `webhook_deliveries_state_idx` may have a line. An event that only another release knows
 * is found in the index as well.
 *
 * @param status SQL; undefined: all
 * @param event SQL; undefined: all
 */
function statesOf(status: string | undefined, event: string | undefined): string {
  const statuses = status ? `ARRAY[${status}]` : 'enum_range(NULL::webhook_delivery_status)';
  if (event) return `SELECT status, ${event}::text AS event FROM unnest(${statuses}) status`;
  const next = (after: string) =>
    `(SELECT d.event FROM webhook_deliveries d WHERE d.account_id = $1 AND d.status = one.status ${after} ORDER BY d.event LIMIT 1)`;
  return `WITH RECURSIVE one AS (
            SELECT one.status, ${next('')} AS event FROM unnest(${statuses}) one (status)
            UNION ALL
            SELECT one.status, ${next('AND d.event > one.event')} FROM one WHERE one.event IS NOT NULL)
          SELECT status, event FROM one WHERE event IS NOT NULL`;
}
