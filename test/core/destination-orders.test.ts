import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import * as orders from '../../src/core/destinations/destination-orders.ts';
import { lockName, wakeRest } from '../../src/core/destinations/wakings.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { parkForPause } from '../../src/core/recipients/recipients.ts';
import { heldNote, pausedUntil, pauseOf } from '../../src/core/recipients/waiting-for.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { addUpkeep } from '../../src/delivery/upkeep.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { buildSender } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { eventually } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';

const never = new AbortController().signal;
/** Long enough on any machine. */
const aMinute = 60_000;
const inAnHour = new Date(Date.now() + 3_600_000);

/** Two accounts, each with 300 recipients at `slow.test` and 300 at `other.test`. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  for (const sender of [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))])
    for (const to of ['slow.test', 'other.test']) await scheduleMany(db, sender, { emails: 300, to, at: inAnHour });
  const change = (set: string, where: string, ...values: unknown[]) =>
    db.query({ text: `UPDATE recipients SET ${set} WHERE ${where}`, values });
  const count = async (where: string, ...values: unknown[]) =>
    (await db.query<{ n: number }>({ text: `SELECT count(*)::int AS n FROM recipients WHERE ${where}`, values }))[0]?.n;
  return {
    db,
    queue,
    change,
    count,
    async pause(name: string) {
      await orders.pause(db, name);
      await change('next_attempt_at = $2, waiting_for = $3', 'destination = $1', name, pausedUntil, pauseOf(name));
    },
    due: () => count('next_attempt_at <= now() AND waiting_for IS NULL'),
    left: async () => (await db.query({ text: 'SELECT FROM destination_wakings' })).length,
    // A column of milliseconds rounds up too, and the next statement may be faster than that.
    nobodyIsAtIt: () => db.query({ text: `UPDATE destination_wakings SET next_at = now() - interval '1 ms'` }),
  };
}

/** Orders to resume both, of which nothing is done yet, and which nobody is at. */
async function resumeBoth({ db, pause, nobodyIsAtIt }: Awaited<ReturnType<typeof prepare>>): Promise<void> {
  for (const name of ['slow.test', 'other.test']) {
    await pause(name);
    await orders.resume(db, name, { ms: 0 });
  }
  await nobodyIsAtIt();
}

/** Calls `work` after each batch, with the number of the batch. */
function afterEach(db: Database, work: (batch: number) => Promise<void>): Database {
  let batches = 0;
  const transaction = async <T>(inner: (tx: Sql) => Promise<T>) => {
    const result = await db.transaction(inner);
    // The first transaction is that of the order itself.
    if (batches++ > 0) await work(batches - 1);
    return result;
  };
  return { ...db, transaction };
}

t.test('a resume releases what waits for this name, in as many batches as needed, and nothing else', async (t) => {
  const { db, change, count, pause, due, left } = await prepare(t);
  for (const name of ['slow.test', 'other.test']) await pause(name);
  await change('waiting_for = $1', `address = 'r1@slow.test'`, heldNote);
  let batches = 0;
  const counted = afterEach(db, async (batch) => {
    batches = batch;
  });
  t.same(await orders.resume(counted, 'slow.test', { size: 50, ms: aMinute }), { recipients: 598, rest: false });
  t.equal(batches, 12);
  t.equal(await due(), 598);
  t.equal(await count('next_attempt_at = $1', pausedUntil), 602, 'those of the other pause, and held mail');
  t.equal(await left(), 0);
});

t.test('a flush leaves scheduled and paused mail alone', async (t) => {
  const { db, change, count, due, left } = await prepare(t);
  await change('attempts = 1', `address LIKE 'r1%'`);
  await change(`waiting_for = 'a limit'`, `address LIKE 'r2%'`);
  await change('next_attempt_at = $1', `address LIKE 'r29%'`, pausedUntil);
  t.same(await orders.flush(db, 'slow.test', ['slow.test'], { size: 7, ms: aMinute }), {
    recipients: 422,
    rest: false,
  });
  t.equal(await due(), 422);
  t.equal(await count(`destination = 'other.test' AND next_attempt_at <= now()`), 0);
  t.equal(await left(), 0);
  t.same(await orders.flush(db, 'slow.test', ['slow.test'], { ms: aMinute }), { recipients: 0, rest: false });
});

