import type { Sql } from './client.ts';

/** What goes from a table that has no partitions. */
export interface Rows {
  table: string;
  /** SQL: which rows; an index leads to them. */
  where: string;
  values?: unknown[];
  /** How many go with one statement. */
  atOnce: number;
}

/**
 * Deletes rows, some with a statement: after a time of standing still there may be more of them than one statement has time for,
 * and whoever wants one of them waits for those that go with it alone. Several nodes may do it at once.
 *
 * @param stop ends it after a statement
 */
export async function deleteRows(
  db: Sql,
  { table, where, values = [], atOnce }: Rows,
  stop?: AbortSignal,
): Promise<void> {
  for (let gone = atOnce; gone === atOnce && !stop?.aborted; ) {
    const [row] = await db.query<{ gone: number }>({
      // Said twice: of one that was changed while it was waited for, older servers do not look at the place again.
      text: `WITH gone AS (
               DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${where} LIMIT ${atOnce})) AND ${where} RETURNING 1)
             SELECT count(*)::int AS gone FROM gone`,
      values,
    });
    gone = row?.gone ?? 0;
  }
}
