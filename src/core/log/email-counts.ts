import type { Database, Sql } from '../../db/client.ts';
import { hasPartition, listPartitions } from '../../db/partitions.ts';
import type { EmailStatus } from '../../generated/prisma/enums.ts';
import { timeOf } from '../../ids.ts';
import type { Filter, Page } from './email-filter.ts';

const hourMs = 3_600_000;
const batchSize = 20_000;
const addingUp = `hashtext('sendwright email counts')`;

/** SQL: the kept counts, and the changes that are not added up yet. */
const countsWhere = (columns: string, where: string) =>
  `(SELECT ${columns} FROM email_counts WHERE ${where}
                   UNION ALL SELECT ${columns} FROM email_count_changes WHERE ${where}) counts`;

/** SQL: how many emails each account had accepted since then, as `account_id` and `emails`. @param since a parameter, such as `$4` */
export const acceptedSince = (since: string) =>
  `SELECT account_id, sum(emails) AS emails
     FROM ${countsWhere('account_id, emails', `facet = '' AND hour >= ${since}`)} GROUP BY account_id`;

/** How many emails match in a stretch of time, from `from` until before `to`. */
export interface Stretch {
  from: Date;
  to: Date;
  emails: number;
}

/**
 * The kept counts that answer this filter: `''`, `domain:…`, `from:…` or `tag:…`. Null if none do, because the filter asks
 * for words, a recipient, an API key or held emails, or for several of those at once.
 */
export function facetOf({ tag, from, domain, to, q, held, apiKeyId }: Filter): string | null {
  if (to !== null || q !== null || held || apiKeyId !== null) return null;
  // A sender address implies its domain.
  const ofDomain = from === null || !from.endsWith(`@${domain}`) ? domain : null;
  const facets = Object.entries({ tag, from, domain: ofDomain }).filter(([, value]) => value !== null);
  if (facets.length > 1) return null;
  return facets.map(([name, value]) => `${name}:${value}`)[0] ?? '';
}

/**
 * The whole hours between these times that have matching emails, newest first, without reading an email.
 *
 * @param facet as `facetOf` returns it
 */
export async function byHour(
  db: Database,
  facet: string,
  { accountId, status, type }: Pick<Filter, 'accountId' | 'status' | 'type'>,
  { from, to }: { from: Date | null; to: Date | null },
): Promise<Stretch[]> {
  const where = `facet = $1 AND ($2::uuid IS NULL OR account_id = $2) AND ($3::email_status IS NULL OR status = $3)
             AND ($4::email_type IS NULL OR type = $4) AND ($5::timestamptz IS NULL OR hour >= $5) AND ($6::timestamptz IS NULL OR hour < $6)`;
  const rows = await db.query<{ hour: Date; emails: number }>({
    text: `SELECT hour, sum(emails)::int AS emails
             FROM ${countsWhere('hour, emails', where)}
            GROUP BY hour HAVING sum(emails) > 0 ORDER BY hour DESC`,
    values: [facet, accountId, status, type, from, to],
  });
  return rows.map(({ hour, emails }) => ({ from: hour, to: new Date(hour.getTime() + hourMs), emails }));
}

/** How many emails of these accounts, accepted since then, have each status; an account without any has no entry. */
export async function byStatus(
  db: Database,
  accountIds: string[],
  since: Date,
): Promise<Map<string, Partial<Record<EmailStatus, number>>>> {
  const where = `facet = '' AND account_id = ANY($1) AND hour >= $2`;
  const rows = await db.query<{ id: string; status: EmailStatus; emails: number }>({
    name: 'email-counts-by-status',
    text: `SELECT account_id AS id, status, sum(emails)::int AS emails
             FROM ${countsWhere('account_id, status, emails', where)}
            GROUP BY 1, 2 HAVING sum(emails) <> 0 ORDER BY 1, 2`,
    values: [accountIds, since],
  });
  const byAccount = new Map<string, Partial<Record<EmailStatus, number>>>();
  for (const { id, status, emails } of rows) byAccount.set(id, { ...byAccount.get(id), [status]: emails });
  return byAccount;
}

/** The whole hours between two times; null if there is none. */
export function wholeHours({ createdAfter, createdBefore }: Filter): { from: Date | null; to: Date | null } | null {
  const from = createdAfter && new Date(Math.ceil(createdAfter.getTime() / hourMs) * hourMs);
  const to = createdBefore && new Date(Math.floor(createdBefore.getTime() / hourMs) * hourMs);
  return from && to && from >= to ? null : { from, to };
}

/**
 * The fewest of these stretches, newest first, that have the page and the email after it, and the stretches after those;
 * `offset` others come before the page's emails there.
 */
