import type { Database } from '../../db/client.ts';
import { conditions, type Filter, type Found, isThere, type Page } from './email-filter.ts';

/**
 * No index leads to the emails for a domain. A search goes through this many of those that match in all else, newest first:
 * that takes a few hundred ms if none of them is for the domain.
 */
const mostLooked = 100_000;

/** Counting ends here: nobody needs to know more than that there are many. */
const mostCounted = 1_000;

/** SQL: the emails to look at, from the cursor on, each with its `id` and whether a recipient of it is `there`. */
function looked(filter: Filter, cursor: string | null): { emails: string; values: unknown[] } {
  const { where, values } = conditions({ ...filter, to: null });
  const [domain, after] = [`$${values.length + 1}`, `$${values.length + 2}`];
  return {
    emails: `(SELECT id, ${isThere(domain)} AS there
                FROM emails WHERE ${where} AND (${after}::uuid IS NULL OR id < ${after}) ORDER BY id DESC LIMIT ${mostLooked}) looked`,
    values: [...values, filter.to, cursor],
  };
}

/** Where a search from the cursor on ends although there are more to look at; null if it gets to the end. */
async function endOf(db: Database, filter: Filter, cursor: string | null): Promise<string | null> {
  const { emails, values } = looked(filter, cursor);
  const [last] = await db.query<{ id: string }>({
    text: `SELECT id FROM ${emails} ORDER BY id DESC OFFSET ${mostLooked - 1}`,
    values,
  });
  return last?.id ?? null;
}

/** A page may have fewer emails than its limit, or none, and more behind it. The count ends with a search, or at 1,000. */
export async function searchByDomain(db: Database, filter: Filter, page: Page): Promise<Found> {
  const { cursor, limit, offset } = page;
  const ids = await idsOf(db, filter, page);
  const isFull = ids.length > limit;
  const shown = ids.slice(0, limit);
  const end = isFull ? null : await endOf(db, filter, cursor);
  // The last page itself shows how many there are.
  const isLast = cursor === null && !isFull && (ids.length > 0 || offset === 0);
  const found = isLast ? offset + ids.length : await countUpTo(db, filter);
  const isCut = found > mostCounted || (isLast ? end : await endOf(db, filter, null)) !== null;
  return {
    ids: shown,
    count: Math.min(found, mostCounted),
    countExact: !isCut,
    nextCursor: isFull ? (shown.at(-1) ?? null) : end,
  };
}

/** The page's ids and one more. */
async function idsOf(db: Database, filter: Filter, { cursor, limit, offset }: Page): Promise<string[]> {
  const { emails, values } = looked(filter, cursor);
  const rows = await db.query<{ id: string }>({
    text: `SELECT id FROM ${emails} WHERE there ORDER BY id DESC LIMIT $${values.length + 1} OFFSET $${values.length + 2}`,
    values: [...values, limit + 1, offset],
  });
  return rows.map(({ id }) => id);
}

/** Counts up to one more than `mostCounted`. */
async function countUpTo(db: Database, filter: Filter): Promise<number> {
  const { emails, values } = looked(filter, null);
  const [row] = await db.query<{ found: number }>({
    text: `SELECT count(*)::int AS found FROM (SELECT FROM ${emails} WHERE there LIMIT ${mostCounted + 1}) found`,
    values,
  });
  return row?.found ?? 0;
}
