import t from 'tap';
import type { Sql } from '../../src/db/client.ts';
import { isUnavailable } from '../../src/db/errors.ts';
import { openDatabase } from '../support/db.ts';

const db = await openDatabase(t);

t.test('QUE-07: a transaction that its node leaves open ends by itself, before the node counts as dead', async (t) => {
  const idle = {
    text: `SELECT setting::int AS ms FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'`,
  };
  const [row] = await db.query<{ ms: number }>(idle);
  t.ok(row && row.ms > 0 && row.ms < 20_000);
  // What happens then, with a tenth of a second.
  const ended = db.transaction(async (tx) => {
    await tx.query({ text: `SET LOCAL idle_in_transaction_session_timeout = '100ms'` });
    // More than once, because a server that gets no turn for so long is late with it.
    for (let round = 0; round < 10; round += 1) {
      await new Promise((resume) => setTimeout(resume, 400));
      await tx.query({ text: 'SELECT 1' });
    }
  });
  const error = await ended.catch((reason: Error) => reason);
  t.ok(isUnavailable(error), String(error));
  t.equal((await db.query({ text: 'SELECT 1' })).length, 1, 'the pool goes on');
});

t.test('transactions that block each other are run again, and each counts once: QUE-12', async (t) => {
  await db.query({ text: 'CREATE TABLE counts (id int PRIMARY KEY, n int NOT NULL)' });
  await db.query({ text: 'INSERT INTO counts VALUES (1, 0), (2, 0)' });
  const add = (tx: Sql, id: number) => tx.query({ text: 'UPDATE counts SET n = n + 1 WHERE id = $1', values: [id] });
  const counts = async () =>
    (await db.query<{ n: number }>({ text: 'SELECT n FROM counts ORDER BY id' })).map(({ n }) => n);
  /** Runs two transactions, neither of which takes its second step before both have taken the first; returns how often one was begun. */
  const collide = async (step: (tx: Sql, side: 0 | 1) => Promise<unknown>, then: typeof step) => {
    const reached = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const runs: Promise<0 | 1>[] = [];
    const begunBefore = new Set<0 | 1>();
    let begun = 0;
    const run = (side: 0 | 1) =>
      db.transaction(async (tx) => {
        begun += 1;
        // Otherwise it could be faster than the other one, which was only just released, and block it again.
        if (begunBefore.has(side)) await runs[1 - side];
        begunBefore.add(side);
        await step(tx, side);
        reached[side]?.resolve();
        await Promise.all(reached.map(({ promise }) => promise));
        await then(tx, side);
        return side;
      });
    runs.push(run(0), run(1));
    t.strictSame(await Promise.all(runs), [0, 1], 'both finish');
    return begun;
  };

  const inCircle = await collide(
    async (tx, side) => {
      // Otherwise it takes a second until the deadlock is noticed.
      await tx.query({ text: `SET LOCAL deadlock_timeout = '10ms'` });
      await add(tx, side + 1);
    },
    (tx, side) => add(tx, 2 - side),
  );
  t.strictSame([inCircle, await counts()], [3, [2, 2]], '40P01: one gave way, and was run once more');

  const outdated = await collide(
    async (tx) => {
      await tx.query({ text: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ' });
      await tx.query({ text: 'SELECT FROM counts' });
    },
    (tx) => add(tx, 1),
  );
  t.strictSame([outdated, await counts()], [3, [4, 2]], '40001: one had read old data, and was run again');

  for (const [code, runs] of [
    ['40001', 3],
    ['40P01', 3],
    ['23505', 1],
  ] as const) {
    let begun = 0;
    const hopeless = db.transaction(async (tx) => {
      begun += 1;
      await add(tx, 1);
      await tx.query({ text: `DO $$ BEGIN RAISE 'always' USING ERRCODE = '${code}'; END $$` });
    });
    await t.rejects(hopeless, { code });
    t.equal(begun, runs, `${code}: this many times, and no more`);
  }
  t.strictSame(await counts(), [4, 2], 'failed transactions left nothing');

  const broken = { text: 'SELECT 1 / 0' };
  const careless = db.transaction(async (tx) => {
    await add(tx, 1);
    await tx.query(broken).catch(() => undefined);
    return 'done';
  });
  await t.rejects(careless, { code: '22012' }, 'nothing was committed, although the work went on');
  const careful = db.transaction(async (tx) => {
    await tx.query({ text: 'SAVEPOINT before' });
    await tx.query(broken).catch(() => undefined);
    await tx.query({ text: 'ROLLBACK TO before' });
    await add(tx, 2);
    return 'done';
  });
  t.equal(await careful, 'done');
  t.strictSame(await counts(), [4, 3]);
});

t.test('a statement by itself that gets into a deadlock is run again', async (t) => {
  await db.query({ text: 'CREATE SEQUENCE runs' });
  /** Fails with this code until it has run this often. */
  const failing = (code: string, times: number) => ({
    text: `DO $$ BEGIN IF nextval('runs') <= ${times} THEN RAISE 'in the way' USING ERRCODE = '${code}'; END IF; END $$`,
  });
  const runs = async () =>
    (await db.query<{ runs: number }>({ text: `SELECT nextval('runs')::int - 1 AS runs` }))[0]?.runs;
  for (const code of ['40001', '40P01']) {
    await db.query({ text: 'ALTER SEQUENCE runs RESTART' });
    await t.resolves(db.query(failing(code, 2)));
    t.equal(await runs(), 3, code);
    await db.query({ text: 'ALTER SEQUENCE runs RESTART' });
    await t.rejects(db.query(failing(code, 9)), { code });
    t.equal(await runs(), 3, `${code}: no more than three times`);
  }
  await db.query({ text: 'ALTER SEQUENCE runs RESTART' });
  await t.rejects(db.query(failing('23505', 9)), { code: '23505' });
  t.equal(await runs(), 1);
});
