import type { Database } from '../../db/client.ts';
import { timeOf } from '../../ids.ts';
import * as counts from './email-counts.ts';
import { conditions, type Filter, type Page } from './email-filter.ts';
import { type Found, findInStretches } from './stretch-search.ts';

/** A page of the emails that wait for their scheduled time, newest first. */
export const findScheduled = async (db: Database, filter: Filter, page: Page): Promise<Found> =>
  (await findAmongWaiting(db, filter, page)) ?? (await findAmongQueued(db, filter, page));

/** The most waiting recipients of an account whose emails are looked up: for more of them that takes seconds. */
const mostWaiting = 50_000;

/**
 * Searches the emails of the recipients that wait. Its cost does not depend on how many emails were ever scheduled.
 *
 * @returns null if too many recipients wait
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
 * Searches the hours that have queued emails, which the kept counts show: in most hours with scheduled emails, most of the
 * queued ones are scheduled.
 */
async function findAmongQueued(db: Database, filter: Filter, page: Page): Promise<Found> {
  const { cursor, limit, offset } = page;
  const queued = { ...filter, status: 'queued' as const };
  const hours = await counts.byHour(db, '', queued, { from: null, to: null });
  const rest = cursor === null ? hours : hours.filter(({ from }) => from <= timeOf(cursor));
  const ids: string[] = [];
  let found = 0;
  // Most queued emails may wait for something else: so each round searches more hours.
  for (let emails = offset + limit; rest.length > 0 && found < offset + limit; emails *= 4) {
    const some = takeFirst(rest, emails);
    const skipped = Math.max(0, offset - found);
    const part = await findInStretches(db, filter, some, {
      cursor,
      limit: offset + limit - found - skipped,
      offset: skipped,
    });
    ids.push(...part.ids);
    found += part.found;
  }
  return { found, ids };
}

/** Removes and returns the first hours that have this many queued emails together, or all. */
function takeFirst(hours: counts.Stretch[], emails: number): counts.Stretch[] {
  let [taken, left] = [0, emails];
  for (; left > 0 && taken < hours.length; taken += 1) left -= hours[taken]?.emails ?? 0;
  return hours.splice(0, taken);
}
