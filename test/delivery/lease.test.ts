import { mock } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import * as nodes from '../../src/core/nodes/nodes.ts';
import * as hold from '../../src/core/operations/hold.ts';
import type { Database } from '../../src/db/client.ts';
import { Lease, Sight } from '../../src/delivery/claims/lease.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { buildNode, unheard } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';

/** A lease whose beats the test lets pass, on a database that answers like this. */
function leaseOn(t: Test, query: (statement: { text: string; values?: unknown[] }) => Promise<object[]>): Lease {
  const db = { query, transaction: (work: (tx: object) => unknown) => work({ query }) } as unknown as Database;
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  return new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
}

t.test('a node that was cut off itself declares nobody dead until they had time to come back', async (t) => {
  const sight = new Sight();
  const beat = (at: number) => {
    const clear = sight.isClear(at);
    sight.reached(at);
    return clear;
  };
  t.ok(beat(5_000), 'a node that has just started buries those that died before');
  t.ok(beat(10_000));
  t.ok(beat(20_000), 'a missed beat is no absence');
  // The beats between fail: nothing can be reached.
  for (let at = 25_000; at < 60_000; at += 5_000) sight.isClear(at);
  for (let at = 60_000; at < 90_000; at += 5_000) t.notOk(beat(at), `${at - 60_000} ms after it is back`);
  t.ok(beat(90_000));
});

t.test(
  "a node that notices a jump of the database's clock declares nobody dead until they had time to report",
  async (t) => {
    const sight = new Sight();
    sight.reached(5_000);
    sight.jumped(10_000);
    for (let at = 10_000; at < 40_000; at += 5_000) {
      t.notOk(sight.isClear(at), `${at - 10_000} ms after it`);
      sight.reached(at);
    }
    t.ok(sight.isClear(40_000));

    const db = await openDatabase(t);
    let aheadMs = 0;
    let burying = 0;
    const query: Database['query'] = async (statement) => {
      const rows = await db.query<{ time?: Date }>(statement);
      return rows.map(({ time, ...row }) =>
        time ? { ...row, time: new Date(time.getTime() + aheadMs) } : row,
      ) as never;
    };
    const transaction: Database['transaction'] = async (work) => {
      burying += 1;
      return db.transaction(work).finally(() => (burying -= 1));
    };
    const lease = new Lease({ ...db, query, transaction }, silentLog, { roles: ['mta'], heldListener: unheard });
    await lease.start(false);
    t.teardown(() => lease.stop());
    const living = newId();
    await buildNode(db, living, ['mta']);
    // By then it is decided whom the beat before the jump buries.
    await eventually(async () => lease.senders === 2 && burying === 0);
    // To all statements it looks as if nobody had been seen for a minute.
    aheadMs = 60_000;
    const before = lease.clock.now();
    await db.query({ text: `UPDATE nodes SET seen_at = seen_at - interval '60 s'` });
    await eventually(async () => lease.clock.now().getTime() - before.getTime() > 55_000);
    // Whoever the same beat buries is gone soon after it.
    await sleep(1_000);
    t.ok(await nodes.beat(db, living), 'the other one was not buried');
  },
);

t.test(
  'after an outage of the database a node buries nobody for half a minute, and then those that are silent',
  async (t) => {
    // This machine has been up for long.
    let [now, away, burials, aheadMs] = [1e9, false, 0, 0];
    const began = { wall: Date.now(), monotonic: now };
    const query = async ({ text }: { text: string }): Promise<object[]> => {
      if (away) throw new Error('the database is away');
      if (text.startsWith('DELETE FROM nodes WHERE seen_at')) burials += 1;
      const time = new Date(began.wall + now - began.monotonic + aheadMs);
      if (text.includes('clock_timestamp()')) return [{ senders: 2, onHold: false, time }];
      return text.startsWith('UPDATE nodes') ? [{ id: newId() }] : [];
    };
    const lease = leaseOn(t, query);
    const monotonic = mock.method(performance, 'now', () => now);
    t.teardown(() => monotonic.mock.restore());
    await lease.start(false);
    /** How many beats in the next seconds buried those who look dead. */
    const during = async (seconds: number) => {
      burials = 0;
      for (let passed = 0; passed < seconds; passed += 5) {
        now += 5_000;
        mock.timers.tick(5_000);
        for (let round = 0; round < 5; round += 1) await turn();
      }
      return burials;
    };
    t.equal(await during(10), 2);
    away = true;
    t.equal(await during(40), 0);
    away = false;
    t.equal(await during(30), 0, 'all nodes were unseen for as long, and may be alive');
    t.equal(await during(10), 2);
    aheadMs = 2_000;
    t.equal(await during(5), 1, 'two clocks may differ by the time that an answer takes');
    aheadMs = 4_001;
    t.equal(await during(30), 0, 'as after a jump of the clock of the database');
    t.equal(await during(10), 2);
  },
);