t.test('within each account, what was due first becomes due first', async (t) => {
  const { db, change } = await prepare(t);
  await change(
    `attempts = 1, last_response = substring(address from '\\d+'),
     next_attempt_at = now() + make_interval(secs => substring(address from '\\d+')::int)`,
    'true',
  );
  await orders.flush(db, 'slow.test', ['slow.test'], { size: 10, ms: aMinute });
  const rows = await db.query<{ numbers: number[] }>({
    text: `SELECT array_agg((last_response::int - 1) / 10 ORDER BY next_attempt_at, last_response::int) AS numbers
             FROM recipients WHERE destination = 'slow.test' GROUP BY account_id`,
  });
  t.equal(rows.length, 2);
  for (const { numbers } of rows)
    t.strictSame(
      numbers,
      numbers.toSorted((a, b) => a - b),
    );
});

t.test('nodes finish what a call has no time for', async (t) => {
  const { db, queue, pause, count, due, left } = await prepare(t);
  await pause('slow.test');
  t.same(await orders.resume(db, 'slow.test', { ms: 0 }), { recipients: 0, rest: true });
  t.equal(await due(), 0);
  t.equal(await left(), 1);
  const rounds = new Rounds(silentLog);
  t.teardown(() => rounds.stop());
  addUpkeep(rounds, db, queue, silentLog, () => []);
  await eventually(async () => (await left()) === 0);
  t.equal(await count(`destination = 'slow.test' AND next_attempt_at <= now()`), 600);
});

t.test(
  'another node finishes an interrupted order, once it is certain that nobody else is working on it',
  async (t) => {
    const { db, pause, due, left, nobodyIsAtIt } = await prepare(t);
    await pause('slow.test');
    const broken = afterEach(db, async (batch) => {
      if (batch === 3) throw new Error('killed');
    });
    // The order stands, whatever happens to the call.
    const { recipients, rest } = await orders.resume(broken, 'slow.test', { size: 50, ms: aMinute });
    t.ok(recipients >= 100 && rest, `${recipients} recipients`);
    t.equal(await due(), 150);
    await wakeRest(db, silentLog, never, { size: 50 });
    t.equal(await due(), 150, 'it may still be running');
    await nobodyIsAtIt();
    const stop = new AbortController();
    const stopping = afterEach(db, async () => stop.abort());
    await wakeRest(stopping, silentLog, stop.signal, { size: 50 });
    t.equal(await due(), 250, 'a node that stops starts no further batch, and the others need not wait');
    // Several nodes at once.
    await Promise.all([1, 2, 3].map(() => wakeRest(db, silentLog, never, { size: 50 })));
    t.equal(await due(), 600);
    t.equal(await left(), 0);
  },
);

t.test('a small order does not wait for a large one to finish', async (t) => {
  const { db, pause, change, count, due, left, nobodyIsAtIt } = await prepare(t);
  await pause('slow.test');
  await pause('other.test');
  const few = `SELECT email_id FROM recipients WHERE destination = 'other.test' ORDER BY 1 LIMIT 10`;
  await change('waiting_for = NULL', `destination = 'other.test' AND email_id NOT IN (${few})`);
  await orders.resume(db, 'slow.test', { ms: 0 });
  await orders.resume(db, 'other.test', { ms: 0 });
  await nobodyIsAtIt();
  // The large one is picked first.
  await db.query({
    text: `UPDATE destination_wakings SET next_at = next_at - interval '1 s' WHERE name = 'slow.test'`,
  });
  const begun: string[] = [];
  const noting = {
    ...db,
    query: async <Row extends object>(statement: Parameters<Database['query']>[0]) => {
      const rows = await db.query<Row>(statement);
      if (statement.text.includes('RETURNING id, name'))
        begun.push(...rows.map((row) => (row as { name: string }).name));
      return rows;
    },
  };
  await wakeRest(noting as Database, silentLog, never, { size: 2, turnMs: 20 });
  t.strictSame(begun.slice(0, 3), ['slow.test', 'other.test', 'slow.test'], begun.join(' '));
  t.equal(await count('next_attempt_at = $1 AND waiting_for IS NOT NULL', pausedUntil), 0);
  t.equal(await due(), 610);
  t.equal(await left(), 0);
});

