import t from 'tap';
import { claim } from '../../src/core/recipients.ts';
import type { Sql } from '../../src/db/client.ts';
import { analyzeFresh } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { buildSender } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { scheduleMany } from '../support/scheduled.ts';

/** How many rows of recipients this connection has read lately. */
async function read(tx: Sql): Promise<number> {
  const [row] = await tx.query<{ rows: number }>({
    text: `SELECT sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE 'recipients_%'`,
  });
  return row?.rows ?? 0;
}

t.test('claiming reads what it claims, however many others have a job and whatever the statistics say', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 5_000, to: 'receiver.test', at: new Date() });
  // As it is most of the time: nearly all have been delivered.
  await db.query({ text: 'ANALYZE recipients' });
  await db.query({ text: 'UPDATE recipients SET job_id = gen_random_uuid()' });
  const jobs = await db.query<{ id: string; emailId: string; destination: string }>({
    text: 'SELECT job_id AS id, email_id AS "emailId", destination FROM recipients LIMIT 10',
  });
  await db.transaction(async (tx) => {
    const before = await read(tx);
    t.equal((await claim(tx, newId(), jobs)).length, 10);
    const rows = (await read(tx)) - before;
    t.ok(rows >= 10 && rows < 100, `${rows} rows`);
  });
});

t.test('a new week that was analyzed while it was empty is planned for again once mail is in it', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await db.query({ text: 'ANALYZE' });
  await db.session(async (session) => {
    await session.query({ text: 'SET plan_cache_mode = force_generic_plan' });
    await session.query({ text: 'PREPARE found AS SELECT FROM recipients WHERE email_id = $1' });
    const plan = async () => {
      const rows = await session.query<{ 'QUERY PLAN': string }>({
        text: `EXPLAIN (ANALYZE) EXECUTE found('${newId()}')`,
      });
      return rows.map((row) => row['QUERY PLAN']).filter((line) => /Scan/.test(line) && !/never executed/.test(line));
    };
    t.match((await plan()).join(), /Seq Scan/, 'of an empty table');
    await scheduleMany(db, sender, { emails: 2_000, to: 'receiver.test', at: new Date() });
    t.match((await plan()).join(), /Seq Scan/, 'and of one that is not empty any more');
    await analyzeFresh(db, new Date());
    t.match((await plan()).join(), /Index (Only )?Scan/);
  });
});
