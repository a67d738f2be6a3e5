import type { Database } from '../db/client.ts';
import { gone, notFound } from '../errors.ts';
import type { Attempt, Email, Recipient, Return } from '../generated/prisma/client.ts';
import type { ReturnKind } from '../generated/prisma/enums.ts';
import { floorId, isId, timeOf } from '../ids.ts';
import type { StoredAttachment } from './draft.ts';
import * as counts from './email-counts.ts';
import { conditions, type Filter, type Page } from './email-filter.ts';
import { heldOf } from './held.ts';
import { planOf } from './plans.ts';
import * as returned from './returns.ts';

/** Nobody pages through more than these, and counting them takes long; looking for words in each the longest. */
const mostCounted = ({ q }: Filter) => (q === null ? 10_000 : 1_000);

/** How many emails match. Where no number is kept they are counted, but not to the end if that is far. */
interface Count {
  count: number;
  countExact: boolean;
}

/** An email in the log, with what came back for it, each kind once, and whether a recipient is held until somebody decides. */
export type Listed = Email & { returned: ReturnKind[]; held: boolean };

/** One page of the emails that match, newest first, how many match in all, and where the next page begins (null when there is none). */
export async function list(
  db: Database,
  filter: Filter,
  page: Page,
): Promise<Count & { emails: Listed[]; nextCursor: string | null }> {
  const stretches = filter.scheduled ? null : await stretchesOf(db, filter);
  const ids = stretches === null ? await idsOf(db, filter, page) : await idsWithin(db, filter, page, stretches);
  const counted =
    stretches === null ? await countUpTo(db, filter) : stretches.reduce((sum, { emails }) => sum + emails, 0);
  const most = mostCounted(filter);
  const countExact = stretches !== null || counted <= most;
  const shown = ids.slice(0, page.limit);
  const rows = await db.prisma.email.findMany({ where: { id: { in: shown } }, orderBy: { id: 'desc' } });
  const kinds = await returned.kindsOf(db, shown);
  const held = await heldOf(
    db,
    rows.filter(({ status }) => status === 'queued').map(({ id }) => id),
  );
  const emails = rows.map((row) => ({ ...row, returned: kinds.get(row.id) ?? [], held: held.has(row.id) }));
  const count = countExact ? counted : most;
  return { emails, count, countExact, nextCursor: ids.length > page.limit ? (shown.at(-1) ?? null) : null };
}

/** How many match, newest first: kept numbers for whole hours, counted where the filter cuts one. Null where none are kept. */
async function stretchesOf(db: Database, filter: Filter): Promise<counts.Stretch[] | null> {
  const { createdAfter, createdBefore } = filter;
  const facet = counts.facetOf(filter);
  const whole = counts.wholeHours(filter);
  if (facet === null) return null;
  const cut = async (from: Date | null, to: Date | null): Promise<counts.Stretch[]> =>
    from && to && from < to
      ? [{ from, to, emails: await countOf(db, { ...filter, createdAfter: from, createdBefore: to }) }]
      : [];
  if (whole === null) return cut(createdAfter, createdBefore);
  const last = await cut(whole.to, createdBefore);
  const hours = await counts.byHour(db, facet, filter, whole);
  const first = await cut(createdAfter, whole.from);
  return [...last, ...hours, ...first].filter(({ emails }) => emails > 0);
}

/** The page's ids and one more, looked for only where the numbers say that they are. */
async function idsWithin(db: Database, filter: Filter, page: Page, stretches: counts.Stretch[]): Promise<string[]> {
  if (stretches.length === 0) return [];
  const { from, to, offset } = counts.placeOf(stretches, page);
  const later = <T extends Date | null>(a: T, b: T) => (a && b ? (a > b ? a : b) : (a ?? b));
  const narrow = {
    ...filter,
    createdAfter: later(filter.createdAfter, from),
    createdBefore: to ?? filter.createdBefore,
  };
  const ids = await idsOf(db, narrow, { ...page, offset });
  // What changed its status since the numbers were read may have left fewer than a page there.
  return ids.length > page.limit || from === null ? ids : idsOf(db, filter, page);
}

/** The ids of the page's emails, and of the one after. */
async function idsOf(db: Database, filter: Filter, { cursor, limit, offset }: Page): Promise<string[]> {
  if (filter.scheduled) return (await findScheduled(db, filter, { cursor, limit: limit + 1, offset })).ids;
  const { where, values } = conditions(filter);
  const after = values.length + 1;
  const rows = await db.query<{ id: string }>({
    text: `SELECT id FROM emails WHERE ${where} AND ($${after}::uuid IS NULL OR id < $${after})
            ORDER BY id DESC LIMIT $${after + 1} OFFSET $${after + 2}`,
    values: [...values, cursor, limit + 1, offset],
  });
  return rows.map((row) => row.id);
}