/** Whether this statement renews the claim on a waking. */
const isRenewal = (text: string) => text.includes('AS others');

t.test('an order has its first batch in each turn, even if it took long to find that and others wait', async (t) => {
  const prepared = await prepare(t);
  const { db, due, left } = prepared;
  await resumeBoth(prepared);
  let [renewals, turns] = [0, 0];
  const stop = new AbortController();
  const slow: Database = {
    ...db,
    async query<Row>(statement: Parameters<Database['query']>[0]) {
      const rows = await db.query<Row>(statement);
      if (isRenewal(statement.text)) renewals += 1;
      return rows;
    },
    session: async (work, statementMs) => {
      turns += 1;
      if (turns > 20) stop.abort();
      const before = renewals;
      // The second one begins when what the first one said is known.
      await eventually(async () => renewals >= before + 2);
      return db.session(work, statementMs);
    },
  };
  await wakeRest(slow, silentLog, stop.signal, { size: 300, turnMs: 5 });
  t.same([await due(), await left()], [1_200, 0], `${turns} turns`);
});

t.test('what a node leaves of an order can be taken up at once, even if it was just renewing its claim', async (t) => {
  const { db, pause, count, nobodyIsAtIt } = await prepare(t);
  await pause('slow.test');
  await orders.resume(db, 'slow.test', { ms: 0 });
  await nobodyIsAtIt();
  const stop = new AbortController();
  const renewals: Promise<unknown>[] = [];
  const slow: Database = {
    ...db,
    query<Row>(statement: Parameters<Database['query']>[0]) {
      if (!isRenewal(statement.text)) return db.query<Row>(statement);
      stop.abort();
      const renewal = sleep(500).then(() => db.query<Row>(statement));
      renewals.push(renewal);
      return renewal;
    },
    transaction: async (work) => {
      await eventually(async () => stop.signal.aborted);
      return db.transaction(work);
    },
  };
  await wakeRest(slow, silentLog, stop.signal, { size: 50, turnMs: 5 });
  t.equal(await count('next_attempt_at <= now()'), 50);
  await Promise.all(renewals);
  const [free] = await db.query({ text: 'SELECT next_at <= now() AS "isFree" FROM destination_wakings' });
  t.same(free, { isFree: true }, 'else it would wait for 15 seconds');
});

t.test('an order takes the place of an earlier one only if it covers all of it', async (t) => {
  const { db, pause, change, due, left, nobodyIsAtIt } = await prepare(t);
  await pause('slow.test');
  await orders.resume(db, 'slow.test', { ms: 0 });
  await orders.flush(db, 'slow.test', ['slow.test'], { ms: aMinute });
  await nobodyIsAtIt();
  await wakeRest(db, silentLog, never);
  t.same([await due(), await left()], [600, 0], 'what waited for the end of the pause');

  await change(`waiting_for = 'a limit'`, `destination = 'other.test'`);
  await orders.flush(db, 'Both', ['slow.test', 'other.test'], { ms: 0 });
  await orders.flush(db, 'Both', ['slow.test'], { ms: 0 });
  await orders.flush(db, 'Both', ['slow.test'], { ms: 0 });
  t.equal(await left(), 2);
  await nobodyIsAtIt();
  await wakeRest(db, silentLog, never);
  t.same([await due(), await left()], [1_200, 0]);
});

t.test('an order that fails does not hold up the others, and stays', async (t) => {
  const prepared = await prepare(t);
  const { db, due, left } = prepared;
  await resumeBoth(prepared);
  const warned: string[] = [];
  const log = { warn: ({ error }: { error: string }) => warned.push(error) };
  const once = afterEach(db, async (batch) => {
    if (batch === 1) throw new Error('deadlock');
  });
  await wakeRest(once, log as never, never);
  t.strictSame(warned, ['deadlock']);
  t.equal(await left(), 1);
  t.equal(await due(), 1200);
});

