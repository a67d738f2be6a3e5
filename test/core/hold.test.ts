import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import * as orders from '../../src/core/destinations/destination-orders.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { buildNode, buildSender } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { scheduleMany } from '../support/scheduled.ts';

t.test('what was due when a hold began fails, in whatever state, and the rest waits', async (t) => {
  const { db, queue } = await openQueue(t);
  const [one, other] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
  const living = newId();
  await buildNode(db, living);
  for (const sender of [one, other])
    await scheduleMany(db, sender, { emails: 1_000, to: 'a.test', at: new Date(Date.now() - 1_000) });
  const change = (set: string, numbers: string, ...values: unknown[]) =>
    db.query({ text: `UPDATE recipients SET ${set} WHERE address ~ '^r${numbers}@'`, values });
  const scheduled = `next_attempt_at = now() + interval '1 day'`;
  await change('job_id = gen_random_uuid()', '1\\d\\d');
  await change('job_id = gen_random_uuid(), claimed_by = $1', '2\\d\\d', newId());
  await change(`${scheduled}, waiting_for = 'a limit'`, '3\\d\\d');
  await change(`${scheduled}, attempts = 1`, '4\\d\\d');
  await change(`next_attempt_at = $1, waiting_for = $2`, '5\\d\\d', pausedUntil, heldNote);
  await change('job_id = gen_random_uuid(), claimed_by = $1', '6\\d\\d', living);
  t.equal(await hold.countWaiting(db), 0, 'nothing is on hold');
  await sleep(5);
  await hold.begin(db);
  t.equal(await hold.countWaiting(db), 1_600);
  await nodes.beat(db, living);
  const told: number[] = [];
  t.same(await hold.end(db, queue, 'fail', (failed) => told.push(failed)), { failed: 1_400 });
  t.ok(told.length >= 4, 'in batches');
  const left = await db.query({
    text: `SELECT substring(address FROM 2 FOR 1) AS kind, count(*)::int AS n FROM recipients WHERE next_attempt_at IS NOT NULL GROUP BY 1 ORDER BY 1`,
  });
  t.strictSame(left, [
    { kind: '4', n: 200 },
    { kind: '5', n: 200 },
    { kind: '6', n: 200 },
  ]);
  t.equal(await hold.find(db), null);
});

t.test('mail that is made due during a hold is decided about with what was due before it', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 10, to: 'a.test', at: new Date(Date.now() + 3_600_000) });
  await db.query({ text: 'UPDATE recipients SET attempts = 1' });
  await hold.begin(db);
  await sleep(5);
  t.same(await orders.flush(db, 'a.test', ['a.test'], { ms: 60_000 }), { recipients: 10, rest: false });
  t.same(await hold.end(db, queue, 'fail'), { failed: 10 });
});

