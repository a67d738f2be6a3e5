import t, { type Test } from 'tap';
import * as counts from '../../src/core/log/email-counts.ts';
import { list } from '../../src/core/log/email-log.ts';
import { dropOld } from '../../src/core/retention/retention.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { dropPartition, ensurePartitions, listPartitions } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';
import {
  add,
  all,
  anyTime,
  dayMs,
  firstPage,
  nameOf,
  partitioned,
  prepare,
  rowsOf,
  weekMs,
  weekOf,
} from './retention-scene.ts';

/** Begins to detach this week from the table, and is stopped while it waits for a reader. */
async function cutHalf(t: Test, db: Database, table: string, week: number): Promise<void> {
  const name = nameOf(table, week);
  const began = Promise.withResolvers<number>();
  const cut = db.session(async (session) => {
    const [row] = await session.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
    began.resolve(row?.pid ?? 0);
    await session.query({ text: `ALTER TABLE ${table} DETACH PARTITION ${name} CONCURRENTLY` });
  });
  const stopped = t.rejects(cut, { code: '57014' });
  await eventually(async () => (await listPartitions(db)).find((one) => one.name === name)?.state === 'leaving');
  await db.query({ text: 'SELECT pg_cancel_backend($1)', values: [await began.promise] });
  await stopped;
}

t.test(
  'DOS-16: a week is deleted 30 days after its end with everything about its emails, and the counts stay exact',
  async (t) => {
    const db = await openDatabase(t);
    const accountId = await prepare(db);
    await add(db, accountId, 0);
    await counts.addUp(db);
    // Some are still changes.
    await db.query({ text: 'INSERT INTO email_count_changes SELECT * FROM email_counts' });
    const kept = await add(db, accountId, 1);
    t.strictSame(await rowsOf(db), all(2));

    t.strictSame(await dropOld(db, new Date(weekOf(1).getTime() + 30 * dayMs - 1)), []);
    t.strictSame(await rowsOf(db), all(2), 'a moment too early');

    const dropped = await dropOld(db, new Date(weekOf(1).getTime() + 30 * dayMs));
    t.strictSame(dropped.sort(), partitioned.map((table) => nameOf(table, 0)).sort());
    t.strictSame(await rowsOf(db), all(1));
    await counts.addUp(db);
    for (const filter of [{}, { tag: 'all' }, { from: 'a@b.test' }, { status: 'sent' as const }]) {
      const { emails, count } = await list(db, { ...anyTime, ...filter }, firstPage);
      t.strictSame([emails.map(({ id }) => id), count], [[kept], 1], JSON.stringify(filter));
    }

    // The clock of a node that is ahead does not count.
    t.notSame(await dropOld(db, new Date('2100-01-01')), []);
    t.strictSame(await rowsOf(db), all(0));
    t.equal((await list(db, anyTime, firstPage)).count, 0);
    t.ok(
      (await listPartitions(db)).some(({ from }) => from.getTime() > Date.now() - weekMs),
      'this week stays',
    );
  },
);

t.test(
  'a week stays while a recipient in it waits or was due within 30 days; no other week stays because of it',
  async (t) => {
    const db = await openDatabase(t);
    const accountId = await prepare(db, 4);
    await add(db, accountId, 0, { waiting: { jobId: null } });
    await add(db, accountId, 1, { waiting: { jobId: newId() } });
    await add(db, accountId, 2, { scheduledAt: new Date(Date.now() - 29 * dayMs) });
    await add(db, accountId, 3, { scheduledAt: new Date(Date.now() - 31 * dayMs) });
    await add(db, accountId, 4);
    await db.query({
      text: `UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = now() - make_interval(secs => 1) WHERE id = (SELECT max(id::text)::uuid FROM webhook_deliveries)`,
    });

    await dropOld(db, new Date());
    t.match(await rowsOf(db), {
      emails: 3,
      email_contents: 3,
      recipients: 3,
      attempts: 3,
      webhook_deliveries: 1,
      returns: 3,
      sandbox_messages: 3,
    });
    t.equal((await list(db, anyTime, firstPage)).count, 3);

    await db.query({ text: `UPDATE recipients SET next_attempt_at = NULL, job_id = NULL` });
    await db.query({ text: `UPDATE webhook_deliveries SET next_attempt_at = NULL` });
    await dropOld(db, new Date());
    t.match(await rowsOf(db), { emails: 1, recipients: 1, webhook_deliveries: 0, attachments: 3, returns: 1 });
    t.equal((await list(db, anyTime, firstPage)).count, 1);
  },
);

