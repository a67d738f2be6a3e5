import pg from 'pg';
import { type RoundOptions, runRound, type Tools } from './round.ts';
import type { Sendwright } from './sendwright.ts';

/** The database's work per 1,000 emails. */
export interface Statements {
  perEmail: number;
  /** Bytes of write-ahead log. */
  walPerEmail: number;
  /** The most expensive ones, in ms of the database per 1,000 emails. */
  longest: { calls: number; rows: number; ms: number; query: string }[];
}

const shown = 25;
const textShown = 160;

/**
 * Restarts the server with pg_stat_statements, so that the timed rounds ran without it.
 *
 * ¶ @returns null if PostgreSQL does not have it
 */
export async function countingStatements(app: Sendwright): Promise<pg.Client | null> {
  const before = await open(app);
  const { rows } = await before.query("SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements'");
  if (rows.length > 0) await before.query("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
  await before.end();
  if (rows.length === 0) return null;
  await app.restart();
  const client = await open(app);
  await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  return client;
}

/** Two more rounds, not timed: one to warm up, and one that is counted. */
export async function countStatements(
  app: Sendwright,
  tools: Tools,
  [warmUp, options]: [RoundOptions, RoundOptions],
  client: pg.Client,
): Promise<Statements> {
  await runRound(app, tools, warmUp);
  await client.query('SELECT pg_stat_statements_reset()');
  const { rows: begun } = await client.query('SELECT pg_current_wal_lsn() AS at');
  await runRound(app, tools, options);
  const { rows: written } = await client.query({
    text: 'SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1) AS bytes',
    values: [begun[0].at],
  });
  const { rows } = await client.query({ text: longest, values: [shown] });
  const { rows: sums } = await client.query(`${own} SELECT sum(calls) AS calls FROM own`);
  const { count } = options.recipe;
  return {
    perEmail: Number(sums[0].calls) / count,
    walPerEmail: Number(written[0].bytes) / count,
    longest: rows.map(({ calls, rows: touched, ms, query }) => ({
      calls: (Number(calls) / count) * 1_000,
      rows: (Number(touched) / count) * 1_000,
      ms: (ms / count) * 1_000,
      query: query.replace(/\s+/g, ' ').slice(0, textShown),
    })),
  };
}

/**
 * Without the benchmark's own, which check whether everything is recorded, and those by which PostgreSQL checks foreign
 * keys.
 */
const own = `
  WITH own AS (
    SELECT statements.* FROM pg_stat_statements AS statements JOIN pg_database ON pg_database.oid = dbid
     WHERE datname = 'sendwright' AND query NOT LIKE '%/* bench */%' AND query !~ '^SELECT (1|\\$\\d) FROM ONLY ')`;
const longest = `${own}
  SELECT sum(calls) AS calls, sum(rows) AS rows, sum(total_exec_time + total_plan_time) AS ms, query
    FROM own GROUP BY query ORDER BY 3 DESC LIMIT $1`;

async function open(app: Sendwright): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: app.databaseUrl('postgres') });
  client.on('error', () => {});
  await client.connect();
  return client;
}
