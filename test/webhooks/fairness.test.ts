import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { claim } from '../../src/core/webhooks/webhook-calls.ts';
import { sendTest } from '../../src/core/webhooks/webhook-deliveries.ts';
import * as lines from '../../src/core/webhooks/webhook-lines.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { startHook } from '../support/hook.ts';
import { eventually } from '../support/node.ts';
import { type Endpoint, openScene } from './scene.ts';

const hang = () => undefined;
/** Waits longer for an answer than any test takes: a call that hangs does so until its endpoint is closed. */
const patient = { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 600_000 };

/** As many deliveries as an outage leaves behind, due now and without a job, in statements that a slow machine can handle. */
async function pile(db: Database, { id, accountId }: Endpoint, count: number): Promise<void> {
  for (let from = 1; from <= count; from += 10_000)
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, next_attempt_at)
             SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000' || '8' || substr(md5(n::text), 1, 15))::uuid,
                    $1, $2, 'email.sent', '{}', now() FROM generate_series($3::int, $4::int) n`,
      values: [accountId, id, from, Math.min(from + 9_999, count)],
    });
}

const jobs = async (db: Database, webhookId: string) =>
  (
    await db.query<{ n: number }>({
      text: `SELECT count(*)::int AS n FROM pgboss.job WHERE name = 'webhook' AND group_id = $1`,
      values: [webhookId],
    })
  )[0]?.n ?? 0;

t.test('fairness', async (t) => {
  const scene = await openScene(t);
  const { db, queue } = scene;

  t.test('an endpoint that hangs delays no other, and its calls are not cut short', async (t) => {
    let open = 0;
    let most = 0;
    const dead = await startHook(t, (_call, _number, response) => {
      open += 1;
      most = Math.max(most, open);
      response.on('close', () => (open -= 1));
      return undefined;
    });
    const living = await startHook(t);
    const hanging = await scene.endpoint(dead.url);
    const { id, accountId } = await scene.endpoint(living.url);
    for (let round = 0; round < 30; round += 1) await scene.emit(hanging.accountId, 'email.queued', 'email.sent');
    await scene.start(t, { poster: patient });
    await eventually(async () => dead.calls.length >= 4);
    for (let round = 0; round < 10; round += 1) await scene.emit(accountId, 'email.queued', 'email.sent');
    t.equal((await scene.settled(id)).length, 20);
    t.equal(most, 4, 'at most four calls at once');
    t.equal(dead.calls.length, 4, 'none of which is over');
    await dead.close();
  });

  t.test('an endpoint that keeps answering well gets more than four calls at once', async (t) => {
    let open = 0;
    let most = 0;
    // So long that the time this machine needs for a call hardly matters.
    const far = await startHook(t, async () => {
      open += 1;
      most = Math.max(most, open);
      await sleep(200);
      open -= 1;
      return 200;
    });
    const { id, accountId } = await scene.endpoint(far.url);
    const worker = await scene.start(t);
    await eventually(async () => {
      if (open < 4) await scene.emit(accountId, ...Array.from({ length: 40 }, () => 'email.sent' as const));
      return most >= 12;
    });
    // So that later tests find an empty queue.
    await scene.settled(id);
    await worker.stop();
    t.ok(most <= 32, `${most}`);
  });

  t.test('many endpoints that are known to fail leave room for the others', async (t) => {
    const dead = await startHook(t, hang);
    const living = await startHook(t);
    const crowd = await Promise.all(Array.from({ length: 12 }, () => scene.endpoint(dead.url)));
    const failingSince = new Date(Date.now() - 60_000);
    await db.prisma.webhook.updateMany({ where: { id: { in: crowd.map(({ id }) => id) } }, data: { failingSince } });
    for (const { accountId } of crowd) await scene.emit(accountId, 'email.sent', 'email.failed');
    await scene.start(t, { poster: patient, limits: { running: 10, openToFailing: 5 } });
    await eventually(async () => dead.calls.length >= 5);
    const { id, accountId } = await scene.endpoint(living.url);
    await scene.emit(accountId, 'email.queued', 'email.sent', 'email.delivered');
    await scene.settled(id);
    t.equal(dead.calls.length, 5, 'none of which is over');
    await dead.close();
  });

  t.test('many endpoints that are slow but answer leave room for the others: WH-06', async (t) => {
    const slow = await startHook(t, hang);
    const living = await startHook(t);
    const crowd = await Promise.all(Array.from({ length: 12 }, () => scene.endpoint(slow.url)));
    for (const { accountId } of crowd) await scene.emit(accountId, 'email.sent', 'email.failed');
    await scene.start(t, { poster: patient, limits: { running: 10, open: 30 } });
    await eventually(async () => slow.calls.length >= 10);
    const { id, accountId } = await scene.endpoint(living.url);
    await scene.emit(accountId, 'email.queued', 'email.sent', 'email.delivered');
    await scene.settled(id);
    await eventually(async () => slow.calls.length === 24);
    await slow.close();
  });

  t.test('an account with many endpoints gets no more turns than one with a single endpoint', async (t) => {
    const hook = await startHook(t);
    const first = await scene.endpoint(`${hook.url}/many`);
    const { accountId } = first;
    for (let n = 1; n < 20; n += 1) await scene.endpoint(`${hook.url}/many`, { accountId });
    await scene.emit(accountId, 'email.queued', 'email.sent');
    const single = await scene.endpoint(`${hook.url}/single`);
    await scene.emit(single.accountId, 'email.queued', 'email.sent', 'email.delivered');
    await scene.start(t, { limits: { running: 1 } });
    await scene.settled(single.id);
    const before = hook.calls.findLastIndex(({ path }) => path === '/single');
    // With turns it is the sixth, or on a slow machine one of those that were begun with it.
    t.ok(before < 20, `${before} calls of both came before its last`);
    await eventually(async () => hook.calls.length === 43);
  });

  t.test('a failing endpoint gets four calls at a time, those asked for by hand first', async (t) => {
    const { id, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
    await scene.emit(accountId, ...Array.from({ length: 30 }, () => 'email.sent' as const));
    const asked = await sendTest(db, queue, accountId, id);
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: new Date(Date.now() - 60_000) } });
    const claims = await db.transaction(async (tx) => claim(tx, newId(), await queue.webhooks.take(tx, 100, [])));
    const mine = claims.filter(({ webhookId }) => webhookId === id);
    t.equal(mine.length, 4);
    t.match(mine[0], { deliveryId: asked.id, failing: true });
    const rest = (await scene.deliveries(id)).filter(({ jobId }) => jobId === null);
    t.equal(rest.length, 27);
    for (const delivery of rest) t.match(delivery, { status: 'pending', claimedBy: null, nextAttemptAt: Date });
    await db.prisma.webhook.delete({ where: { id } });
  });

  t.test('a new endpoint gets four calls, and all others once it answers', async (t) => {
    let up = false;
    const held: (() => void)[] = [];
    const hook = await startHook(t, (_call, _number, response) => {
      if (up) return 200;
      held.push(() => response.end());
      return undefined;
    });
    const { id, accountId } = await scene.endpoint(hook.url, { isNew: true });
    await scene.emit(accountId, ...Array.from({ length: 30 }, () => 'email.sent' as const));
    t.equal(await jobs(db, id), 4);
    await scene.start(t, { wakes: false });
    await eventually(async () => held.length === 4);
    held.shift()?.();
    const woken = () => db.prisma.webhookDelivery.count({ where: { webhookId: id, jobId: { not: null } } });
    await eventually(async () => (await woken()) === 29);
    t.match(await db.prisma.webhook.findUnique({ where: { id } }), { answeredAt: Date, failingSince: null });
    up = true;
    for (const answer of held) answer();
    t.equal((await scene.settled(id)).length, 30);
  });

  t.test('an endpoint that turns out to fail gives its line back', async (t) => {
    const open: ServerResponse[] = [];
    const dead = await startHook(t, (_call, _number, response) => void open.push(response));
    const { id, accountId } = await scene.endpoint(dead.url);
    await scene.emit(accountId, ...Array.from({ length: 60 }, () => 'email.sent' as const));
    const { nodeId } = await scene.start(t, { poster: patient, schedule: [600_000] });
    const held = () => db.prisma.webhookDelivery.count({ where: { webhookId: id, claimedBy: nodeId } });
    await eventually(async () => (await held()) === 60 && open.length === 4);
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: new Date(Date.now() - 60_000) } });
    for (const response of open.splice(0)) response.writeHead(500).end();
    await eventually(async () => (await held()) <= 10);
    t.ok(dead.calls.length <= 8, `${dead.calls.length} calls: those that failed, and four at a time`);
    await dead.close();
  });

  t.test('100,000 calls that wait for a dead endpoint: WH-06', async (t) => {
    const dead = await scene.endpoint('http://127.0.0.1:1024/');
    await pile(db, dead, 100_000);
    await db.query({ text: 'ANALYZE webhook_deliveries' });
    await lines.wakeDue(db, queue);
    const head = await jobs(db, dead.id);
    t.ok(head > 100 && head <= 500, `the queue holds the head of the line: ${head}`);
    await lines.wakeDue(db, queue);
    t.equal(await jobs(db, dead.id), head, 'and no more than that');

    await db.prisma.webhook.update({ where: { id: dead.id }, data: { failingSince: new Date(Date.now() - 60_000) } });
    const living = await startHook(t);
    const { id, accountId } = await scene.endpoint(living.url);
    await scene.start(t, { schedule: [60_000, 60_000] });
    await eventually(async () => (await jobs(db, dead.id)) <= 10);
    t.pass('queued calls go back into the line when it fails');

    const latencies: number[] = [];
    // Each of them would wait for the dead one; a busy machine may be slow with many.
    const isFast = () => latencies.filter((ms) => ms < 500).length >= 4;
    let round = 0;
    while (round < 20 || (round < 100 && !isFast())) {
      round += 1;
      const started = performance.now();
      await scene.emit(accountId, 'email.sent');
      await eventually(async () => living.calls.length >= round);
      latencies.push(performance.now() - started);
      await sleep(20);
    }
    t.ok(isFast(), `the others are called at once: ${latencies.map(Math.round)}`);
    t.equal((await scene.settled(id)).length, round);

    let look = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 50 && look >= 100; round += 1) {
      const started = performance.now();
      await lines.wakeDue(db, queue);
      look = Math.min(look, performance.now() - started);
    }
    t.ok(look < 100, `a search for work takes ${look} ms`);
    await db.prisma.webhook.delete({ where: { id: dead.id } });
    await eventually(async () => {
      await lines.wakeDue(db, queue);
      return (await db.prisma.webhookDelivery.count({ where: { webhookId: dead.id, status: 'pending' } })) === 0;
    }, 120_000);
    t.pass('all calls end with the endpoint');
  });

  t.test('when it answers again, the line empties', async (t) => {
    let up = false;
    const hook = await startHook(t, () => (up ? 200 : 500));
    const endpoint = await scene.endpoint(hook.url);
    await pile(db, endpoint, 600);
    await db.prisma.webhook.update({
      where: { id: endpoint.id },
      data: { failingSince: new Date(Date.now() - 60_000) },
    });
    await scene.start(t, { schedule: Array(100).fill(300) });
    await eventually(async () => hook.calls.length >= 20);
    up = true;
    const all = await scene.settled(endpoint.id);
    t.equal(all.filter(({ status }) => status === 'succeeded').length, 600);
    t.equal((await db.prisma.webhook.findUnique({ where: { id: endpoint.id } }))?.failingSince, null);
  });
});