t.test('QUE-23: what a node had in hand at a backup is in doubt, though the copy still lists that node', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const [gone, living] = [newId(), newId()];
  for (const id of [gone, living]) await buildNode(db, id, ['mta']);
  await scheduleMany(db, sender, { emails: 40, to: 'a.test', at: new Date(Date.now() - 60_000) });
  const claim = `UPDATE recipients SET job_id = gen_random_uuid(), claimed_by = $1 WHERE address ~ $2`;
  await db.query({ text: claim, values: [gone, '^r1\\d@'] });
  await db.query({ text: claim, values: [living, '^r2\\d@'] });
  await hold.begin(db);
  // Not yet among the dead, which nobody has heard of for 30 s.
  await db.query({ text: `UPDATE service_hold SET since = since - interval '14 s'` });
  await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '20 s' WHERE id = $1`, values: [gone] });
  const since = await hold.find(db);
  t.ok(since);
  t.same(await hold.end(db, queue, 'fail'), { failed: 30 });
  const left = await db.query({
    text: 'SELECT DISTINCT claimed_by AS node FROM recipients WHERE next_attempt_at IS NOT NULL',
  });
  t.strictSame(left, [{ node: living }], 'a node that has been seen since finishes what it has in hand');
  const [row] = await db.query<{ ms: number }>({
    text: 'SELECT extract(epoch FROM clock_timestamp() - $1::timestamptz) * 1000 AS ms',
    values: [since],
  });
  t.ok(row && row.ms >= 15_000, 'it might have been about to say that it is alive');
});

t.test('a hold ends, and living nodes keep what they have, if the clock was ahead when it began', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const living = newId();
  await buildNode(db, living, ['mta']);
  await scheduleMany(db, sender, { emails: 20, to: 'a.test', at: new Date(Date.now() - 60_000) });
  const claim = `UPDATE recipients SET job_id = gen_random_uuid(), claimed_by = $1 WHERE address ~ '^r1\\d@'`;
  await db.query({ text: claim, values: [living] });
  await hold.begin(db);
  await db.query({ text: `UPDATE service_hold SET since = since + interval '2 days'` });
  const beats: Promise<unknown>[] = [];
  const beating = setInterval(() => beats.push(nodes.beat(db, living)), 200);
  t.teardown(() => clearInterval(beating));
  t.same(await hold.end(db, queue, 'fail'), { failed: 10 });
  clearInterval(beating);
  // The database is closed after that.
  await Promise.all(beats);
});

t.test('failing held mail stops when somebody else ends the hold', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 1_200, to: 'a.test', at: new Date(Date.now() - 1_000) });
  // Parked for something unrelated to the hold: in doubt while the hold lasts.
  await db.query({ text: `UPDATE recipients SET waiting_for = 'a limit'` });
  await hold.begin(db);
  const ended: Promise<unknown>[] = [];
  // The next batch starts only when the hold is over.
  const slow: Database = { ...db, transaction: (work) => Promise.all(ended).then(() => db.transaction(work)) };
  const { failed } = await hold.end(slow, queue, 'fail', () => {
    if (ended.length === 0) ended.push(db.query({ text: 'DELETE FROM service_hold' }));
  });
  t.equal(failed, 500, 'those that had failed before');
  t.equal(await hold.find(db), null);
  await hold.begin(db);
  // Somebody ends the hold and begins another while mail is being failed.
  const begun: Promise<unknown>[] = [];
  const again = async () => {
    await db.query({ text: 'DELETE FROM service_hold' });
    await sleep(5);
    await hold.begin(db);
  };
  const late: Database = { ...db, transaction: (work) => Promise.all(begun).then(() => db.transaction(work)) };
  await hold.end(late, queue, 'fail', () => {
    if (begun.length === 0) begun.push(again());
  });
  t.not(await hold.find(db), null, 'the other hold stays');
});

t.test('starts during a hold are recorded, with what was due at each', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const becomesDue = async () => {
    await sleep(5);
    await scheduleMany(db, sender, { emails: 1, to: 'a.test', at: new Date() });
    await sleep(5);
  };
  await hold.noteStart(db, false);
  t.equal(await hold.beginnings(db), null, 'a start does not begin a hold by itself');
  await becomesDue();
  await hold.noteStart(db, true);
  const since = await hold.find(db);
  const one = { at: since, waiting: 1 };
  t.strictSame(await hold.beginnings(db), { first: one, last: one, starts: [] });
  await becomesDue();
  await hold.noteStart(db, true);
  t.strictSame(await hold.find(db), since, 'the hold continues');
  await becomesDue();
  for (let start = 0; start < 30; start += 1) await hold.noteStart(db, false);
  await becomesDue();
  const found = await hold.beginnings(db);
  t.strictSame(found?.first, one);
  t.equal(found?.last.waiting, 3);
  t.equal(found?.starts.length, 20, 'the latest ones');
  t.strictSame(found?.starts.at(-1), found?.last.at);
  t.same(await hold.end(db, queue, 'fail', undefined, found?.last.at), { failed: 3 });
  await hold.begin(db);
  t.match(await hold.beginnings(db), { first: { waiting: 1 }, starts: [] }, 'the next hold knows nothing of them');
});
