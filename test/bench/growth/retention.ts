import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { dropOld } from '../../../src/core/retention/retention.ts';
import type { Database, Sql } from '../../../src/db/client.ts';
import { listPartitions } from '../../../src/db/partitions.ts';
import { type Measured, type RoundOptions, runRound, type Tools } from '../throughput/round.ts';
import type { System } from '../throughput/system.ts';
import { addDelivered } from './fill.ts';

const dayMs = 24 * 3_600_000;
const weekMs = 7 * dayMs;
/** It begins when the round is in full swing. */
const afterMs = 500;

export interface Dropped {
  emails: number;
  /** Bytes on disk, with indexes. */
  bytes: number;
  /** With nothing else to do, as at night. */
  quiet: Drop;
  busy: Drop;
  /** Single emails that were accepted meanwhile, and the same before. */
  during: Measured;
  before: Measured;
}

export interface Drop {
  seconds: number;
  /**
   * The total time of its statements, some of which run at the same time: until no other statement sees the week any
   * more, removing its files, and the rest.
   */
  parts: { detach: number; remove: number; rest: number };
}

/** Drops two weeks that are over, each with this many emails: one on an idle machine, and one while mail comes in. */
export async function dropWeeks(
  app: System,
  { client, db }: { client: pg.Client; db: Database },
  tools: Tools,
  { emails, round, tell }: { emails: number; round: () => RoundOptions; tell: (line: string) => void },
): Promise<Dropped> {
  const [week, weekBefore] = [weekThatIsOver(1), weekThatIsOver(2)];
  const fill = async (from: Date) => {
    await addDelivered(client, { emails, from, to: new Date(from.getTime() + weekMs) }, tell);
    // A month's old data has long been vacuumed and written to disk; dropping waits a second for an autovacuum.
    for (const { name, from: begins } of await listPartitions(db))
      if (begins.getTime() === from.getTime()) await client.query(`VACUUM (ANALYZE) ${name}`);
    await client.query('CHECKPOINT');
  };
  await fill(weekBefore);
  const quiet = await drop(db, weekBefore);
  await fill(week);
  const { rows } = await client.query({
    text: `SELECT sum(pg_total_relation_size(oid))::float8 AS bytes FROM pg_class WHERE relkind = 'r' AND relname LIKE '%\\_' || $1::text`,
    values: [suffixOf(week)],
  });
  const before = await runRound(app, tools, round());
  const dropping = sleep(afterMs).then(() => drop(db, week));
  const [during, busy] = await Promise.all([runRound(app, tools, round()), dropping]);
  return { emails, bytes: rows[0].bytes, quiet, busy, before, during };
}

/**
 * Its Monday. The weeks of Fill may be old enough as well: those are empty by then, or hold what was filled in here.
 */
function weekThatIsOver(before: number): Date {
  // Mondays begin at 00:00 UTC; the first day of 1970 was a Thursday.
  const monday = Math.floor((Date.now() - 31 * dayMs - before * weekMs - 4 * dayMs) / weekMs) * weekMs + 4 * dayMs;
  return new Date(monday);
}

const suffixOf = (week: Date) => week.toISOString().slice(0, 10).replaceAll('-', '');

async function drop(db: Database, week: Date): Promise<Drop> {
  const parts = { detach: 0, remove: 0, rest: 0 };
  const began = performance.now();
  const names = await dropOld(timed(db, parts), new Date());
  const seconds = (performance.now() - began) / 1_000;
  if (!names.includes(`emails_${suffixOf(week)}`)) throw new Error(`the week of ${week.toISOString()} was not dropped`);
  return { seconds, parts };
}

/** The same database, with the time of its statements added up. */
function timed(db: Database, parts: Drop['parts']): Database {
  const timing = (sql: Sql): Sql => ({
    async query(statement) {
      const began = performance.now();
      try {
        return await sql.query(statement);
      } finally {
        const part = / DETACH /.test(statement.text) ? 'detach' : /^DROP /.test(statement.text) ? 'remove' : 'rest';
        parts[part] += (performance.now() - began) / 1_000;
      }
    },
  });
  return {
    ...db,
    ...timing(db),
    session: (work) => db.session((session) => work(timing(session))),
    transaction: (work) => db.transaction((tx) => work(timing(tx))),
  };
}