t.test('a node that starts knows before its first beat whether the service is on hold', async (t) => {
  const db = await openDatabase(t);
  const lease = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
  await lease.start(false);
  t.notOk(lease.onHold);
  await lease.stop();
  await hold.begin(db);
  const other = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
  await other.start(false);
  t.ok(other.onHold, 'it would send what a restored database has already sent');
  await other.stop();
});

t.test('a silent node keeps its claims until it is buried', async (t) => {
  const db = await openDatabase(t);
  const [living, silent] = [newId(), newId()];
  for (const id of [living, silent]) await buildNode(db, id, ['mta']);
  await buildNode(db, newId(), ['api', 'inbound']);
  const silence = (id: string) =>
    db.query({ text: `UPDATE nodes SET seen_at = now() - interval '1 hour' WHERE id = $1`, values: [id] });
  await silence(silent);
  t.match(await nodes.beat(db, living), { senders: 2 }, 'of those that deliver mail');
  await nodes.removeDead(db, unheard);
  t.match(await nodes.beat(db, living), { senders: 1 });
  t.equal(await nodes.beat(db, silent), null);
  t.ok(await nodes.anyDelivers(db));
  await silence(living);
  t.notOk(await nodes.anyDelivers(db));
});

t.test(
  'a node that starts knows before its first beat how many others deliver, and the workers beside it',
  async (t) => {
    const db = await openDatabase(t);
    await buildNode(db, newId(), ['mta']);
    await buildNode(db, newId(), ['webhooks']);
    const lease = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
    await lease.start(false);
    t.equal(lease.senders, 2, 'it takes no more than its share of what a site takes');
    await lease.stop();
    const worker = new Lease(db, silentLog, { roles: ['mta'], processes: 4, heldListener: unheard });
    await worker.start(false);
    t.equal(worker.senders, 4, 'the others are about to start');
    await worker.stop();
  },
);

