import type { Database } from '../../db/client.ts';

/** One recipient. */
export interface Key {
  emailId: string;
  position: number;
}

/** Some of the recipients that wait: conditions in SQL on a recipient `r`, with values for both together. */
export interface Some {
  /** About `next_attempt_at` alone: what it leaves out is not read. */
  due: string;
  wanted: string;
  values: unknown[];
  /** Those too that have a job or are in the hands of a node. */
  withJob?: boolean;
}

const fetchedAtOnce = 1_000;

/** Of the recipients that are passed over one in so many is told of, so that no statement passes over more than 20,000. */
const toldOf = 20;

/**
 * Goes once through some of the recipients that wait, as they are when it begins; those without a job first, and of each
 * account in the order in which they are due. However many there are each is read once, by statements that are short.
 *
 * Not with LIMIT from the place that the last statement came to: thousands are due at the same moment, and the index knows
 * no order among those.
 *
 * @param size how many are worked on together, at the most
 * @param isOver asked before each statement; true ends it
 * @param work done with some of them; it has to see for itself whether they are still as they were
 * @returns false: it was over before the end
 */
export async function walk(
  db: Database,
  some: Some,
  { size, isOver = () => false }: { size: number; isOver?: () => boolean },
  work: (keys: Key[]) => Promise<void>,
): Promise<boolean> {
  return db.session(async (session) => {
    await session.query({ text: 'BEGIN' });
    // Planned for the first rows: otherwise all may be sorted before one comes.
    await session.query({ text: 'SET LOCAL cursor_tuple_fraction = 0.000001' });
    await session.query({ text: `DECLARE waiting NO SCROLL CURSOR FOR ${selectOf(some)}`, values: some.values });
    let keys: Key[] = [];
    for (;;) {
      if (isOver()) return false;
      const asked = Math.min(fetchedAtOnce, size - keys.length);
      const rows = await session.query<Key | { emailId: null }>({ text: `FETCH ${asked} FROM waiting` });
      for (const row of rows) if (row.emailId !== null) keys.push(row);
      const isEnd = rows.length < asked;
      if (keys.length === size || (isEnd && keys.length > 0)) {
        await work(keys);
        keys = [];
      }
      if (isEnd) return true;
    }
  });
}

/** A row without a key says no more than that it went on. */
function selectOf({ due, wanted, withJob = false }: Some): string {
  const part = (job: string, order: string) => `
    (SELECT email_id, position, ${wanted} AS wanted FROM recipients r WHERE job_id ${job} AND next_attempt_at IS NOT NULL AND ${due} ORDER BY ${order})`;
  return `SELECT CASE WHEN wanted THEN email_id END AS "emailId", position
            FROM (SELECT *, row_number() OVER (ROWS UNBOUNDED PRECEDING) AS number
                    FROM (${part('IS NULL', 'account_id, next_attempt_at')}
                          ${withJob ? `UNION ALL ${part('IS NOT NULL', 'account_id, email_id, position')}` : ''}) both_parts) numbered
           WHERE wanted OR number % ${toldOf} = 0`;
}
