import type { Database } from '../../db/client.ts';
import * as counts from './email-counts.ts';
import { conditions, type Filter, type Found, hasOwnIndex, isDomainSearch, type Page, pageOf } from './email-filter.ts';
import { searchByDomain } from './recipient-domain-search.ts';
import { findScheduled } from './scheduled-search.ts';
import { findInStretches } from './stretch-search.ts';

/** Nobody pages further than this, and counting takes long; looking for words in each email takes longest. */
const mostCounted = ({ q }: Filter) => (q === null ? 10_000 : 1_000);

/**
 * One page of the emails that match the filter, newest first, and how many match; if
 * `countExact` is false, there are more than that.
 */
export async function search(db: Database, filter: Filter, page: Page): Promise<Found> {
  if (filter.scheduled) return searchScheduled(db, filter, page);
  if (isDomainSearch(filter)) return (await searchFew(db, filter, page)) ?? searchByDomain(db, filter, page);
  const stretches = await stretchesOf(db, filter);
  if (stretches === null) return searchUncounted(db, filter, page);
  const ids = await idsWithin(db, filter, page, stretches);
  const count = stretches.reduce((sum, { emails }) => sum + emails, 0);
  return { ...pageOf(ids, page), count, countExact: true };
}

/** Finds scheduled emails by their waiting recipients, also those for a domain. */
async function searchScheduled(db: Database, filter: Filter, page: Page): Promise<Found> {
  const most = mostCounted(filter);
  const { ids } = await findScheduled(db, filter, { ...page, limit: page.limit + 1 });
  const { found } = await findScheduled(db, filter, { cursor: null, limit: 0, offset: most + 1 });
  return { ...pageOf(ids, page), count: Math.min(found, most), countExact: found <= most };
}

/**
 * Searches for a domain among the emails that an index finds by their tag, words, status or held recipients.
 *
 * @returns null if none of these is asked for, or if they are many
 */
async function searchFew(db: Database, filter: Filter, page: Page): Promise<Found | null> {
  const { tag, q, held, status } = filter;
  if (tag === null && q === null && !held && !hasOwnIndex(status)) return null;
  const most = mostCounted(filter);
  if ((await countUpTo(db, { ...filter, to: null }, most + 1)) > most) return null;
  const ids = await idsOf(db, filter, page, 'all are found first');
  return { ...pageOf(ids, page), count: await countOf(db, filter), countExact: true };
}

/**
 * Searches with a filter that no kept counts answer. Counts first: if few emails match, the page is taken from all of them. The
 * planner takes what is rare, such as an address in a week in which nobody got two emails, for one in two hundred, and to find
 * a page of it would read every email, newest first.
 */
async function searchUncounted(db: Database, filter: Filter, page: Page): Promise<Found> {
  const most = mostCounted(filter);
  const { counted, ids } = await findUpTo(db, filter, page, most + 1);
  const isFew = counted <= most;
  return {
    ...pageOf(isFew ? ids : await idsOf(db, filter, page), page),
    count: Math.min(counted, most),
    countExact: isFew,
  };
}

/**
 * How many emails match in each stretch of time, newest first: kept counts for whole hours, and parts of an hour, at which
 * the filter begins or ends, counted now. Null if no counts are kept for the filter.
 */
async function stretchesOf(db: Database, filter: Filter): Promise<counts.Stretch[] | null> {
  const facet = counts.facetOf(filter);
  if (facet === null) return null;
  const countPart = async (from: Date | null, to: Date | null): Promise<counts.Stretch[]> =>
    from && to && from < to
      ? [{ from, to, emails: await countOf(db, { ...filter, createdAfter: from, createdBefore: to }) }]
      : [];
  const { createdAfter, createdBefore } = filter;
  const whole = counts.wholeHours(filter);
  if (whole === null) return countPart(createdAfter, createdBefore);
  const last = await countPart(whole.to, createdBefore);
  const hours = await counts.byHour(db, facet, filter, whole);
  const first = await countPart(createdAfter, whole.from);
  return [...last, ...hours, ...first].filter(({ emails }) => emails > 0);
}

