import { tmpdir } from 'node:os';
import pg from 'pg';
import { nextRound } from '../throughput/measure.ts';
import { runRound, startTools, stopTools } from '../throughput/round.ts';
import { startBenchedSendwright } from '../throughput/sendwright.ts';

/** The measured cost of one email: a body of 2 KB, one recipient, delivered at the first attempt. */
export interface Inputs {
  /** CPU-seconds. */
  cpu: { server: number; database: number };
  walBytes: number;
  /** On disk with indexes, by table. */
  storedBytes: Record<string, number>;
  /** Connections of one process. */
  connections: number;
}

const connectionsOfProcess = 22;

/** Measures them here, with this many emails in batches. */
export async function measureInputs(count: number): Promise<Inputs> {
  const tools = await startTools();
  const app = await startBenchedSendwright({
    ...{ folder: tmpdir(), sinkPort: tools.sinkPort, domains: 20, sites: 20, webhookPort: null, env: {} },
  });
  const db = new pg.Client({ connectionString: app.databaseUrl('sendwright') });
  await db.connect();
  try {
    const run = () =>
      runRound(app, tools, {
        recipe: {
          ...{ round: nextRound(), count, bytes: 2_048, from: app.from, tls: false },
          ...{ domains: 20, sites: 20, sameBody: false },
        },
        ...{ how: 'batches', clients: 2, perSession: 100, oneByOne: false },
      });
    await run();
    // Otherwise the number of full-page writes is random.
    await db.query('CHECKPOINT');
    const [sizes, { rows: begun }] = [await sizesOf(db), await db.query('SELECT pg_current_wal_lsn() AS at')];
    const { cpu } = await run();
    const { rows } = await db.query('SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)::float8 AS bytes', [begun[0].at]);
    const after = await sizesOf(db);
    const stored = [...after].map(([name, bytes]) => [name, (bytes - (sizes.get(name) ?? 0)) / count] as const);
    return {
      cpu: { server: cpu.server / 1_000, database: cpu.database / 1_000 },
      walBytes: rows[0].bytes / count,
      storedBytes: Object.fromEntries(stored.filter(([, bytes]) => bytes >= 1)),
      connections: connectionsOfProcess,
    };
  } finally {
    await db.end();
    await app.stop();
    stopTools(tools);
  }
}

/** Tables partitioned by week: the others do not grow with mail. */
async function sizesOf(db: pg.Client): Promise<Map<string, number>> {
  const { rows } = await db.query(`
    SELECT c.relname AS name, sum(pg_total_relation_size(p.relid))::float8 AS bytes
      FROM pg_partitioned_table t JOIN pg_class c ON c.oid = t.partrelid, pg_partition_tree(c.oid) p
     WHERE p.isleaf AND c.relnamespace = 'public'::regnamespace GROUP BY 1`);
  return new Map(rows.map(({ name, bytes }) => [name, bytes]));
}
