import type { Sql } from './client.ts';

/** Rows to delete from a table that has no partitions. */
export interface Rows {
  table: string;
  /** SQL: the condition, which an index must serve. */
  where: string;
  values?: unknown[];
  /** How many rows one statement deletes. */
  atOnce: number;
}

/**
 * Deletes rows in batches: after a standstill there may be more than one statement has time for, and whoever wants one of
 * these rows waits only for its batch. Several nodes may do it at once.
 *
 * @param stop ends it after the statement under way
 */
export async function deleteRows(
  db: Sql,
  { table, where, values = [], atOnce }: Rows,
  stop?: AbortSignal,
): Promise<void> {
  for (let gone = atOnce; gone === atOnce && !stop?.aborted; ) {
    const [row] = await db.query<{ gone: number }>({
      // The condition is there twice: if a row changed while we waited for it, older servers do not check its ctid again.
      text: `WITH gone AS (
               DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${where} LIMIT ${atOnce})) AND ${where} RETURNING 1)
             SELECT count(*)::int AS gone FROM gone`,
      values,
    });
    gone = row?.gone ?? 0;
  }
}
