import { isAlone } from './alone.ts';
import { codeOf, type Database, type Sql } from './client.ts';

/** Building one reads its table twice and waits for the transactions that are open, as a dump's is for hours. */
const buildMs = 6 * 3_600_000;

/** For the lock that taking an index into the table's needs. Mail waits behind it. */
const lockMs = 1_000;

/** What PostgreSQL says when a lock was not to be had within this time. */
const lockNotAvailable = '55P03';

interface Missing {
  index: string;
  /** As PostgreSQL writes it, from `USING` on. */
  definition: string;
  partition: string;
  /** The partition's own: not there; left behind by somebody who was stopped while building it; or done, and not taken in yet. */
  own: 'none' | 'broken' | 'done';
}

/**
 * Builds what migrations have only declared of a partitioned table (`CREATE INDEX … ON ONLY`) for the partitions that were
 * there before, without a lock that mail would wait for. Those that are attached later get it by that. Safe to call from
 * several nodes at once: one does it, the others go on. It can be stopped or killed at any moment, and goes on with the
 * next call.
 */
export async function completeIndexes(db: Database, stop: AbortSignal): Promise<void> {
  if ((await listMissing(db)).length === 0) return;
  await db.session(async (session) => {
    if (!(await isAlone(session, 'indexes'))) return;
    const [own] = await session.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
    const cancel = () =>
      void db.query({ text: 'SELECT pg_cancel_backend($1)', values: [own?.pid] }).catch(() => undefined);
    stop.addEventListener('abort', cancel);
    try {
      const run = (text: string) => {
        stop.throwIfAborted();
        return session.query({ text });
      };
      for (const missing of await listMissing(session)) await complete(run, missing);
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      stop.removeEventListener('abort', cancel);
    }
  }, buildMs);
}

async function complete(
  run: (statement: string) => Promise<unknown>,
  { index, definition, partition, own }: Missing,
): Promise<void> {
  const name = ownName(index, partition);
  if (own === 'broken') await run(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`);
  if (own !== 'done') await run(`CREATE INDEX CONCURRENTLY ${name} ON ${partition} ${definition}`);
  // Statements use it from here on. Whoever reads the table for long, as a dump does, keeps it from being taken in until later.
  await run(`SET lock_timeout = ${lockMs}`);
  await run(`ALTER INDEX ${index} ATTACH PARTITION ${name}`).catch((error: unknown) => {
    if (codeOf(error) !== lockNotAvailable) throw error;
  });
  await run('RESET lock_timeout');
}

/** The name that an index has on a partition: `recipients_20261123_due_idx` is part of `recipients_due_idx`. */
function ownName(index: string, partition: string): string {
  const table = partition.slice(0, partition.lastIndexOf('_'));
  return `${partition}${index.slice(table.length)}`;
}

/** Whether statements find rows by this index in all partitions. */
export async function isBuilt(db: Sql, index: string): Promise<boolean> {
  return (await listMissing(db)).every((missing) => missing.index !== index || missing.own === 'done');
}

/** What is missing of declared indexes, newest weeks first. */
async function listMissing(db: Sql): Promise<Missing[]> {
  const rows = await db.query<Omit<Missing, 'own'>>({
    text: `SELECT i.relname AS index, substring(pg_get_indexdef(i.oid) FROM ' (USING .*)$') AS definition, p.relname AS partition
             FROM pg_class i JOIN pg_index x ON x.indexrelid = i.oid
             JOIN pg_inherits h ON h.inhparent = x.indrelid AND NOT h.inhdetachpending
             JOIN pg_class p ON p.oid = h.inhrelid
            WHERE i.relkind = 'I' AND NOT x.indisvalid AND i.relnamespace = current_schema()::regnamespace
              AND NOT EXISTS (SELECT FROM pg_inherits own JOIN pg_index o ON o.indexrelid = own.inhrelid
                               WHERE own.inhparent = i.oid AND o.indrelid = p.oid)
            ORDER BY p.relname DESC, i.relname`,
  });
  if (rows.length === 0) return [];
  const built = await db.query<{ name: string; valid: boolean }>({
    text: `SELECT indexrelid::regclass::text AS name, indisvalid AS valid FROM pg_index
            WHERE indexrelid = ANY(SELECT to_regclass(name) FROM unnest($1::text[]) name)`,
    values: [rows.map(({ index, partition }) => ownName(index, partition))],
  });
  const state = new Map(built.map(({ name, valid }) => [name, valid ? ('done' as const) : ('broken' as const)]));
  return rows.map((row) => ({ ...row, own: state.get(ownName(row.index, row.partition)) ?? 'none' }));
}
