import type { Database } from '../../db/client.ts';
import * as counts from './email-counts.ts';
import { conditions, type Filter, type Found, isDomainSearch, type Page } from './email-filter.ts';
import { searchByDomain } from './recipient-domain-search.ts';
import { findScheduled } from './scheduled-search.ts';

/** Nobody pages further than this, and counting takes long; looking for words in each email takes longest. */
const mostCounted = ({ q }: Filter) => (q === null ? 10_000 : 1_000);

export async function search(db: Database, filter: Filter, page: Page): Promise<Found> {
  // Scheduled emails are found by their waiting recipients, whatever the domain.
  if (isDomainSearch(filter) && !filter.scheduled) return searchByDomain(db, filter, page);
  const stretches = filter.scheduled ? null : await stretchesOf(db, filter);
  const ids = stretches === null ? await idsOf(db, filter, page) : await idsWithin(db, filter, page, stretches);
  const counted =
    stretches === null ? await countUpTo(db, filter) : stretches.reduce((sum, { emails }) => sum + emails, 0);
  const most = mostCounted(filter);
  const countExact = stretches !== null || counted <= most;
  const shown = ids.slice(0, page.limit);
  const nextCursor = ids.length > page.limit ? (shown.at(-1) ?? null) : null;
  return { ids: shown, count: countExact ? counted : most, countExact, nextCursor };
}

/** How many match, newest first: kept counts for whole hours, counted where the filter cuts one. Null if none are kept. */
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

/** The ids of the page and one more, looked for only where the counts say that they are. */
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
  // Emails that changed their status since the counts were read may leave fewer than a page there.
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

async function countOf(db: Database, filter: Filter): Promise<number> {
  const { where, values } = conditions(filter);
  const [row] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM emails WHERE ${where}`,
    values,
  });
  return row?.count ?? 0;
}

/** Counts up to one more than `mostCounted`. */
async function countUpTo(db: Database, filter: Filter): Promise<number> {
  if (filter.scheduled)
    return (await findScheduled(db, filter, { cursor: null, limit: 0, offset: mostCounted(filter) + 1 })).found;
  const { where, values } = conditions(filter);
  const rows = await db.transaction(async (tx) => {
    // For a condition that most emails meet, reading them until there are enough is fastest.
    await tx.query({ text: 'SET LOCAL enable_seqscan = on' });
    return tx.query<{ count: number }>({
      text: `SELECT count(*)::int AS count FROM (SELECT FROM emails WHERE ${where} LIMIT $${values.length + 1}) found`,
      values: [...values, mostCounted(filter) + 1],
    });
  });
  return rows[0]?.count ?? 0;
}