/** A page of those that wait for their scheduled time, newest first, and how many there are as far as its end. */
const findScheduled = async (db: Database, filter: Filter, page: Page): Promise<Found> =>
  (await findAmongWaiting(db, filter, page)) ?? (await findAmongQueued(db, filter, page));

interface Found {
  found: number;
  ids: string[];
}

/** Recipients of an account that are looked through at the most: to look for more of them one by one takes seconds. */
const mostWaiting = 50_000;

/**
 * By the recipients that wait, however many emails were scheduled once.
 *
 * @returns null where too many wait
 */
async function findAmongWaiting(db: Database, filter: Filter, { cursor, limit, offset }: Page): Promise<Found | null> {
  if (filter.accountId === null) return null;
  const { where, values } = conditions(filter);
  const [account, after, most, skipped] = ['$1', ...[1, 2, 3].map((place) => `$${values.length + place}`)];
  const [row] = await db.query<Found & { waiting: number }>({
    text: `WITH waiting AS MATERIALIZED (
             SELECT email_id, attempts FROM recipients
              WHERE account_id = ${account} AND job_id IS NULL AND next_attempt_at > now() LIMIT ${mostWaiting + 1}),
           untried AS (
             SELECT DISTINCT email_id FROM waiting
              WHERE attempts = 0 AND (SELECT count(*) FROM waiting) <= ${mostWaiting} AND (${after}::uuid IS NULL OR email_id < ${after})),
           found AS (
             SELECT newest.email_id AS id
               FROM (SELECT email_id FROM untried ORDER BY email_id DESC) newest
              CROSS JOIN LATERAL (SELECT FROM emails WHERE ${where} AND id = newest.email_id LIMIT 1) email
              ORDER BY newest.email_id DESC LIMIT ${most}::bigint)
           SELECT (SELECT count(*)::int FROM waiting) AS waiting, (SELECT count(*)::int FROM found) AS found,
                  ARRAY(SELECT id FROM found ORDER BY id DESC OFFSET ${skipped}) AS ids`,
    values: [...values, cursor, offset + limit, offset],
  });
  return row && row.waiting <= mostWaiting ? { found: row.found, ids: row.ids } : null;
}

/**
 * By the hours of which emails are queued, as the numbers say that are kept: most of those that wait are in hours of which most do.
 */
async function findAmongQueued(db: Database, filter: Filter, page: Page): Promise<Found> {
  const { cursor, limit, offset } = page;
  const queued = { ...filter, status: 'queued' as const };
  const hours = await counts.byHour(db, '', queued, { from: null, to: null });
  const rest = cursor === null ? hours : hours.filter(({ from }) => from <= timeOf(cursor));
  const ids: string[] = [];
  let found = 0;
  // Most of what is queued may wait for something else: then more hours are looked through at once.
  for (let emails = offset + limit; rest.length > 0 && found < offset + limit; emails *= 4) {
    const some = takeFirst(rest, emails);
    const skipped = Math.max(0, offset - found);
    const part = await findInHours(db, filter, some, {
      cursor,
      limit: offset + limit - found - skipped,
      offset: skipped,
    });
    ids.push(...part.ids);
    found += part.found;
  }
  return { found, ids };
}

/** Takes the first hours out, of which so many emails are queued, or all. */
function takeFirst(hours: counts.Stretch[], emails: number): counts.Stretch[] {
  let [taken, left] = [0, emails];
  for (; left > 0 && taken < hours.length; taken += 1) left -= hours[taken]?.emails ?? 0;
  return hours.splice(0, taken);
}

async function findInHours(
  db: Database,
  filter: Filter,
  hours: counts.Stretch[],
  { cursor, limit, offset }: Page,
): Promise<Found> {
  const { where, values } = conditions(filter);
  const [first, past, after, most, skipped] = [1, 2, 3, 4, 5].map((place) => `$${values.length + place}`);
  const [row] = await db.query<Found>({
    text: `WITH found AS (
             SELECT of_hour.id
               FROM unnest(${first}::uuid[], ${past}::uuid[]) AS hour (first, past)
              CROSS JOIN LATERAL (
                    SELECT id FROM emails
                     WHERE ${where} AND id >= hour.first AND id < hour.past AND (${after}::uuid IS NULL OR id < ${after})
                     ORDER BY id DESC LIMIT ${most}::bigint) of_hour
              ORDER BY of_hour.id DESC LIMIT ${most}::bigint)
           SELECT (SELECT count(*)::int FROM found) AS found, ARRAY(SELECT id FROM found ORDER BY id DESC OFFSET ${skipped}) AS ids`,
    values: [
      ...values,
      hours.map(({ from }) => floorId(from)),
      hours.map(({ to }) => floorId(to)),
      cursor,
      offset + limit,
      offset,
    ],
  });
  return row ?? { found: 0, ids: [] };
}

