import { readFileSync } from 'node:fs';
import t from 'tap';
import { connect, type Database } from '../../src/db/client.ts';
import { startErrorOf } from '../../src/db/failure.ts';
import { migrate } from '../../src/db/migrate.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase, openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';

/** Model and column names as schema.prisma maps them. */
function modelsOf(schema: string): Map<string, string[]> {
  const enums = new Set([...schema.matchAll(/^enum (\w+)/gm)].map((match) => match[1]));
  const scalars = /^(String|Int|BigInt|DateTime|Boolean|Bytes|Json|Float|Decimal)/;
  const models = new Map<string, string[]>();
  for (const [, body] of schema.matchAll(/^model \w+ \{([\s\S]*?)^\}/gm)) {
    const table = /@@map\("(\w+)"\)/.exec(body ?? '')?.[1] ?? '';
    const columns = (body ?? '').split('\n').flatMap((text) => {
      const field = /^ {2}(\w+)\s+(\w+)/.exec(text);
      if (!field || !(scalars.test(field[2] ?? '') || enums.has(field[2]))) return [];
      return [/@map\("(\w+)"\)/.exec(text)?.[1] ?? (field[1] as string)];
    });
    models.set(table, columns);
  }
  return models;
}

t.test('schema.prisma and the migrations agree', async (t) => {
  const db = await openDatabase(t);
  const rows = await db.query<{ table_name: string; column_name: string }>({
    text: `SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN pg_class p ON p.relname = c.table_name
            WHERE c.table_schema = 'public' AND p.relnamespace = 'public'::regnamespace AND NOT p.relispartition AND c.table_name NOT LIKE '\\_%'`,
  });
  const columns = Map.groupBy(rows, (row) => row.table_name);
  const models = modelsOf(readFileSync(new URL('../../prisma/schema.prisma', import.meta.url), 'utf8'));
  t.same([...models.keys()].sort(), [...columns.keys()].sort(), 'the tables');
  for (const [table, names] of models) {
    t.same(
      names.toSorted(),
      columns
        .get(table)
        ?.map((row) => row.column_name)
        .sort(),
      `the columns of ${table}`,
    );
  }
  for (const model of [
    'account',
    'user',
    'loginFailure',
    'apiKey',
    'domain',
    'email',
    'emailContent',
    'attachment',
    'recipient',
    'attempt',
    'return',
    'node',
    'sandboxMessage',
    'webhook',
    'webhookDelivery',
    'template',
  ] as const) {
    await t.resolves((db.prisma[model] as { findFirst(): Promise<unknown> }).findFirst(), `${model} can be read`);
  }
});

t.test('each migration is applied once, by one of several processes', async (t) => {
  const url = await createDatabase();
  t.same(await migrate(url), [], 'the clone has everything already');
  const db = connect(url, silentLog, 1);
  t.teardown(() => db.close());
  await db.query({ text: 'DROP TRIGGER keep_email_counts ON email_counts' });
  await db.query({ text: `DELETE FROM _prisma_migrations WHERE migration_name = '20261130100000_counts_kept'` });
  const applied = await Promise.all([migrate(url), migrate(url), migrate(url)]);
  t.same(applied.flat(), ['20261130100000_counts_kept']);
});

t.test('rows go to the partition of their week, and a distant week has none', async (t) => {
  const db = await openDatabase(t);
  const insert = (id: string) =>
    db.query({
      text: 'INSERT INTO email_contents (email_id) VALUES ($1) RETURNING tableoid::regclass::text AS place',
      values: [id],
    });
  const [now] = (await insert(newId())) as { place: string }[];
  t.match(now?.place, /^email_contents_\d{8}$/);
  const far = new Date(Date.now() + 100 * 86_400_000);
  await t.rejects(insert(newId(far)), { code: '23514' });
  await Promise.all([ensurePartitions(db, far), ensurePartitions(db, far)]);
  await t.resolves(insert(newId(far)));
});

t.test('a migration whose connection ends at any moment fails, and the process goes on', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog, 1);
  t.teardown(() => db.close());
  const lock = [72707369];
  const waiting = {
    text: `SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'sendwright migrate' AND wait_event = 'advisory'`,
  };
  let ended = 0;
  for (let round = 0; round < 20; round += 1) {
    await db.query({ text: 'SELECT pg_advisory_lock($1)', values: lock });
    const migrating = migrate(url).then(
      () => 'done',
      (error) => startErrorOf(error)?.message ?? error,
    );
    const [{ pid } = {}] = await eventually(async () => {
      const rows = await db.query<{ pid: number }>(waiting);
      return rows.length > 0 && rows;
    });
    // In one call: on a slow machine all could be done before a second one.
    await db.query({
      text: `DO $$ BEGIN PERFORM pg_advisory_unlock(${lock}); PERFORM pg_sleep(${round / 1_000}); PERFORM pg_terminate_backend(${pid}); END $$`,
    });
    const outcome = await migrating;
    if (outcome === 'done') continue;
    t.match(outcome, /^the database failed \(/);
    ended += 1;
  }
  t.ok(ended > 0, `${ended} of 20`);
  t.same(await migrate(url), []);
});