/**
 * The same as `idsOf`, but it reads only the stretches that have the page: five newsletters of last month are not looked for
 * among all that was sent before and after them.
 */
async function idsWithin(db: Database, filter: Filter, page: Page, stretches: counts.Stretch[]): Promise<string[]> {
  const { taken, rest, offset } = counts.placeOf(stretches, page);
  const within = async (some: counts.Stretch[]): Promise<string[]> => {
    const [newest, oldest] = [some.at(0), some.at(-1)];
    if (!newest || !oldest) return [];
    const part = { ...page, offset };
    if (!isInItsOwnIndex(filter))
      return (await findInStretches(db, filter, some, { ...part, limit: page.limit + 1 })).ids;
    return idsOf(db, { ...filter, createdAfter: oldest.from, createdBefore: newest.to }, part);
  };
  const ids = await within(taken);
  // Emails whose status changed after the counts were read may leave fewer than a page there.
  return ids.length > page.limit || rest.length === 0 ? ids : within([...taken, ...rest]);
}

/** Whether an index leads to just these emails, whatever lies between them. */
const isInItsOwnIndex = ({ tag, status }: Filter) => tag !== null || hasOwnIndex(status);

/** The ids of the page's emails, and of the one after. */
async function idsOf(
  db: Database,
  filter: Filter,
  { cursor, limit, offset }: Page,
  how: 'all are found first' | 'newest first' = 'newest first',
): Promise<string[]> {
  const { where, values } = conditions(filter);
  const after = values.length + 1;
  const rows = await db.query<{ id: string }>({
    text: `WITH found AS ${how === 'newest first' ? 'NOT ' : ''}MATERIALIZED (SELECT id FROM emails WHERE ${where})
           SELECT id FROM found WHERE $${after}::uuid IS NULL OR id < $${after}
            ORDER BY id DESC LIMIT $${after + 1} OFFSET $${after + 2}`,
    values: [...values, cursor, limit + 1, offset],
  });
  return rows.map((row) => row.id);
}

async function countOf(db: Database, filter: Filter): Promise<number> {
  const { where, values } = conditions(filter);
  const [row] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM emails WHERE ${where}`,
    values,
  });
  return row?.count ?? 0;
}

/** @param most where counting ends */
const countUpTo = async (db: Database, filter: Filter, most: number): Promise<number> =>
  (await findUpTo(db, filter, { cursor: null, limit: 0, offset: 0 }, most)).counted;

/**
 * Counts, and takes the page from what was counted: what matches rarely is looked for among all emails, and once.
 *
 * @param most where counting ends
 * @returns the ids as `idsOf` does, if fewer match; otherwise any
 */
async function findUpTo(
  db: Database,
  filter: Filter,
  { cursor, limit, offset }: Page,
  most: number,
): Promise<{ counted: number; ids: string[] }> {
  const { where, values } = conditions(filter);
  const [first, after, length, skipped] = [1, 2, 3, 4].map((place) => `$${values.length + place}`);
  const rows = await db.transaction(async (tx) => {
    // If most emails match, reading them until there are enough is fastest.
    await tx.query({ text: 'SET LOCAL enable_seqscan = on' });
    return tx.query<{ counted: number; ids: string[] }>({
      text: `WITH found AS MATERIALIZED (SELECT id FROM emails WHERE ${where} LIMIT ${first})
             SELECT (SELECT count(*)::int FROM found) AS counted,
                    ARRAY(SELECT id FROM found WHERE ${after}::uuid IS NULL OR id < ${after} ORDER BY id DESC LIMIT ${length} OFFSET ${skipped}) AS ids`,
      values: [...values, most, cursor, limit + 1, offset],
    });
  });
  return rows[0] ?? { counted: 0, ids: [] };
}
