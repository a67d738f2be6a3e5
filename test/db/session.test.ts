import t from 'tap';
import { connect, type Sql } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';

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
