import { createHash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { oneLine, StartError } from '../process/start-error.ts';
import { keepAlive, plainOptions, type Sql, startTimeoutMs } from './client.ts';
import { databaseCodeOf, isUnavailable } from './errors.ts';
import { ensurePartitions } from './partitions.ts';

const folder = new URL('../../prisma/migrations/', import.meta.url);

/** The SQLSTATE if a migration did not get a lock within its `lock_timeout`, and how often it is tried. */
const lockNotAvailable = '55P03';
const lockRounds = 5;
const betweenRoundsMs = 1_000;

/** The advisory lock that Prisma's own migrate takes, so that the two never run at once. */
const prismaLock = 72707369;

/**
 * Brings the schema up to date: applies the migrations in prisma/migrations that the database lacks, in order, each in its
 * own transaction, and writes the rows to `_prisma_migrations` that `prisma migrate deploy` would have written. Then makes
 * the partitions of the weeks ahead. Nodes that start together wait for each other.
 *
 * @returns the names of the migrations that were applied
 * @throws StartError if a migration in the folder differs from what was applied under its name, or fails
 */
export async function migrate(url: string): Promise<string[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: startTimeoutMs,
    // However long a large table, or another node that migrates, takes.
    options: `${plainOptions} -c statement_timeout=0`,
    // However long that is, a server that vanished without a word is not waited for.
    ...keepAlive,
    application_name: 'sendwright migrate',
  });
  // Between two statements, only this listener keeps a broken connection from ending the process; the next statement fails.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [prismaLock]);
    const applied = await applyMissing(client);
    await ensurePartitions(
      { query: async (statement) => (await client.query(statement.text, statement.values)).rows },
      new Date(),
    );
    return applied;
  } finally {
    await client.end();
  }
}

/**
 * `none`: never migrated, so new or another program's. `ours`: exactly the migrations in prisma/migrations. `newer`: with
 * migrations that are not there. `older`: without some that are.
 */
export type Schema = 'none' | 'ours' | 'newer' | 'older';

/** Compares what was applied to the database with the migrations of this release. */
export async function schemaOf(db: Sql): Promise<Schema> {
  const [table] = await db.query<{ there: boolean }>({
    text: `SELECT to_regclass('_prisma_migrations') IS NOT NULL AS there`,
  });
  if (!table?.there) return 'none';
  const rows = await db.query<{ name: string }>({
    text: 'SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL',
  });
  if (rows.length === 0) return 'none';
  const applied = new Set(rows.map(({ name }) => name));
  const ours = await names();
  const isApplied = (name: string) => applied.has(name);
  if (applied.size > ours.filter(isApplied).length) return 'newer';
  return ours.every(isApplied) ? 'ours' : 'older';
}

async function names(): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
}

async function applyMissing(client: pg.Client): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id varchar(36) PRIMARY KEY, checksum varchar(64) NOT NULL, finished_at timestamptz, migration_name varchar(255) NOT NULL,
    logs text, rolled_back_at timestamptz, started_at timestamptz NOT NULL DEFAULT now(), applied_steps_count integer NOT NULL DEFAULT 0)`);
  const { rows } = await client.query<{ migration_name: string; checksum: string }>(
    'SELECT migration_name, checksum FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL',
  );
  const known = new Map(rows.map((row) => [row.migration_name, row.checksum]));
  const applied: string[] = [];
  for (const name of await names()) {
    const sql = await readFile(new URL(`${name}/migration.sql`, folder), 'utf8');
    const checksum = createHash('sha256').update(sql).digest('hex');
    const before = known.get(name);
    if (before === checksum) continue;
    if (before) {
      throw new StartError(
        `migration ${name} was changed after it had been applied to this database: restore the release's own prisma/migrations`,
      );
    }
    await applyOne(client, name, checksum, sql);
    applied.push(name);
  }
  return applied;
}

async function applyOne(client: pg.Client, name: string, checksum: string, sql: string): Promise<void> {
  for (let round = 1; ; round += 1) {
    try {
      return await commit(client, name, checksum, sql);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const held = databaseCodeOf(error) === lockNotAvailable;
      const advice = held
        ? 'another session, such as a dump, is locking one of its tables: wait for it or end it, and start again'
        : 'DATABASE_URL must name an empty database, or one that only Sendwright has changed';
      const reason = `migration ${name} failed (${oneLine((error as Error).message)}): ${advice}`;
      if (!held || round === lockRounds) throw new StartError(reason, { cause: error });
    }
    // Statements that queued behind it go first.
    await sleep(betweenRoundsMs);
  }
}

async function commit(client: pg.Client, name: string, checksum: string, sql: string): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(sql);
    await client.query(
      `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
       VALUES ($1, $2, now(), $3, 1)`,
      [randomUUID(), checksum, name],
    );
    await client.query('COMMIT');
  } catch (error) {
    // On a lost connection this fails too, with a less useful error.
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
