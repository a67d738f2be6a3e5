import type pg from 'pg';
import { dropOld } from '../../../src/core/retention.ts';
import type { Database, Sql } from '../../../src/db/client.ts';
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
  seconds: number;
  /** Of these: until no statement sees the week any more, removing its files, and what hung on it, mostly numbers that were kept. */
  parts: { detach: number; remove: number; rest: number };
  /** Single emails that were accepted meanwhile, and the same before. */
  during: Measured;
  before: Measured;
}

/** Drops a week that is over, with so many emails, while mail comes in. */
export async function dropUnderLoad(
  app: System,
  { client, db }: { client: pg.Client; db: Database },
  tools: Tools,
  { emails, round, tell }: { emails: number; round: () => RoundOptions; tell: (line: string) => void },
): Promise<Dropped> {
  // Mondays begin at 00:00 UTC; the first day of 1970 was a Thursday.
  const monday = Math.floor((Date.now() - 31 * dayMs - weekMs - 4 * dayMs) / weekMs) * weekMs + 4 * dayMs;
  await addDelivered(client, { emails, from: new Date(monday), to: new Date(monday + weekMs) }, tell);
  const suffix = new Date(monday).toISOString().slice(0, 10).replaceAll('-', '');
  const { rows } = await client.query({
    text: `SELECT sum(pg_total_relation_size(oid))::float8 AS bytes FROM pg_class WHERE relkind = 'r' AND relname LIKE '%\\_' || $1::text`,
    values: [suffix],
  });
  // Fill's other weeks are there too when this one is old enough for them: those are empty.
  const before = await runRound(app, tools, round());
  let seconds = Number.NaN;
  const parts = { detach: 0, remove: 0, rest: 0 };
  const dropping = new Promise<string[]>((resolve, reject) =>
    setTimeout(() => {
      const began = performance.now();
      dropOld(timed(db, parts), new Date()).then((names) => {
        seconds = (performance.now() - began) / 1_000;
        resolve(names);
      }, reject);
    }, afterMs),
  );
  const during = await runRound(app, tools, round());
  const names = await dropping;
  if (!names.includes(`emails_${suffix}`)) throw new Error(`the week of emails_${suffix} was not dropped`);
  return { emails, bytes: rows[0].bytes, seconds, parts, during, before };
}

/** The same database, with the seconds of its statements added up. */
function timed(db: Database, parts: Dropped['parts']): Database {
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
