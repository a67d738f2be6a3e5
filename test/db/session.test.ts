import { Socket } from 'node:net';
import t from 'tap';
import { connect, type Sql } from '../../src/db/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { buildAccount } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { administer } from '../support/start.ts';

async function read(sql: Sql) {
  const [row] = await sql.query({
    text: `SELECT pg_backend_pid() AS pid, current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement,
                  current_setting('enable_seqscan') AS scan, now() = statement_timestamp() AS alone,
                  (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks`,
  });
  return row as { pid: number };
}

t.test('a session leaves nothing on its connection, which is used again unless it failed', async (t) => {
  const db = connect(await createDatabase(), silentLog, 1);
  t.teardown(() => db.close());
  const usual = { lock: '0', statement: '9s', scan: 'off', alone: true, locks: 0 };
  const before = await read(db);
  t.match(before, usual);

  for (const leavesTransaction of [false, true]) {
    const within = await db.session(async (session) => {
      await session.query({ text: 'SET lock_timeout = 5000' });
      await session.query({ text: 'SET enable_seqscan = on' });
      await session.query({ text: 'SELECT pg_advisory_lock(1)' });
      if (leavesTransaction) await session.query({ text: 'BEGIN' });
      return read(session);
    }, 60_000);
    t.match(within, { lock: '5s', statement: '1min', scan: 'on', locks: 1 });
    t.strictSame(await read(db), before);
  }

  await t.rejects(
    db.session(async (session) => {
      await session.query({ text: 'SET lock_timeout = 5000' });
      throw new Error('failed');
    }),
    { message: 'failed' },
  );
  const after = await read(db);
  t.match(after, usual);
  t.not(after.pid, before.pid, 'nobody knows what it was doing');
});

t.test('each connection is probed while it is quiet, so that nobody waits for a server that vanished', async (t) => {
  const url = await createDatabase();
  const probed = t.capture(Socket.prototype, 'setKeepAlive', function (this: Socket) {
    return this;
  });
  const db = connect(url, silentLog, 1);
  t.teardown(() => db.close());
  await db.query({ text: 'SELECT 1' });
  await migrate(url);
  t.strictSame(
    probed().map(({ args }) => args),
    [
      [true, 30_000],
      [true, 30_000],
    ],
  );
});

t.test('what an operator sets for a role or a database does not change what statements do', async (t) => {
  const url = await createDatabase();
  const name = new URL(url).pathname.slice(1);
  const set = (setting: string) => `ALTER DATABASE ${name} SET ${setting}`;
  const settings = [
    `default_transaction_isolation = 'serializable'`,
    `DateStyle = 'German'`,
    `lock_timeout = '1ms'`,
    `idle_session_timeout = '1h'`,
    `TimeZone = 'Asia/Kathmandu'`,
    'standard_conforming_strings = off',
    'array_nulls = off',
  ];
  await administer(settings.map(set));
  const db = connect(url, silentLog, 2);
  t.teardown(() => db.close());
  const usual = { isolation: 'read committed', lock: '0', idle: '0', digit: '\\d', list: [null] };
  const statement = {
    text: `SELECT '\\d' AS digit, '{NULL}'::text[] AS list, current_setting('transaction_isolation') AS isolation, current_setting('lock_timeout') AS lock, current_setting('idle_session_timeout') AS idle, now() AS time`,
  };
  const ask = async (sql: Sql) => (await sql.query<{ time: unknown }>(statement))[0];
  for (const row of [await ask(db), await db.transaction(ask), await db.session(ask)]) {
    t.match(row, usual);
    t.ok(row?.time instanceof Date);
  }
  const { id } = await buildAccount(db);
  const time = new Date('2026-07-01T12:00:00.000Z');
  await db.prisma.account.update({ where: { id }, data: { suspendedAt: time } });
  const stored = await db.query<{ at: Date }>({ text: 'SELECT suspended_at AS at FROM accounts' });
  t.strictSame(stored, [{ at: time }], 'Prisma stores a time as what it is');
  await db.query({ text: 'UPDATE accounts SET suspended_at = $1', values: [time] });
  t.strictSame(
    await db.prisma.account.findMany({ select: { suspendedAt: true } }),
    [{ suspendedAt: time }],
    'and reads it as that',
  );

  await db.query({
    text: `CREATE FUNCTION usual() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN ASSERT current_setting('transaction_isolation') = 'read committed'; RETURN NEW; END $$;
           CREATE TRIGGER usual BEFORE INSERT ON pgboss.queue FOR EACH ROW EXECUTE FUNCTION usual()`,
  });
  const queue = createQueue(url, silentLog);
  await t.resolves(queue.start());
  await queue.stop();

  await administer([set(`statement_timeout = '1ms'`)]);
  const migrating = await db.session(async (session) => {
    await session.query({ text: 'SELECT pg_advisory_lock(72707369)' });
    const waiting = migrate(url);
    await Promise.race([untilOneWaits(db), waiting.catch(() => undefined)]);
    return { waiting };
  });
  await t.resolves(migrating.waiting, 'nodes that start together wait for each other');
});