t.test('mail does not wait for this, however long somebody reads', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 0);
  let dropping: Promise<string[]> | undefined;
  // It waits as long as this test takes, on any machine.
  const patient: Database = { ...db, session: (work) => db.session(work, 120_000) };
  await db.transaction(async (reader) => {
    await reader.query({ text: 'SELECT count(*) FROM emails' });
    dropping = dropOld(patient, new Date());
    // A week of webhook deliveries is detached at the same time, and waits for nobody.
    const leaving = async () => {
      // A transaction that is silent for long is ended.
      await reader.query({ text: 'SELECT 1' });
      return (await listPartitions(db)).some(({ table, state }) => table === 'emails' && state === 'leaving');
    };
    t.ok(await eventually(leaving), 'it waits for the reader');
    await db.transaction(async (tx) => {
      await tx.query({ text: `SET LOCAL lock_timeout = '100ms'` });
      await add(tx, accountId, 10);
    });
    t.equal((await db.query({ text: 'SELECT FROM emails' })).length, 1, 'later statements go past it');
    t.strictSame(await dropOld(db, new Date()), [], 'another node leaves it alone');
  });
  t.ok((await dropping)?.length);
  t.match(await rowsOf(db), { emails: 1, recipients: 1 });
});

t.test('a week that was half dropped is dropped while somebody reads the others', async (t) => {
  const db = await openDatabase(t);
  await add(db, await prepare(db), 0);
  await db.transaction(async (reader) => {
    await reader.query({ text: 'SELECT count(*) FROM emails' });
    await cutHalf(t, db, 'emails', 0);
  });
  await db.transaction(async (reader) => {
    await reader.query({ text: 'SELECT count(*) FROM emails' });
    const half = (await listPartitions(db)).find(({ state }) => state === 'leaving');
    if (!half) throw new Error('it is not half dropped');
    await db.session(async (session) => {
      await session.query({ text: `SET lock_timeout = '1s'` });
      await t.resolves(dropPartition(session, half), 'it does not lock the whole table');
    });
  });
  t.notOk((await listPartitions(db)).some(({ name }) => name === nameOf('emails', 0)));
});

t.test('a stop does not wait until everything old is deleted', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  for (const week of [0, 1, 2, 3]) await add(db, accountId, week);
  await db.query({
    text: `INSERT INTO attachments SELECT $1, sha256(n::text::bytea), 'b', $2 FROM generate_series(1, 5000) n`,
    values: [accountId, weekOf(0)],
  });
  t.strictSame(await dropOld(db, new Date(), AbortSignal.abort()), []);
  t.match(await rowsOf(db), { emails: 4, returns: 4, attachments: 5_004 });

  const stopping = new AbortController();
  const stopped: Database = {
    ...db,
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      const rows = await db.query<Row>(statement);
      if (/DELETE FROM attachments/.test(statement.text)) stopping.abort();
      return rows;
    },
  };
  t.ok((await dropOld(stopped, new Date(), stopping.signal)).length > 0);
  t.match(await rowsOf(db), { emails: 0, returns: 0 });
  t.ok(((await rowsOf(db)).attachments ?? 0) > 3_000, 'only one batch of attachments was deleted');
  await dropOld(db, new Date());
  t.strictSame(await rowsOf(db), all(0));
});