t.test("a living node stays alive while a dead node's claims cannot be released", async (t) => {
  const db = await openDatabase(t);
  const lease = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
  await lease.start(false);
  t.teardown(() => lease.stop());
  const [dead, other] = [newId(), newId()];
  await db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE recipients IN SHARE ROW EXCLUSIVE MODE' });
    t.equal(lease.senders, 1);
    for (const id of [dead, other]) await buildNode(db, id, ['mta']);
    await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '1 hour' WHERE id = $1`, values: [dead] });
    await eventually(async () => {
      // A transaction that is idle for long is ended.
      await tx.query({ text: 'SELECT 1' });
      return lease.senders === 3;
    });
    t.ok(lease.valid());
  });
  await eventually(async () => lease.senders === 2);
});

t.test('a lease that is not renewed ends before others may take the claims, by either clock', async (t) => {
  const db = await openDatabase(t);
  const lease = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
  await lease.start(false);
  t.teardown(() => lease.stop());
  const isValidAfter = (clock: { now: () => number }, ms: number) => {
    const now = clock.now();
    const mocked = mock.method(clock, 'now', () => now + ms);
    const isValid = lease.valid();
    mocked.mock.restore();
    return isValid;
  };
  for (const clock of [Date, performance]) {
    t.ok(isValidAfter(clock, 14_000), 'two beats that are late do no harm');
    t.notOk(isValidAfter(clock, nodes.deadAfterMs - 5_000), 'a dot that is being written gets there first');
  }
  t.notOk(isValidAfter(Date, 5_000 - nodes.deadAfterMs), 'a clock that was set back says nothing');
});

t.test('a buried node goes on under one new name, however many of its beats waited for the database', async (t) => {
  const db = await openDatabase(t);
  const names: string[] = [];
  const lease = new Lease(db, silentLog, {
    roles: ['mta'],
    heldListener: unheard,
    tellName: (name) => names.push(name),
  });
  await lease.start(false);
  t.teardown(() => lease.stop());
  const [other, later] = [newId(), newId()];
  const add = (id: string) => buildNode(db, id, ['mta']);
  await add(other);
  await db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE' });
    await tx.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [lease.nodeId] });
    // For two and a half beats.
    for (let round = 0; round < 25; round += 1) {
      await sleep(500);
      await tx.query({ text: 'UPDATE nodes SET seen_at = clock_timestamp()' });
    }
  });
  await eventually(async () => names.length > 1 && lease.valid());
  await add(later);
  await sleep(6_000);
  t.equal(names.length, 2);
  t.equal(lease.nodeId, names[1]);
  const rows = await db.query<{ id: string }>({ text: 'SELECT id FROM nodes' });
  t.strictSame(new Set(rows.map(({ id }) => id)), new Set([names[1], other, later]), 'and buries nobody for that');
  await eventually(async () => lease.senders === 3);
  await eventually(async () => lease.valid());
});

t.test('a node that is registering under a new name takes no second one while that waits', async (t) => {
  const db = await openDatabase(t);
  const names: string[] = [];
  // Like the statement that releases a dead node's claims, but waiting for as long as the test says.
  let freed: Promise<void> = Promise.resolve();
  const slow: Database = { ...db, transaction: (work) => freed.then(() => db.transaction(work)) };
  const lease = new Lease(slow, silentLog, {
    roles: ['mta'],
    heldListener: unheard,
    tellName: (name) => names.push(name),
  });
  await lease.start(false);
  t.teardown(() => lease.stop());
  const waiting = Promise.withResolvers<void>();
  t.teardown(() => waiting.resolve());
  freed = waiting.promise;
  await db.query({ text: 'DELETE FROM nodes WHERE id = $1', values: [lease.nodeId] });
  await eventually(async () => names.length === 2);
  t.notOk(lease.valid());
  // Longer than from one beat to the next.
  await sleep(6_000);
  t.equal(names.length, 2, 'while it waits');
  waiting.resolve();
  await eventually(async () => lease.valid());
  t.strictSame([lease.nodeId, names.length], [names[1], 2]);
});

t.test('a node that stops waits for each of its beats: the answer to an earlier one may come last', async (t) => {
  const listed = new Set<unknown>();
  const beats: PromiseWithResolvers<object[]>[] = [];
  const query = async ({ text, values: [id] = [] }: { text: string; values?: unknown[] }): Promise<object[]> => {
    if (text.startsWith('INSERT INTO nodes')) listed.add(id);
    if (text === 'DELETE FROM nodes WHERE id = $1') listed.delete(id);
    if (text.includes('clock_timestamp()')) return [{ senders: 1, onHold: false, time: new Date() }];
    if (!text.startsWith('UPDATE nodes')) return [];
    const beat = Promise.withResolvers<object[]>();
    beats.push(beat);
    return beat.promise;
  };
  const lease = leaseOn(t, query);
  await lease.start(false);
  mock.timers.tick(10_000);
  const [first, second] = beats;
  t.strictSame([beats.length, listed.size], [2, 1]);
  const stopped = lease.stop();
  second?.resolve([{ id: lease.nodeId }]);
  await turn();
  // The node is not on the list any more, as after a long silence: it gets a new name.
  listed.clear();
  first?.resolve([]);
  await stopped;
  await turn();
  t.strictSame([...listed], [], 'and leaves none of its names behind');
});

t.test('an answer to an earlier beat that comes late does not undo what a later one said', async (t) => {
  const answers: PromiseWithResolvers<object[]>[] = [];
  const query = async ({ text }: { text: string }): Promise<object[]> => {
    if (text.startsWith('UPDATE nodes')) return [{ id: newId() }];
    if (!text.includes('clock_timestamp()')) return [];
    const answer = Promise.withResolvers<object[]>();
    answers.push(answer);
    return answer.promise;
  };
  const lease = leaseOn(t, query);
  await lease.start(false);
  mock.timers.tick(5_000);
  // Another moment, by the clock that does not jump.
  await sleep(5);
  mock.timers.tick(5_000);
  while (answers.length < 2) await turn();
  const answer = (senders: number, onHold: boolean) => [{ senders, onHold, time: new Date() }];
  answers[1]?.resolve(answer(3, true));
  while (!lease.onHold) await turn();
  answers[0]?.resolve(answer(2, false));
  for (let round = 0; round < 5; round += 1) await turn();
  t.strictSame([lease.onHold, lease.senders], [true, 3], 'mail would go out that is on hold');
  await lease.stop();
});

t.test('a lease counts from when it was asked for, however late the answer comes', async (t) => {
  let passed = 0;
  const [wall, monotonic] = [Date.now(), 1e9];
  const clocks = [
    mock.method(Date, 'now', () => wall + passed),
    mock.method(performance, 'now', () => monotonic + passed),
  ];
  t.teardown(() => {
    for (const clock of clocks) clock.mock.restore();
  });
  let isAlive = true;
  const query = async ({ text }: { text: string }): Promise<object[]> => {
    // As if each of these had waited for a lock.
    if (text.startsWith('INSERT INTO nodes')) passed += 15_000;
    if (!text.startsWith('UPDATE nodes')) {
      return text.includes('clock_timestamp()') ? [{ senders: 1, onHold: false, time: new Date(Date.now()) }] : [];
    }
    passed += 15_000;
    return isAlive ? [{ id: newId() }] : [];
  };
  const lease = leaseOn(t, query);
  const isValidFor = (ms: number) => {
    const before = passed;
    passed += ms - 1;
    const isValid = lease.valid();
    passed += 1;
    const isOver = !lease.valid();
    passed = before;
    return isValid && isOver;
  };
  const nextBeat = async () => {
    mock.timers.tick(5_000);
    for (let round = 0; round < 10; round += 1) await turn();
  };
  await lease.start(false);
  t.ok(isValidFor(5_000), 'others saw it 15 seconds ago');
  await nextBeat();
  t.ok(isValidFor(5_000));
  isAlive = false;
  await nextBeat();
  t.ok(isValidFor(5_000), 'under a new name, too');
  isAlive = true;
  await lease.stop();
  t.notOk(lease.valid(), 'and it is over when the node leaves the list');
});
