import type { Database, Sql } from '../../db/client.ts';
import { conditions, type Filter, type Found, hasOwnIndex, type Page, pageOf } from './email-filter.ts';

/**
 * No index leads to the emails for a domain. A search reads this many candidates, newest first: that takes a few hundred ms if
 * none of them is for the domain.
 */
const mostCandidates = 100_000;

/** Counting ends here: nobody needs to know more than that there are many. */
const mostCounted = 1_000;

/**
 * Searches the emails with a recipient at a domain. A page may have fewer emails than its limit, or none, although others
 * follow. The count covers the first `mostCandidates`, and goes up to `mostCounted`.
 */
export function searchByDomain(db: Database, filter: Filter, page: Page): Promise<Found> {
  return db.transaction(async (tx) => {
    // All statements look at the same candidates: else a page could end before emails that the one before has not read.
    await tx.query({ text: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY' });
    return find(tx, filter, page);
  });
}

async function find(db: Sql, filter: Filter, page: Page): Promise<Found> {
  const { cursor, offset } = page;
  const found = pageOf(await idsOf(db, filter, page), page);
  const end = found.nextCursor === null ? await endOf(db, filter, cursor) : null;
  // The last of the pages shows how many there are.
  const isLast = cursor === null && found.nextCursor === null && (found.ids.length > 0 || offset === 0);
  const count = isLast ? offset + found.ids.length : await countUpTo(db, filter);
  const isCut = count > mostCounted || (isLast ? end : await endOf(db, filter, null)) !== null;
  return {
    ids: found.ids,
    count: Math.min(count, mostCounted),
    countExact: !isCut,
    nextCursor: found.nextCursor ?? end,
  };
}

/** The part of the filter for which an index has the emails in order. */
function ofCandidates(filter: Filter): Filter {
  const { accountId, status, createdAfter, createdBefore } = filter;
  const anything = { type: null, tag: null, to: null, q: null, apiKeyId: null, held: false, scheduled: false };
  return accountId === null
    ? { ...anything, accountId, status: null, from: null, domain: null, createdAfter, createdBefore }
    : { ...filter, ...anything, status: hasOwnIndex(status) ? status : null };
}

/**
 * SQL: the candidates of a search from this cursor on, each with its `id` and whether it is `found`. What no index has in order
 * is not a condition of theirs, or the search for the last of them could read every email.
 */
function candidatesOf(
  filter: Filter,
  cursor: string | null,
  most = mostCandidates,
): { candidates: string; values: unknown[] } {
  const ordered = conditions(ofCandidates(filter));
  const { where: isFound, values } = conditions(filter, ordered.values);
  const after = `$${values.length + 1}`;
  return {
    candidates: `(SELECT id, ${isFound} AS found
                    FROM emails WHERE ${ordered.where} AND (${after}::uuid IS NULL OR id < ${after})
                   ORDER BY id DESC LIMIT ${most}) candidates`,
    values: [...values, cursor],
  };
}

/** The ids of the page's emails, and of the one after. */
async function idsOf(db: Sql, filter: Filter, { cursor, limit, offset }: Page): Promise<string[]> {
  const { candidates, values } = candidatesOf(filter, cursor);
  const rows = await db.query<{ id: string }>({
    text: `SELECT id FROM ${candidates} WHERE found ORDER BY id DESC LIMIT $${values.length + 1} OFFSET $${values.length + 2}`,
    values: [...values, limit + 1, offset],
  });
  return rows.map(({ id }) => id);
}

/** The last candidate of a search from this cursor on, if there are more behind it; null if there are none. */
async function endOf(db: Sql, filter: Filter, cursor: string | null): Promise<string | null> {
  const { candidates, values } = candidatesOf(filter, cursor, mostCandidates + 1);
  const [last, next] = await db.query<{ id: string }>({
    text: `SELECT id FROM ${candidates} ORDER BY id DESC OFFSET ${mostCandidates - 1}`,
    values,
  });
  return last && next ? last.id : null;
}

/** Counts up to one more than `mostCounted`. */
async function countUpTo(db: Sql, filter: Filter): Promise<number> {
  const { candidates, values } = candidatesOf(filter, null);
  const [row] = await db.query<{ found: number }>({
    text: `SELECT count(*)::int AS found FROM (SELECT FROM ${candidates} WHERE found LIMIT ${mostCounted + 1}) matching`,
    values,
  });
  return row?.found ?? 0;
}