t.test('a pause cancels the rest of a resume, whichever node or release gives it', async (t) => {
  const { db, pause, count, due, left, nobodyIsAtIt } = await prepare(t);
  const paused = () => count('next_attempt_at = $1', pausedUntil);
  await pause('slow.test');
  const again = afterEach(db, async (batch) => {
    if (batch === 2) await orders.pause(db, 'slow.test');
  });
  t.same(await orders.resume(again, 'slow.test', { size: 50, ms: aMinute }), { recipients: 100, rest: false });
  t.equal(await left(), 0);
  await wakeRest(db, silentLog, never);
  t.equal(await paused(), 500);

  const before = afterEach(db, async (batch) => {
    if (batch === 2)
      await db.query({ text: `UPDATE destination_orders SET paused_at = now() WHERE name = 'slow.test'` });
  });
  t.same(await orders.resume(before, 'slow.test', { size: 50, ms: aMinute }), { recipients: 100, rest: false });
  t.equal(await left(), 0);
  t.equal(await paused(), 400);

  await orders.resume(db, 'slow.test', { ms: 0 });
  await orders.pause(db, 'slow.test');
  await nobodyIsAtIt();
  await wakeRest(db, silentLog, never);
  t.equal(await paused(), 400);
  t.same(await orders.resume(db, 'slow.test', { ms: aMinute }), { recipients: 400, rest: false });
  t.equal(await due(), 600);
});

t.test('a pause cancels the rest of a flush', async (t) => {
  const { db, change, count, left, nobodyIsAtIt } = await prepare(t);
  await change(`waiting_for = 'a limit'`, 'true');
  for (const name of ['slow.test', 'other.test']) await orders.flush(db, name, [name], { ms: 0 });
  await orders.pause(db, 'slow.test');
  await nobodyIsAtIt();
  await wakeRest(db, silentLog, never);
  t.equal(await count(`destination = 'slow.test' AND next_attempt_at <= now()`), 0);
  t.equal(await count(`destination = 'other.test' AND next_attempt_at <= now()`), 600);
  t.equal(await left(), 0);
});

t.test('a pause waits for the running batch, and nothing is released after it', async (t) => {
  const { db, pause, due } = await prepare(t);
  await pause('slow.test');
  const isWaiting = async () => {
    const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    return (await db.query({ text: waiting })).length > 0;
  };
  let given: Promise<unknown> = Promise.resolve();
  let batch = 0;
  const slow: Database = {
    ...db,
    transaction: (work) =>
      db.transaction(async (tx) => {
        const result = await work(tx);
        if (batch++ === 2) {
          given = orders.pause(db, 'slow.test').then(due);
          await eventually(isWaiting);
        }
        return result;
      }),
  };
  t.same(await orders.resume(slow, 'slow.test', { size: 50, ms: aMinute }), { recipients: 100, rest: false });
  t.equal(await given, 100);
});

t.test('a node that parks mail while the destination is being resumed leaves nothing parked', async (t) => {
  const { db, pause, change, count } = await prepare(t);
  await pause('slow.test');
  await change('job_id = gen_random_uuid()', `address = 'r7@slow.test'`);
  // As recipients.parkForPause does it.
  const saw = Promise.withResolvers<void>();
  const putting = db.transaction(async (tx) => {
    await tx.query({ text: `SELECT FROM destination_orders WHERE name = 'slow.test' FOR SHARE` });
    saw.resolve();
    await sleep(500);
    await tx.query({ text: `UPDATE recipients SET job_id = NULL WHERE address = 'r7@slow.test'` });
  });
  await saw.promise;
  t.same(await orders.resume(db, 'slow.test', { ms: aMinute }), { recipients: 600, rest: false });
  await putting;
  t.equal(await count('next_attempt_at = $1', pausedUntil), 0);
  // Its node hears of the end of the pause only after that.
  const [nodeId, jobId] = [newId(), newId()];
  await change('claimed_by = $1, job_id = $2', `address = 'r8@slow.test'`, nodeId, jobId);
  const late = await db.query<{ emailId: string }>({
    text: 'SELECT email_id AS "emailId" FROM recipients WHERE job_id = $1',
    values: [jobId],
  });
  const claims = late.map((email) => buildClaim({ ...email, nodeId, jobId, destination: 'slow.test' }));
  await parkForPause(db, claims, 'slow.test');
  t.equal(await count('next_attempt_at = $1 OR claimed_by IS NOT NULL', pausedUntil), 0);
});