t.test('returns are deleted a few thousand at a time, and a stop ends it', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 10);
  await db.query({
    text: `INSERT INTO returns (account_id, email_id, recipient, kind) SELECT $1, $2, n || '@d.test', 'bounce' FROM generate_series(1, 12000) n`,
    values: [accountId, newId(weekOf(-5))],
  });
  const left = async () => (await rowsOf(db)).returns;
  const stopping = new AbortController();
  const seen: (number | undefined)[] = [];
  const watched: Database = {
    ...db,
    async query<Row>(statement: Parameters<Database['query']>[0]) {
      const rows = await db.query<Row>(statement);
      if (/DELETE FROM returns/.test(statement.text)) seen.push(await left());
      if (seen.length === 2) stopping.abort();
      return rows;
    },
  };
  await dropOld(watched, new Date(), stopping.signal);
  t.strictSame(seen, [7_001, 2_001]);
  await dropOld(db, new Date());
  t.equal(await left(), 1);
});

t.test('one statement deletes only a limited amount of files', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  const large = 40 * 1024 * 1024;
  const fill = {
    text: `INSERT INTO attachments SELECT $1, sha256(('large' || n)::bytea), convert_to(repeat('b', ${large}), 'UTF8'), $2 FROM generate_series(1, 3) n`,
    values: [accountId, weekOf(0)],
  };
  // Longer than a statement may take, on a machine that is full.
  await db.session((session) => session.query(fill), 120_000);
  let heaviest = 0;
  const sizes = { text: `SELECT coalesce(sum(octet_length(content)), 0)::int AS bytes FROM attachments` };
  const weighed: Database = {
    ...db,
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      if (!/DELETE FROM attachments/.test(statement.text)) return db.query<Row>(statement);
      const [before] = await db.query<{ bytes: number }>(sizes);
      const rows = await db.query<Row>(statement);
      const [after] = await db.query<{ bytes: number }>(sizes);
      heaviest = Math.max(heaviest, (before?.bytes ?? 0) - (after?.bytes ?? 0));
      return rows;
    },
  };
  await dropOld(weighed, new Date());
  t.strictSame(await rowsOf(db), all(0));
  t.equal(heaviest, 2 * large);
});

t.test('a file that an email was scheduled for just before it was accepted stays as long as the email', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  const [first] = (await listPartitions(db)).filter(({ table, to }) => table === 'emails' && to > weekOf(5));
  await db.query({
    text: `INSERT INTO attachments SELECT $1, sha256(hours::text::bytea), 'bytes', $2::timestamptz - make_interval(hours => hours)
             FROM unnest(ARRAY[1, 25]) hours`,
    values: [accountId, first?.from],
  });
  await dropOld(db, new Date());
  t.equal((await listPartitions(db)).find(({ table }) => table === 'emails')?.name, first?.name);
  const left = await db.prisma.attachment.findMany();
  t.strictSame(
    left.map(({ lastUsedAt }) => lastUsedAt.getTime()),
    [Number(first?.from) - 3_600_000],
  );
});

t.test('messages that a sandbox got from elsewhere go with their weeks', async (t) => {
  const db = await openDatabase(t);
  await prepare(db);
  const young = newId();
  await db.query({
    text: `INSERT INTO sandbox_messages (id, mail_from, rcpt_to, subject, header_from, dkim, size, raw)
           SELECT id, '', '{}', 's', 'a@b.test', '[]', 1, 'x' FROM unnest($1::uuid[]) id`,
    values: [[newId(weekOf(0)), young]],
  });
  await dropOld(db, new Date());
  t.match(await db.prisma.sandboxMessage.findMany(), [{ id: young }]);
});

t.test('an interrupted run is finished', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 0);
  await add(db, accountId, 1);
  await db.query({ text: `ALTER TABLE emails DETACH PARTITION ${nameOf('emails', 0)}` });
  await db.transaction(async (reader) => {
    await reader.query({ text: 'SELECT count(*) FROM emails' });
    await cutHalf(t, db, 'emails', 1);
  });
  t.strictSame(
    (await listPartitions(db))
      .filter(({ table }) => table === 'emails')
      .slice(0, 2)
      .map(({ state }) => state),
    ['left', 'leaving'],
  );
  await dropOld(db, new Date());
  t.strictSame(await rowsOf(db), all(0));
  t.equal((await list(db, anyTime, firstPage)).count, 0);
  t.ok((await listPartitions(db)).every(({ state, from }) => state === 'attached' && from > weekOf(1)));
});

