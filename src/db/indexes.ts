import { isAlone } from './alone.ts';
import type { Database, Sql } from './client.ts';
import { databaseCodeOf } from './errors.ts';

/** Building an index reads its table twice and waits for open transactions, which for a dump takes hours. */
const buildMs = 6 * 3_600_000;

/** For the lock that attaching an index needs. Mail waits behind it. */
const lockMs = 1_000;

/** The SQLSTATE if the lock was not available within this time. */
const lockNotAvailable = '55P03';

interface Missing {
  index: string;
  /** The definition as PostgreSQL writes it, from `USING` on. */
  definition: string;
  partition: string;
  /** The partition's own index: not there; left invalid by a build that was stopped; or built, but not attached yet. */
  own: 'none' | 'broken' | 'done';
}

/**
 * Builds indexes that migrations have only declared on a partitioned table (`CREATE INDEX … ON ONLY`) for the partitions that
 * existed before, without a lock that mail would wait for. Partitions attached later get the index when they are attached.
 * Safe to call from several nodes at once: one does it, the others return. It can be stopped or killed at any moment; the
 * next call continues.
 */
export async function completeIndexes(db: Database, stop: AbortSignal): Promise<void> {
  if ((await listMissing(db)).length === 0) return;
  const building = db.session(async (session) => {
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
      // The connection of a session that fails is not kept: this may cancel a statement a moment later.
      stop.throwIfAborted();
    } finally {
      stop.removeEventListener('abort', cancel);
    }
  }, buildMs);
  await building.catch((error: unknown) => {
    if (!stop.aborted) throw error;
  });
}

async function complete(
  run: (statement: string) => Promise<unknown>,
  { index, definition, partition, own }: Missing,
): Promise<void> {
  const name = ownName(index, partition);
  if (own === 'broken') await run(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`);
  if (own !== 'done') await run(`CREATE INDEX CONCURRENTLY ${name} ON ${partition} ${definition}`);
  // Statements use the index from here on. A long read of the table, such as a dump, delays attaching it until a later call.
  await run(`SET lock_timeout = ${lockMs}`);
  await run(`ALTER INDEX ${index} ATTACH PARTITION ${name}`).catch((error: unknown) => {
    if (databaseCodeOf(error) !== lockNotAvailable) throw error;
  });
  await run('RESET lock_timeout');
}

/** The name of an index on a partition: `recipients_20261123_due_idx` is part of `recipients_due_idx`. */
function ownName(index: string, partition: string): string {
  const table = partition.slice(0, partition.lastIndexOf('_'));
  return `${partition}${index.slice(table.length)}`;
}

/** What is known to be built, by database: it stays so, as later partitions have it too. */
const builtIn = new WeakMap<Database, Set<string>>();

/** Whether statements find rows by this index in all partitions. Once they do, the database is not asked again. */
export async function isBuilt(db: Database, index: string): Promise<boolean> {
  const known = builtIn.get(db) ?? new Set();
  builtIn.set(db, known);
  if (known.has(index)) return true;
  const isMissing = (await listMissing(db)).some((missing) => missing.index === index && missing.own !== 'done');
  if (!isMissing) known.add(index);
  return !isMissing;
}

/** The missing parts of declared indexes, newest weeks first. */
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