t.test('a migration that cannot lock its table gives way, and is tried again', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog, 2);
  t.teardown(() => db.close());
  await db.query({ text: 'DROP TRIGGER keep_email_counts ON email_counts' });
  await db.query({ text: `DELETE FROM _prisma_migrations WHERE migration_name = '20261130100000_counts_kept'` });
  const migrating = db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE email_counts IN ROW EXCLUSIVE MODE' });
    const begun = migrate(url);
    await tx.query({ text: 'SELECT pg_sleep(5.5)' });
    return { begun };
  });
  t.same(await (await migrating).begun, ['20261130100000_counts_kept']);
});

t.test('counts of a release without weekly partitions are kept, each in its week', async (t) => {
  const db = await openDatabase(t);
  const [before] = /CREATE TABLE email_counts [\s\S]*?;\n/.exec(migration('20261122010000_email_counts')) ?? [];
  await db.query({ text: 'DROP TABLE email_counts' });
  await db.query({ text: before ?? '' });
  // The second of these hours is the last of its week; in between, daylight saving time begins for a database that has it.
  const hours = ['2026-03-26T11:00:00Z', '2026-03-29T23:00:00Z', '2026-03-30T00:00:00Z', new Date().toISOString()];
  const insert = {
    text: `INSERT INTO email_counts SELECT '', $1, date_trunc('hour', hour), 'sent', 'transactional', n FROM unnest($2::timestamptz[]) WITH ORDINALITY h (hour, n)`,
    values: [newId(), hours],
  };
  await db.query(insert);
  const files = ['20261129100000_counts_by_week', '20261130100000_counts_kept'].map(migration);
  await db.query({ text: `SET TimeZone = 'Europe/Berlin'; ${files.join('')}` });
  const rows = await db.query<{ emails: number; place: string }>({
    text: 'SELECT emails, tableoid::regclass::text AS place FROM email_counts ORDER BY emails',
  });
  t.strictSame(
    rows.slice(0, 3).map(({ emails, place }) => [emails, place]),
    [
      [1, 'email_counts_20260323'],
      [2, 'email_counts_20260323'],
      [3, 'email_counts_20260330'],
    ],
  );
  t.equal(rows.length, 4);
  await ensurePartitions(db, new Date());
  await t.rejects(db.query(insert), { code: '23505' }, 'its key is there');

  // A node of the previous release does this every hour, and takes it for one table.
  await db.query({
    text: `DELETE FROM email_counts WHERE ctid = ANY (ARRAY(SELECT ctid FROM email_counts WHERE hour < '2026-03-30T00:00:00Z'))`,
  });
  const left = await db.query<{ emails: number }>({ text: 'SELECT emails FROM email_counts ORDER BY emails' });
  t.strictSame(
    left.map(({ emails }) => emails),
    [1, 2, 3, 4],
    'no hour that is kept loses its counts',
  );
});

t.test('a small body is stored in its row, in existing weeks and in new ones', async (t) => {
  const db = await openDatabase(t);
  // Created without this setting, as an earlier release did; then the migration that adds it.
  await db.query({ text: `ALTER TABLE ${await bodiesOf(db, new Date())} RESET (toast_tuple_target)` });
  await db.query({ text: migration('20261128100000_small_bodies') });
  const later = new Date(Date.now() + 60 * 24 * 3_600_000);
  await ensurePartitions(db, later);
  for (const at of [new Date(), later]) {
    const elsewhere = async (text: string) => {
      const week = await bodiesOf(db, at);
      await db.query({
        text: `INSERT INTO ${week} (email_id, html, text)
               SELECT (lpad(to_hex($1::bigint), 12, '0') || '70008' || substr(md5(random()::text), 1, 15))::uuid, $2, $2`,
        values: [at.getTime(), text],
      });
      const [row] = await db.query<{ bytes: number }>({
        text: 'SELECT pg_relation_size(reltoastrelid)::int AS bytes FROM pg_class WHERE oid = $1::regclass',
        values: [week],
      });
      return row?.bytes ?? -1;
    };
    t.equal(await elsewhere('x'.repeat(1_900)), 0);
    t.ok((await elsewhere('x'.repeat(5_000))) > 0, 'a large one is not');
  }
});

