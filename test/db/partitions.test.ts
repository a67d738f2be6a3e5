import t from 'tap';
import type { Sql, Statement } from '../../src/db/client.ts';
import { connect } from '../../src/db/client.ts';
import {
  detachPartition,
  ensurePartitions,
  gapsOf,
  keepingPartitions,
  listPartitions,
} from '../../src/db/partitions.ts';
import { floorId, newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase, openDatabase } from '../support/db.ts';

const hourMs = 3_600_000;
const weekMs = 7 * 24 * hourMs;

t.test('partitions exist at once when a machine wakes up or its clock is set', async (t) => {
  const db = await openDatabase(t);
  let refuses = false;
  let asked = 0;
  const counted: Sql = {
    async query<Row>(statement: Statement) {
      asked += 1;
      if (refuses) throw new Error('not now');
      return db.query<Row>(statement);
    },
  };
  const keep = keepingPartitions(counted);
  const start = Date.now();
  const at = (ms: number) => new Date(start + ms);
  const takes = async (moment: Date) => {
    const insert = { text: `INSERT INTO email_contents (email_id, text) VALUES ($1, 't')`, values: [newId(moment)] };
    return db.query(insert).then(
      () => true,
      () => false,
    );
  };
  await keep(at(0));
  asked = 0;
  await keep(at(5 * hourMs));
  t.equal(asked, 1, 'usually there is nothing to do but to look at the clock');

  for (const awake of [at(10 * weekMs), at(-10 * weekMs)]) {
    t.notOk(await takes(awake));
    refuses = true;
    await t.rejects(keep(awake));
    refuses = false;
    await keep(awake);
    t.ok(await takes(awake), `${awake.toISOString()}`);
    t.ok(await takes(new Date(awake.getTime() + weekMs)));
  }

  // The partitions of one week exist together, and none twice.
  const names = (await listPartitions(db)).map(({ name }) => name);
  t.equal(new Set(names).size, names.length);
  t.equal(names.length % 6, 0);
});

t.test('a node whose clock is months behind also makes those that emails need', async (t) => {
  const db = await openDatabase(t);
  for (const { name } of await listPartitions(db)) await db.query({ text: `DROP TABLE ${name}` });
  const insert = (at: Date) =>
    db.query({ text: `INSERT INTO email_contents (email_id, text) VALUES ($1, 't')`, values: [newId(at)] });
  await t.rejects(insert(new Date()));
  await keepingPartitions(db)(new Date(Date.now() - 20 * weekMs));
  await t.resolves(insert(new Date()));
  await t.resolves(insert(new Date(Date.now() - 20 * weekMs)));
});

t.test('an older week gets the partition of counts that it lacks, unless its emails are being dropped', async (t) => {
  const db = await openDatabase(t);
  const now = new Date();
  const older = async (table: string) =>
    (await listPartitions(db)).filter(
      (one) => one.table === table && one.state === 'attached' && one.to < new Date(now.getTime() - 5 * weekMs),
    );
  const dropCounts = async () => {
    for (const { name } of await older('email_counts')) await db.query({ text: `DROP TABLE ${name}` });
  };
  await ensurePartitions(db, new Date(now.getTime() - 10 * weekMs));
  await dropCounts();
  await ensurePartitions(db, now);
  t.equal((await older('email_counts')).length, 4, 'as nodes of the previous release make none');

  await dropCounts();
  let asked = 0;
  const meanwhile: Sql = {
    async query<Row>(statement: Statement) {
      const rows = await db.query<Row>(statement);
      asked += 1;
      if (asked === 1) for (const one of await older('emails')) await detachPartition(db, one);
      return rows;
    },
  };
  await ensurePartitions(meanwhile, now);
  t.same(await older('email_counts'), [], 'retention took the emails after this node had seen them');
  await ensurePartitions(db, now);
  t.same(await older('email_counts'), [], 'what else is left of the week needs no counts');
});

t.test('a week begins on Monday, on whichever day it is made', async (t) => {
  const db = await openDatabase(t);
  for (let day = 0; day < 7; day += 1)
    await ensurePartitions(db, new Date(Date.UTC(2040, 0, 2 + 28 * day) + day * 24 * hourMs));
  const begins = (await listPartitions(db)).map(({ from }) =>
    [from.getUTCDay(), from.getTime() % (24 * hourMs)].join(),
  );
  t.strictSame(new Set(begins), new Set(['1,0']));
});

t.test('weeks that follow each other have no gap between them; a week that was dropped leaves one', async (t) => {
  const db = await openDatabase(t);
  const gaps = async () => gapsOf(await listPartitions(db), 'emails');
  const weeks = (await listPartitions(db)).filter(({ table }) => table === 'emails');
  const [first, second] = weeks;
  if (!first || !second) throw new Error('no weeks');
  const before = { first: floorId(new Date(0)), next: floorId(first.from) };
  t.strictSame(await gaps(), [before]);
  await detachPartition(db, second);
  t.strictSame(await gaps(), [before, { first: floorId(second.from), next: floorId(second.to) }]);
});

t.test('several nodes at once make the partitions of a week', async (t) => {
  const db = await openDatabase(t);
  const later = new Date(Date.now() + 10 * weekMs);
  await t.resolves(Promise.all([1, 2, 3].map(() => ensurePartitions(db, later))));
  t.equal((await listPartitions(db)).filter(({ from }) => from > later).length, 12);
});

t.test('partitions exist at once when another database takes over whose clock is weeks off', async (t) => {
  const url = await createDatabase();
  const open = () => {
    const db = connect(url, silentLog, 2);
    t.teardown(() => db.close());
    return db;
  };
  let db = open();
  const keep = keepingPartitions({ query: (statement) => db.query(statement) });
  const insert = `INSERT INTO email_contents (email_id, text)
    VALUES ((lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid, 't')`;
  await keep(new Date());
  for (const weeks of [10, -10]) {
    // By the clock of this database, whoever asks.
    await db.query({
      text: `CREATE OR REPLACE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS
               $$ SELECT pg_catalog.now() + make_interval(weeks => ${weeks}) $$`,
    });
    await db.query({
      text: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`,
    });
    db = open();
    await t.rejects(db.query({ text: insert }), { code: '23514' });
    await keep(new Date());
    await t.resolves(db.query({ text: insert }), `${weeks} weeks`);
  }
});
