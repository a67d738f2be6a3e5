import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Database } from '../src/db/client.ts';
import { newId } from '../src/ids.ts';
import { type DeliverJob, type Placed, type Queue, sweeping } from '../src/queue.ts';
import { openQueue } from './support/db.ts';

const job = (destination: string): Placed<DeliverJob> => ({
  ...{ id: newId(), emailIds: [newId()], destination, priority: 0 },
});

/** Jobs go through the queue, each to a different destination. */
async function work({ db, queue }: { db: Database; queue: Queue }, jobs: number): Promise<void> {
  const added = Array.from({ length: jobs }, (_, n) => job(`d${n}.test`));
  await db.transaction((tx) => queue.enqueue(tx, added));
  await db.transaction((tx) => queue.take(tx, jobs, []));
  // PostgreSQL publishes a connection's statistics after a while; this does not wait for it.
  await db.query({ text: 'SELECT pg_stat_force_next_flush()' });
}

/** Rows of done jobs that fetching the next jobs has to read past, and how often they were vacuumed. */
async function left(db: Database): Promise<{ dead: number; cleared: number }> {
  const [row] = await db.query<{ dead: number; cleared: number }>({
    text: `SELECT sum(n_dead_tup)::int AS dead, sum(vacuum_count)::int AS cleared FROM pg_stat_user_tables WHERE schemaname = 'pgboss' AND relname LIKE 'job%'`,
  });
  return row ?? { dead: -1, cleared: -1 };
}

/** Adds jobs that nobody takes. */
async function wait({ db, queue }: { db: Database; queue: Queue }, jobs: number): Promise<void> {
  const added = Array.from({ length: jobs }, () => job('d.test'));
  await db.transaction((tx) => queue.enqueue(tx, added));
  await db.query({ text: 'SELECT pg_stat_force_next_flush()' });
}

t.test('the dead rows of many done jobs are vacuumed while many jobs wait, and otherwise not', async (t) => {
  const { db, queue } = await openQueue(t);
  const sweep = sweeping(db);
  const isLeft = async (what: string) => {
    const before = await left(db);
    await sweep();
    t.strictSame(await left(db), before, `${what}: ${before.dead} rows`);
  };
  await work({ db, queue }, 1_000);
  await wait({ db, queue }, 400);
  await isLeft('few dead rows and few waiting jobs');
  for (let round = 0; round < 5; round += 1) await work({ db, queue }, 4_000);
  const before = await left(db);
  t.ok(before.dead >= 20_000, `${before.dead} rows`);
  await isLeft('few wait');

  await wait({ db, queue }, 1_000);
  await Promise.all([sweep(), sweeping(db)()]);
  const after = await left(db);
  t.ok(after.dead < 10 && after.cleared > before.cleared, JSON.stringify(after));
  const taken = await db.transaction((tx) => queue.take(tx, 2_000, []));
  t.equal(taken.length, 1_400, 'no waiting job is gone');
  await wait({ db, queue }, 1_000);
  await isLeft('few dead rows');
});

t.test('rows that a transaction can still see are not vacuumed over and over', async (t) => {
  const { db, queue } = await openQueue(t);
  const sweep = sweeping(db);
  /** @param alive called often enough that no transaction is idle for too long */
  const much = async (alive = async () => {}) => {
    for (let round = 0; round < 6; round += 1) {
      await work({ db, queue }, 2_000);
      await alive();
    }
  };
  const times = async () => {
    await sweep();
    return (await left(db)).cleared;
  };
  await wait({ db, queue }, 1_000);
  const before = await times();
  const onceMore = await db.transaction(async (reader) => {
    await reader.query({ text: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ' });
    const reads = async () => void (await reader.query({ text: 'SELECT FROM emails' }));
    await reads();
    await much(reads);
    const once = await times();
    t.ok(once > before);
    t.equal(await times(), once);
    t.ok((await left(db)).dead >= 20_000, 'all are still there');
    await much(reads);
    await much(reads);
    const twice = await times();
    t.ok(twice > once, 'with twice as many it is tried again');
    return twice;
  });
  t.equal(await times(), onceMore, 'no more than before');
  await db.query({ text: 'VACUUM pgboss.job' });
  t.ok((await times()) > onceMore);
  await much();
  const again = await left(db);
  t.ok(again.dead >= 20_000);
  t.ok((await times()) > again.cleared, 'as if nothing had been in the way');
});

t.test(
  "jobs of the previous release are taken, and that release finds the first email of this release's jobs",
  async (t) => {
    const { db, queue } = await openQueue(t);
    const emailIds: [string, string, string] = [newId(), newId(), newId()];
    const id = newId();
    await db.transaction((tx) => queue.enqueue(tx, [{ id, emailIds, destination: 'd.test', priority: 7 }]));
    const stored = () => db.query({ text: `SELECT data FROM pgboss.job WHERE id = $1`, values: [id] });
    t.match(await stored(), [{ data: { emailId: emailIds[0], destination: 'd.test', priority: 7 } }]);
    await db.query({ text: `UPDATE pgboss.job SET data = data - 'others' WHERE id = $1`, values: [id] });
    const taken = await db.transaction((tx) => queue.take(tx, 10, []));
    t.strictSame(taken, [{ id, emailIds: [emailIds[0]], destination: 'd.test', priority: 7 }]);
    t.strictSame(await stored(), []);
  },
);

t.test('maintenance goes on, at its usual pace, after the clock of this machine is set back by a month', async (t) => {
  const warnings: string[] = [];
  const warned = ({ name }: Error) => void warnings.push(name);
  process.on('warning', warned);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
    process.off('warning', warned);
  });
  Date.now = () => now() + 31 * 86_400_000;
  await openQueue(t);
  Date.now = now;
  // The first of its timers is over by then.
  await sleep(7_000);
  t.strictSame(warnings, [], 'no timer has a time that it cannot wait for');
});
