import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Database, Sql } from '../../src/db/client.ts';
import { completeIndexes, isBuilt } from '../../src/db/indexes.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { buildSender } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';

const never = new AbortController().signal;

/** A database as the previous release left it, with mail, after the migration that declares an index. */
async function openDeclared(t: { teardown(work: () => Promise<void>): void }): Promise<Database> {
  const db = await openDatabase(t);
  // The previous release made partitions four weeks ahead.
  await ensurePartitions(db, new Date(Date.now() + 14 * 24 * 3_600_000));
  await db.query({ text: 'ALTER TABLE recipients DROP COLUMN type' });
  const file = '../../prisma/migrations/20261201100000_lines_by_type/migration.sql';
  await db.query({ text: `BEGIN; ${readFileSync(new URL(file, import.meta.url), 'utf8')}; COMMIT` });
  await scheduleMany(db, await buildSender(db, Buffer.alloc(32)), { emails: 100, to: 'x.test', at: new Date() });
  return db;
}

/** Whether the index is valid, and how many weeks have it. */
const declared = (db: Sql) =>
  db.query<{ whole: boolean; weeks: number }>({
    text: `SELECT x.indisvalid AS whole, (SELECT count(*)::int FROM pg_inherits WHERE inhparent = x.indexrelid) AS weeks
             FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
            WHERE c.relname = 'recipients_line_idx'`,
  });

const whereMailIs = async (db: Sql) => {
  const [row] = await db.query<{ week: string }>({
    text: 'SELECT tableoid::regclass::text AS week FROM recipients LIMIT 1',
  });
  return row?.week ?? '';
};

const create = (week: string, how = '') => ({
  text: `CREATE INDEX ${how} ${week}_line_idx ON ${week} (account_id, type, next_attempt_at)
          WHERE num_nonnulls(job_id) = 0 AND next_attempt_at IS NOT NULL`,
});

/** Changes a row as mail does; fails if something blocks it. */
const write = (db: Database) =>
  db.transaction(async (tx) => {
    await tx.query({ text: `SET LOCAL lock_timeout = '3s'` });
    await tx.query({ text: `UPDATE recipients SET attempts = attempts + 1 WHERE address LIKE 'r7@%'` });
  });

t.test('an index that is only declared is built, whatever a killed process has left', async (t) => {
  const db = await openDeclared(t);
  const week = await whereMailIs(db);
  const weeks = await db.query<{ name: string }>({
    text: `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'recipients'::regclass`,
  });
  t.ok(weeks.length > 4);
  t.strictSame(await declared(db), [{ whole: false, weeks: 0 }]);

  // Killed while it was building one, after it had built another.
  await db.transaction(async (tx) => {
    await tx.query({ text: 'UPDATE recipients SET attempts = 1' });
    const building = db.session(async (session) => {
      await session.query({ text: `SET statement_timeout = '200ms'` });
      await session.query(create(week, 'CONCURRENTLY'));
    });
    await t.rejects(building, { code: '57014' });
  });
  await db.query(create(weeks.find(({ name }) => name !== week)?.name ?? ''));
  t.equal(await isBuilt(db, 'recipients_line_idx'), false);
  await Promise.all([completeIndexes(db, never), completeIndexes(db, never), completeIndexes(db, never)]);
  t.strictSame(await declared(db), [{ whole: true, weeks: weeks.length }], 'by one of three');
  t.equal(await isBuilt(db, 'recipients_line_idx'), true);
  t.strictSame(await db.query({ text: 'SELECT FROM pg_index WHERE NOT indisvalid' }), [], 'nothing is left over');

  await ensurePartitions(db, new Date(Date.now() + 60 * 24 * 3_600_000));
  const later = await declared(db);
  t.ok(later[0]?.whole && later[0].weeks > weeks.length, 'later weeks have it');
  await completeIndexes(db, never);
  t.strictSame(await declared(db), later);
});

t.test('weeks that are created while it is only declared have it too', async (t) => {
  const db = await openDeclared(t);
  for (const days of [60, 67]) await ensurePartitions(db, new Date(Date.now() + days * 24 * 3_600_000));
  const [{ weeks } = { weeks: 0 }] = await declared(db);
  t.ok(weeks > 4);

  const week = await whereMailIs(db);
  await db.query({ text: `CREATE INDEX ${week}_line_idx ON ${week} (account_id)` });
  await t.rejects(completeIndexes(db, never), { code: '42P17' }, 'another index under its name is not passed over');
  await db.query({ text: `DROP INDEX ${week}_line_idx` });
  await completeIndexes(db, never);
  t.match(await declared(db), [{ whole: true }]);
});

t.test('mail does not wait for the build, and neither does a stop', async (t) => {
  const db = await openDeclared(t);
  const week = await whereMailIs(db);
  await db.transaction(async (other) => {
    await other.query({ text: `UPDATE recipients SET attempts = 0 WHERE address LIKE 'r9@%'` });
    const stop = new AbortController();
    const building = completeIndexes(db, stop.signal);
    await eventually(async () => {
      const rows = await db.query({
        text: `SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted`,
      });
      return rows.length > 0;
    });
    await t.resolves(write(db), 'mail goes on while it is being built');
    stop.abort();
    await t.resolves(building);
    t.equal(await isBuilt(db, 'recipients_line_idx'), false);
  });

  // The connection of the build that was stopped is closed a moment later, and until then another build leaves the work to it.
  await eventually(async () => {
    const held = await db.query({
      text: `SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    });
    return held.length === 0;
  });
  await db.query({ text: `DROP INDEX IF EXISTS ${week}_line_idx` });
  await db.query(create(week));
  await db.transaction(async (dump) => {
    await dump.query({ text: `SELECT FROM ${week} LIMIT 1` });
    const building = completeIndexes(db, never);
    for (let time = 0; time < 20; time += 1) await write(db);
    await t.resolves(building, 'and while somebody reads the table for hours');
    t.match(await declared(db), [{ whole: false }]);
    t.equal(await isBuilt(db, 'recipients_line_idx'), true, 'it can be used all the same');
  });
  await completeIndexes(db, never);
  t.match(await declared(db), [{ whole: true }], 'and is attached later');
});