for (const { what, setting, by, values } of [
  {
    what: 'bodies that were only inserted are not vacuumed',
    setting: 'autovacuum_vacuum_insert_threshold',
    by: '20261202100000_bodies_left_alone',
    values: [
      { kind: 'r', value: '-1' },
      { kind: 't', value: '-1' },
    ],
  },
  {
    what: 'bodies are not sampled again and again',
    setting: 'autovacuum_analyze_threshold',
    by: '20261206100000_bodies_not_sampled',
    values: [{ kind: 'r', value: `${2 ** 31 - 1}` }],
  },
])
  t.test(`${what}, in existing weeks and in new ones`, async (t) => {
    const db = await openDatabase(t);
    await db.query({ text: `ALTER TABLE ${await bodiesOf(db, new Date())} RESET (${setting}, toast.${setting})` });
    await db.query({ text: migration(by) });
    const later = new Date(Date.now() + 60 * 24 * 3_600_000);
    await ensurePartitions(db, later);
    for (const at of [new Date(), later]) {
      const rows = await db.query<{ kind: string; value: string }>({
        text: `SELECT c.relkind AS kind, o.option_value AS value FROM pg_class t JOIN pg_class c ON c.oid IN (t.oid, t.reltoastrelid)
                CROSS JOIN pg_options_to_table(c.reloptions) o WHERE t.oid = $1::regclass AND o.option_name = $2 ORDER BY 1`,
        values: [await bodiesOf(db, at), setting],
      });
      t.strictSame(rows, values);
    }
  });

t.test('no statistics are collected of what people wrote, in existing weeks and in new ones', async (t) => {
  const db = await openDatabase(t);
  const later = new Date(Date.now() + 60 * 24 * 3_600_000);
  await ensurePartitions(db, later);
  const parents = ['emails', 'email_contents', 'recipients', 'attempts', 'webhook_deliveries'];
  const without = async (table: string) => {
    const rows = await db.query<{ name: string }>({
      text: 'SELECT attname AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND attstattarget = 0 ORDER BY 1',
      values: [table],
    });
    return rows.map(({ name }) => name);
  };
  for (const parent of parents) {
    const made = await without(await weekOf(db, parent, later));
    t.ok(made.length > 0, parent);
    // As an earlier release left it.
    const now = await weekOf(db, parent, new Date());
    const reset = made.map((column) => `ALTER COLUMN "${column}" SET STATISTICS -1`).join(', ');
    await db.query({ text: `ALTER TABLE ${parent} ${reset}; ALTER TABLE ${now} ${reset}` });
    t.strictSame(await without(now), []);
  }
  await db.query({ text: migration('20261202110000_statistics_of_what_is_searched') });
  for (const parent of parents) {
    const made = await without(await weekOf(db, parent, later));
    t.strictSame(await without(await weekOf(db, parent, new Date())), made, parent);
    t.strictSame(await without(parent), made, `${parent} itself`);
  }

  const week = await weekOf(db, 'email_contents', new Date());
  await db.query({
    text: `INSERT INTO ${week} (email_id, html, text) SELECT unnest($1::uuid[]), 'private', 'words'`,
    values: [[newId(), newId()]],
  });
  await db.query({ text: `ANALYZE ${week}` });
  const kept = await db.query<{ column: string }>({
    text: 'SELECT attname AS column FROM pg_stats WHERE tablename = $1 ORDER BY 1',
    values: [week],
  });
  t.strictSame(kept, [{ column: 'attachments' }, { column: 'email_id' }]);
});

function migration(name: string): string {
  return readFileSync(new URL(`../../prisma/migrations/${name}/migration.sql`, import.meta.url), 'utf8');
}

function bodiesOf(db: Database, at: Date): Promise<string> {
  return weekOf(db, 'email_contents', at);
}

/** The partition for this time. */
async function weekOf(db: Database, table: string, at: Date): Promise<string> {
  const [row] = await db.query<{ name: string }>({
    text: `SELECT inhrelid::regclass::text AS name FROM pg_inherits
            WHERE inhparent = $2::regclass AND inhrelid::regclass::text <= $2 || '_' || to_char($1::timestamptz AT TIME ZONE 'UTC', 'YYYYMMDD')
            ORDER BY 1 DESC LIMIT 1`,
    values: [at, table],
  });
  return row?.name ?? '';
}