export function placeOf(
  stretches: Stretch[],
  { cursor, offset, limit }: Page,
): { taken: Stretch[]; rest: Stretch[]; offset: number } {
  // How many of the emails in the hour of the cursor come after it is not known.
  const isCut = ({ to }: Stretch) => cursor !== null && to > timeOf(cursor);
  const rest = cursor === null ? [...stretches] : stretches.filter(({ from }) => from <= timeOf(cursor));
  let toSkip = offset;
  while (cursor === null && rest[0] && rest[0].emails <= toSkip) toSkip -= rest.shift()?.emails ?? 0;
  let wanted = toSkip + limit + 1;
  const last = rest.findIndex((stretch) => {
    wanted -= isCut(stretch) ? 0 : stretch.emails;
    return wanted <= 0;
  });
  return { taken: rest.splice(0, last < 0 ? rest.length : last + 1), rest, offset: toSkip };
}

/**
 * Adds the latest changes to the kept counts. If another node is doing so, it returns at once, or waits and then does it again:
 * the other node does not see what changed after it began.
 */
export async function addUp(
  db: Database,
  when: 'unless another does' | 'after another' = 'unless another does',
): Promise<void> {
  while ((await addUpSome(db, when === 'after another')) === batchSize);
}

/**
 * Deletes the changes in a stretch of time whose emails were deleted, so that the partition of its counts can be dropped: no
 * node is adding up any of them afterwards.
 *
 * @param from null: from the beginning
 */
export async function forgetChanges(db: Database, { from, to }: { from: Date | null; to: Date }): Promise<void> {
  await db.transaction(async (tx) => {
    // Changes that a node is adding up are in neither table.
    await tx.query({ text: `SELECT pg_advisory_xact_lock(${addingUp})` });
    await tx.query({
      text: 'DELETE FROM email_count_changes WHERE ($1::timestamptz IS NULL OR hour >= $1) AND hour < $2',
      values: [from, to],
    });
  });
}

async function addUpSome(db: Database, waits: boolean): Promise<number> {
  // A week that a node of the previous release made has no partition of these counts yet: its changes stay where they are.
  const hasCounts = hasPartition('email_counts', 'hour');
  return db.transaction(async (tx) => {
    const [lock] = await tx.query<{ mine: boolean }>({
      text: waits
        ? `SELECT true AS mine FROM pg_advisory_xact_lock(${addingUp})`
        : `SELECT pg_try_advisory_xact_lock(${addingUp}) AS mine`,
    });
    if (!lock?.mine) return 0;
    const [row] = await tx.query<{ moved: number; zeros: string | null }>({
      text: `WITH moved AS (
               DELETE FROM email_count_changes WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM email_count_changes WHERE ${hasCounts} LIMIT $1)) RETURNING *),
             kept AS (
               INSERT INTO email_counts
               SELECT facet, account_id, hour, status, type, sum(emails) FROM moved GROUP BY 1, 2, 3, 4, 5 HAVING sum(emails) <> 0
               ON CONFLICT (facet, account_id, hour, status, type) DO UPDATE SET emails = email_counts.emails + excluded.emails RETURNING *)
             SELECT (SELECT count(*)::int FROM moved) AS moved, (SELECT json_agg(kept)::text FROM kept WHERE emails = 0) AS zeros`,
      values: [batchSize],
    });
    if (row?.zeros) await deleteZeros(tx, row.zeros);
    return row?.moved ?? 0;
  });
}

/** Deletes counts that have come down to zero: hours without queued emails. @param zeros as JSON */
async function deleteZeros(tx: Sql, zeros: string): Promise<void> {
  await tx.query({
    text: `DELETE FROM email_counts c
            USING json_to_recordset($1::json) AS z (facet text, account_id uuid, hour timestamptz, status email_status, type email_type)
            WHERE c.facet = z.facet AND c.account_id = z.account_id AND c.hour = z.hour AND c.status = z.status AND c.type = z.type AND c.emails = 0`,
    values: [zeros],
  });
}

/** Deletes zeros that nodes of the previous release left behind. */
export async function forgetZeros(db: Database): Promise<void> {
  const weeks = (await listPartitions(db)).filter(
    ({ table, state }) => table === 'email_counts' && state === 'attached',
  );
  // A statement for each week, as it reads all of it. In a transaction, which is retried after a conflict with a node that adds up.
  for (const { from, to } of weeks)
    await db.transaction((tx) =>
      tx.query({
        text: 'DELETE FROM email_counts WHERE emails = 0 AND hour >= $1 AND hour < $2',
        values: [from, to],
      }),
    );
}