t.test('mail that nodes parked before they heard of a flush is released, but none that was tried since', async (t) => {
  const { db, change, due, count } = await prepare(t);
  await change(`waiting_for = 'a limit'`, `address LIKE 'r1%'`);
  await change('attempts = 1', `address LIKE 'r2%'`);
  await orders.wakeParked(db, 'slow.test', ['slow.test']);
  await wakeRest(db, silentLog, never, { size: 20 });
  t.equal(await due(), 222);
  t.equal(await count('attempts = 1 AND next_attempt_at <= now()'), 0);
});

t.test(
  'mail that waited for room becomes due when its domain gets another pool, even if the process is killed',
  async (t) => {
    const { db, change, count, left, nobodyIsAtIt } = await prepare(t);
    const [one] = await db.query<{ id: string; accountId: string }>({
      text: 'SELECT id, account_id AS "accountId" FROM domains ORDER BY id LIMIT 1',
    });
    if (!one) throw new Error('no domain');
    const waits = 'warm-up of pool default: 127.0.0.6 has had 3 of the 3 messages of day 1; more on 2026-11-21 (UTC)';
    await change('waiting_for = $1', 'position = 0', waits);
    await change('waiting_for = NULL', `address LIKE 'r1_@slow.test'`);
    const ofAccount = 'next_attempt_at <= now() AND waiting_for IS NULL AND account_id = $1';
    const dying = { ...db, session: () => Promise.reject(new Error('it ends here')) };
    t.match(await domains.change(dying as Database, one.accountId, one.id, { pool: 'bulk', tls: 'required' }), {
      pool: 'bulk',
      tls: 'required',
    });
    t.same(
      [await count('next_attempt_at <= now()'), await left()],
      [0, 1],
      'the change stays, and what has to follow is recorded',
    );
    await nobodyIsAtIt();
    await wakeRest(db, silentLog, never, { size: 100 });
    t.same(
      [await count(ofAccount, one.accountId), await count('next_attempt_at <= now()'), await left()],
      [590, 590, 0],
    );
    t.match(await domains.change(db, one.accountId, one.id, { pool: null }), { pool: null, tls: 'required' });
    t.match(await domains.change(db, one.accountId, one.id, { tls: 'verified' }), { pool: null, tls: 'verified' });
    t.equal(await left(), 0);
    await t.rejects(domains.change(db, one.accountId, one.accountId, { pool: 'bulk' }), { message: 'not found' });
    t.equal(await left(), 0);
  },
);

t.test('only two calls at a time make mail due, which leaves connections for others', async (t) => {
  const { db, pause, due, left, nobodyIsAtIt } = await prepare(t);
  await pause('slow.test');
  let [now, most] = [0, 0];
  const counted: Database = {
    ...db,
    session(work, statementMs) {
      now += 1;
      most = Math.max(most, now);
      return db.session(work, statementMs).finally(() => {
        now -= 1;
      });
    },
  };
  const woken = await Promise.all(Array.from({ length: 30 }, () => orders.resume(counted, 'slow.test', { size: 50 })));
  t.ok(most > 0 && most <= 2, `${most} at once`);
  await nobodyIsAtIt();
  await wakeRest(db, silentLog, never, { size: 100 });
  t.same([await due(), await left()], [600, 0]);
  t.ok(woken.some(({ rest }) => rest));
  await pause('slow.test');
  const next = await orders.resume(counted, 'slow.test', { ms: aMinute });
  t.same(next, { recipients: 600, rest: false }, 'those that are over leave room');
});