async function countOf(db: Database, filter: Filter): Promise<number> {
  const { where, values } = conditions(filter);
  const [row] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM emails WHERE ${where}`,
    values,
  });
  return row?.count ?? 0;
}

/** One more than are counted where there are more. */
async function countUpTo(db: Database, filter: Filter): Promise<number> {
  if (filter.scheduled)
    return (await findScheduled(db, filter, { cursor: null, limit: 0, offset: mostCounted(filter) + 1 })).found;
  const { where, values } = conditions(filter);
  const rows = await db.transaction(async (tx) => {
    // What most emails match is counted soonest by reading them until there are enough.
    await tx.query({ text: 'SET LOCAL enable_seqscan = on' });
    return tx.query<{ count: number }>({
      text: `SELECT count(*)::int AS count FROM (SELECT FROM emails WHERE ${where} LIMIT $${values.length + 1}) found`,
      values: [...values, mostCounted(filter) + 1],
    });
  });
  return rows[0]?.count ?? 0;
}

/** @throws ApiError 404 */
export async function get(
  db: Database,
  accountId: string,
  id: string,
): Promise<{ email: Email; recipients: Recipient[]; returns: Return[] }> {
  const email = await find(db, accountId, id);
  const recipients = await db.prisma.recipient.findMany({ where: { emailId: id }, orderBy: { position: 'asc' } });
  const returns = await db.prisma.return.findMany({
    where: { emailId: id, accountId },
    orderBy: [{ receivedAt: 'asc' }, { recipient: 'asc' }, { kind: 'asc' }],
  });
  return { email, recipients, returns };
}

/** What an email says, as it was accepted. */
export interface Content {
  html: string | null;
  text: string | null;
  headers: { name: string; value: string }[];
  /** With their sizes in bytes. */
  attachments: (StoredAttachment & { size: number })[];
}

/** @throws ApiError 404, or 410 when its content is not kept any more */
export async function content(db: Database, accountId: string, id: string): Promise<Content> {
  const email = await find(db, accountId, id);
  const [row] = await db.query<Omit<Content, 'headers'> & { headers: [name: string, value: string][] }>({
    text: `SELECT c.html, c.text, c.headers,
                  coalesce((SELECT jsonb_agg(used || jsonb_build_object('size', octet_length(a.content)) ORDER BY place)
                              FROM jsonb_array_elements(c.attachments) WITH ORDINALITY AS listed (used, place)
                              JOIN attachments a ON a.account_id = $2 AND a.sha256 = decode(used ->> 'sha256', 'hex')), '[]') AS attachments
             FROM email_contents c WHERE c.email_id = $1`,
    values: [id, accountId],
  });
  if (!row) throw gone(await whyGone(db, email));
  return { ...row, headers: row.headers.map(([name, value]) => ({ name, value })) };
}

/** Why an email has no content, in words. */
async function whyGone(db: Database, { accountId, erasedAt }: Email): Promise<string> {
  if (erasedAt !== null) return 'the content was erased, with the data of its recipient';
  const account = await db.prisma.account.findUnique({ where: { id: accountId }, select: { plan: true } });
  return `the content of an email is kept for ${planOf(account?.plan ?? '').contentDays} days, and these are over`;
}

/**
 * Every SMTP attempt of the email, oldest first: one entry for each recipient and each MX host tried.
 *
 * @throws ApiError 404
 */
export async function attempts(db: Database, accountId: string, id: string): Promise<Attempt[]> {
  await find(db, accountId, id);
  const rows = await db.prisma.attempt.findMany({ where: { emailId: id }, orderBy: [{ at: 'asc' }, { id: 'asc' }] });
  // The recipients of a session share what was said, which is stored with the first of them.
  const said = new Map<string, Attempt['conversation']>();
  const sessionOf = ({ at, mxHost, remoteAddress }: Attempt) => `${at.getTime()} ${mxHost} ${remoteAddress}`;
  for (const row of rows) if (row.conversation !== null) said.set(sessionOf(row), row.conversation);
  return rows.map((row) => ({ ...row, conversation: said.get(sessionOf(row)) ?? null }));
}

async function find(db: Database, accountId: string, id: string): Promise<Email> {
  const email = isId(id) ? await db.prisma.email.findFirst({ where: { id, accountId } }) : null;
  if (!email) throw notFound();
  return email;
}
