import t, { type Test } from 'tap';
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
import { eventually } from '../support/node.ts';
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
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    for (const change of ['claimed_by = gen_random_uuid()', 'job_id = gen_random_uuid()']) {
      let sweeping: ReturnType<typeof sweep> | undefined;
      await db.transaction(async (tx) => {
        await tx.query({ text: `UPDATE ${table} SET ${change}` });
        sweeping = sweep(db);
        await eventually(async () => (await db.query({ text: waits })).length > 0);
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