t.test('the end of one such call makes room for one more', async (t) => {
  const { db, pause } = await prepare(t);
  for (const name of ['slow.test', 'other.test']) await pause(name);
  const gates = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  let begun = 0;
  const gated: Database = {
    ...db,
    async session(work, statementMs) {
      await gates[begun++]?.promise;
      return db.session(work, statementMs);
    },
  };
  const first = orders.resume(gated, 'slow.test');
  const second = orders.resume(gated, 'other.test');
  await eventually(async () => begun === 2);
  gates[0]?.resolve();
  await first;
  const third = orders.resume(gated, 'slow.test');
  await eventually(async () => begun === 3);
  t.same(await orders.resume(gated, 'third.test'), { recipients: 0, rest: true });
  for (const { resolve } of gates) resolve();
  await Promise.all([second, third]);
  t.equal(begun, 3);
});

t.test('orders for a name, and the batches of each, wait for their turn', async (t) => {
  const { db, pause, nobodyIsAtIt } = await prepare(t);
  await pause('slow.test');
  await orders.resume(db, 'slow.test', { ms: 0 });
  await nobodyIsAtIt();
  const order = {
    'a batch': () => wakeRest(db, silentLog, never),
    'a resume': () => orders.resume(db, 'slow.test'),
    'a flush': () => orders.flush(db, 'slow.test', ['slow.test']),
    'a release of what is parked': () => orders.wakeParked(db, 'slow.test', ['slow.test']),
    'a pause': () => orders.pause(db, 'slow.test'),
  };
  for (const [what, give] of Object.entries(order)) {
    let isOver = false;
    let given: Promise<unknown> | undefined;
    await db.transaction(async (tx) => {
      await lockName(tx, 'slow.test');
      given = give().then(() => (isOver = true));
      await Promise.race([given, untilOneWaits(db, '%pg_advisory_xact_lock%')]);
      t.notOk(isOver, what);
      await orders.pause(db, 'other.test');
    });
    await given;
  }
});

t.test('what another node is just taking up keeps no node from the next', async (t) => {
  const prepared = await prepare(t);
  const { db, count } = prepared;
  await resumeBoth(prepared);
  await db.transaction(async (tx) => {
    await tx.query({ text: `SELECT FROM destination_wakings WHERE name = 'slow.test' FOR UPDATE` });
    await Promise.race([wakeRest(db, silentLog, never), sleep(aMinute, null, { ref: false })]);
    t.equal(await count(`destination = 'other.test' AND next_attempt_at <= now()`), 600);
  });
});

t.test('a pause is known with the time at which it was first given', async (t) => {
  const { db } = await openQueue(t);
  const paused = async () => {
    await orders.pause(db, 'slow.test');
    const [order] = await orders.list(db);
    return order?.pausedAt?.getTime() ?? Number.NaN;
  };
  const first = await paused();
  t.ok(Math.abs(Date.now() - first) < aMinute);
  t.equal(await paused(), first);
  await orders.resume(db, 'slow.test');
  await sleep(2);
  const again = await paused();
  t.ok(again > first && again - first < aMinute, 'and after a resume, with that of the next');
});

t.test('nothing becomes due for a domain that keeps its pool', async (t) => {
  const { db, left } = await prepare(t);
  const [one] = await db.query<{ id: string; accountId: string }>({
    text: 'SELECT id, account_id AS "accountId" FROM domains LIMIT 1',
  });
  if (!one) throw new Error('no domain');
  const unwoken: Database = { ...db, session: () => Promise.reject(new Error('it looks for what waits')) };
  for (const pool of [null, 'bulk', 'bulk', undefined] as const) {
    const before = await left();
    t.match(
      await domains.change(unwoken, one.accountId, one.id, {
        ...(pool === undefined ? {} : { pool }),
        tls: 'required',
      }),
      { tls: 'required' },
    );
    t.equal((await left()) > before, pool === 'bulk' && before === 0, String(pool));
  }
  t.match(await domains.get(db, one.accountId, one.id), { pool: 'bulk' });
});
