import t, { type Test } from 'tap';
import { pause } from '../../src/core/destinations/destination-orders.ts';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import * as recipients from '../../src/core/recipients/recipients.ts';
import { failThose } from '../../src/core/recipients/settlement.ts';
import * as webhookLines from '../../src/core/webhooks/webhook-lines.ts';
import { emit } from '../../src/core/webhooks/webhooks.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import type { Queue } from '../../src/queue.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { event, openScene } from '../webhooks/scene.ts';

/** What waits in lines: two of each are there, with a job. */
const kinds = [
  {
    name: 'mail',
    table: 'recipients',
    async open(t: Test) {
      const { db, queue } = await openQueue(t);
      const { account, from } = await buildSender(db, Buffer.alloc(32));
      await accept(db, queue, holderOf(account), [requestOf(from, ['a@one.test', 'b@two.test'])]);
      return { db, queue };
    },
    sweep: (db: Database) => recipients.sweep(db, null, 100),
    wakeDue,
  },
  {
    name: 'calls of webhooks',
    table: 'webhook_deliveries',
    async open(t: Test) {
      const { db, queue, endpoint } = await openScene(t);
      const { accountId } = await endpoint('http://127.0.0.1:1024/');
      const events = [event(accountId, 'email.sent'), event(accountId, 'email.failed')];
      await db.transaction((tx) => emit(tx, queue, events));
      return { db, queue };
    },
    sweep: (db: Database) => webhookLines.sweep(db, null, 100),
    wakeDue: (db: Database, queue: Queue) => webhookLines.wakeDue(db, queue),
  },
];

for (const { name, table, open, sweep, wakeDue } of kinds) {
  t.test(`the sweeper leaves ${name} alone that a node takes at that moment`, async (t) => {
    const { db } = await open(t);
    const dead = newId();
    await db.query({ text: `UPDATE ${table} SET claimed_by = $1`, values: [dead] });
    const held = () => db.query({ text: `SELECT claimed_by, job_id FROM ${table} ORDER BY 1, 2` });
    for (const change of ['claimed_by = gen_random_uuid()', 'job_id = gen_random_uuid()']) {
      let sweeping: ReturnType<typeof sweep> | undefined;
      await db.transaction(async (tx) => {
        await tx.query({ text: `UPDATE ${table} SET ${change}` });
        sweeping = sweep(db);
        await untilOneWaits(db);
      });
      t.match(await sweeping, { freed: 0 }, change);
      t.notMatch(await held(), [{ job_id: null }]);
    }
    t.match(await sweep(db), { freed: 2 }, 'otherwise it is freed');
    t.match(await held(), [
      { claimed_by: null, job_id: null },
      { claimed_by: null, job_id: null },
    ]);
  });

  t.test(`the lines neither wait for ${name} that an order gives a job at that moment, nor give another`, async (t) => {
    const { db, queue } = await open(t);
    await db.query({ text: `UPDATE ${table} SET job_id = NULL` });
    const jobId = newId();
    await db.transaction(async (tx) => {
      await tx.query({
        text: `UPDATE ${table} SET job_id = $1 WHERE ctid IN (SELECT ctid FROM ${table} LIMIT 1) AND tableoid IN (SELECT tableoid FROM ${table} LIMIT 1)`,
        values: [jobId],
      });
      t.match(await wakeDue(db, queue), { woken: 1 });
    });
    t.match(await wakeDue(db, queue), { woken: 0 });
    const jobs = await db.query<{ job_id: string }>({ text: `SELECT job_id FROM ${table} WHERE job_id IS NOT NULL` });
    t.equal(jobs.length, 2);
    t.ok(jobs.some(({ job_id }) => job_id === jobId));
  });
}

t.test('of recipients that are to be failed, those that were settled meanwhile stay as they are', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, Buffer.alloc(32));
  const to = ['a@one.test', 'b@one.test', 'c@one.test'];
  const [accepted] = await accept(db, queue, holderOf(account), [requestOf(from, to)]);
  const emailId = accepted && 'email' in accepted ? accepted.email.id : '';
  const fail = (...positions: number[]) =>
    db.transaction((tx) =>
      failThose(
        tx,
        queue,
        positions.map((position) => ({ emailId, position })),
        { condition: 'true', values: [], lastResponse: 'no' },
      ),
    );
  t.match(await fail(0), { failed: 1 });
  t.match(await fail(0, 1), { failed: 1 });
  const rows = await db.prisma.recipient.findMany({ where: { emailId }, orderBy: { position: 'asc' } });
  t.strictSame(
    rows.map(({ status }) => status),
    ['failed', 'failed', 'queued'],
  );
  t.match(rows[0], { jobId: null, claimedBy: null, nextAttemptAt: null });
});

t.test('mail is not parked for a pause that ends at that moment: nothing would call it back', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, Buffer.alloc(32));
  await accept(db, queue, holderOf(account), [requestOf(from, ['a@one.test'])]);
  const claims = await db.transaction(async (tx) => recipients.claim(tx, newId(), await queue.take(tx, 10, [])));
  await pause(db, 'one.test');
  let parking: Promise<void> | undefined;
  await db.transaction(async (tx) => {
    // As `resume` begins, before it looks for what is parked.
    await tx.query({ text: `UPDATE destination_orders SET paused_at = NULL WHERE name = 'one.test'` });
    parking = recipients.parkForPause(db, claims, 'one.test');
    await untilOneWaits(db);
  });
  await parking;
  const free = { jobId: null, claimedBy: null, waitingFor: null };
  const [row] = await db.prisma.recipient.findMany();
  t.match(row, free);
  t.ok(row?.nextAttemptAt && row.nextAttemptAt <= new Date(Date.now() + 60_000));
  t.match(await wakeDue(db, queue), { woken: 1 });
});

t.test('only mail that still waits for this reason is called back', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, Buffer.alloc(32));
  const to = ['this@a.test', 'other@b.test', 'tried@c.test', 'taken@d.test'];
  const accepted = await accept(db, queue, holderOf(account), [requestOf(from, to), requestOf(from, ['z@a.test'])]);
  const [one = ''] = accepted.map((email) => ('email' in email ? email.email.id : ''));
  const reason = 'room at a.test';
  const later = new Date(Date.now() + 3_600_000);
  await db.prisma.recipient.updateMany({ data: { jobId: null, nextAttemptAt: later, waitingFor: reason } });
  const change = (address: string, data: object) => db.prisma.recipient.updateMany({ where: { address }, data });
  await change('other@b.test', { waitingFor: 'the end of a pause' });
  await change('tried@c.test', { waitingFor: null });
  await change('taken@d.test', { jobId: newId() });
  await recipients.unpark(db, [one], reason);
  const rows = await db.prisma.recipient.findMany({ orderBy: [{ emailId: 'asc' }, { position: 'asc' }] });
  t.strictSame(
    rows.map(({ address, nextAttemptAt }) => `${address} ${nextAttemptAt?.getTime() === later.getTime()}`),
    ['this@a.test false', 'other@b.test true', 'tried@c.test true', 'taken@d.test true', 'z@a.test true'],
  );
});