for (const state of ['detached', 'gone'])
  t.test(`what was begun is finished, even if a recipient still seems to wait: its emails are ${state}`, async (t) => {
    const db = await openDatabase(t);
    await add(db, await prepare(db), 0, { waiting: { jobId: newId() } });
    await db.query({ text: `ALTER TABLE emails DETACH PARTITION ${nameOf('emails', 0)}` });
    if (state === 'gone') await db.query({ text: `DROP TABLE ${nameOf('emails', 0)}` });
    await dropOld(db, new Date());
    t.strictSame(await rowsOf(db), { ...all(0), webhook_deliveries: 0 });
    t.ok((await listPartitions(db)).every(({ from }) => from > weekOf(0)));
  });

t.test('it is also finished if several parts of a week were under way', async (t) => {
  const db = await openDatabase(t);
  await add(db, await prepare(db), 0);
  await db.query({ text: `ALTER TABLE emails DETACH PARTITION ${nameOf('emails', 0)}` });
  await db.query({ text: `DROP TABLE ${nameOf('emails', 0)}` });
  await db.query({ text: `ALTER TABLE attempts DETACH PARTITION ${nameOf('attempts', 0)}` });
  await db.transaction(async (reader) => {
    await reader.query({ text: 'SELECT FROM recipients, email_contents' });
    await Promise.all(['recipients', 'email_contents'].map((table) => cutHalf(t, db, table, 0)));
  });
  const states = (await listPartitions(db)).slice(0, 5).map(({ table, state }) => `${table} ${state}`);
  t.strictSame(states.sort(), [
    'attempts left',
    'email_contents leaving',
    'email_counts attached',
    'recipients leaving',
    'webhook_deliveries attached',
  ]);
  await dropOld(db, new Date());
  t.strictSame(await rowsOf(db), all(0));
  t.equal((await list(db, anyTime, firstPage)).count, 0);
  t.ok((await listPartitions(db)).every(({ state, from }) => state === 'attached' && from > weekOf(0)));
});

t.test('counts of a week without a partition for them still count, and are added up once there is one', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db, 4);
  // As a node of a release that does not partition counts leaves it.
  await db.query({ text: `DROP TABLE ${nameOf('email_counts', 5)}` });
  await add(db, accountId, 4);
  await add(db, accountId, 5);
  const changed = async () =>
    (await db.query<{ hour: Date }>({ text: 'SELECT DISTINCT hour FROM email_count_changes' })).map(({ hour }) => hour);
  await counts.addUp(db);
  t.equal((await list(db, anyTime, firstPage)).count, 2);
  t.ok((await changed()).every((hour) => hour > weekOf(5)));
  t.equal((await changed()).length, 1);
  // Long after that week.
  await ensurePartitions(db, new Date());
  await counts.addUp(db);
  t.strictSame(await changed(), []);
  t.equal((await list(db, anyTime, firstPage)).count, 2);
});

t.test('no table of a kept week is made again', async (t) => {
  const db = await openDatabase(t);
  await add(db, await prepare(db), 0, { scheduledAt: new Date() });
  t.ok((await dropOld(db, new Date())).includes(nameOf('webhook_deliveries', 0)));
  await ensurePartitions(db, new Date());
  t.strictSame(await dropOld(db, new Date()), []);
  t.equal((await rowsOf(db)).emails, 1);
});

t.test('counts without a partition go with their week', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await db.query({ text: `DROP TABLE ${nameOf('email_counts', 0)}` });
  await add(db, accountId, 0);
  const kept = await add(db, accountId, 1);
  await dropOld(db, new Date(weekOf(1).getTime() + 30 * dayMs));
  const { emails, count } = await list(db, anyTime, firstPage);
  t.strictSame([emails.map(({ id }) => id), count], [[kept], 1]);
});
