import type { ServerResponse } from 'node:http';
import t from 'tap';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { startHook } from '../support/hook.ts';
import { eventually } from '../support/node.ts';
import { openScene } from './scene.ts';

/** Waits longer for an answer than any test takes: a call that hangs does so until its endpoint is closed. */
const patient = { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 600_000 };

t.test('accounts with slow endpoints leave claims to the others', async (t) => {
  const scene = await openScene(t);
  const { db } = scene;
  const slow = await startHook(t, () => undefined);
  const living = await startHook(t);
  const crowd = await Promise.all(Array.from({ length: 3 }, () => scene.endpoint(slow.url)));
  for (const { accountId } of crowd)
    await scene.emit(accountId, ...Array.from({ length: 40 }, () => 'email.sent' as const));
  const { nodeId } = await scene.start(t, { poster: patient, limits: { inHand: 40 } });
  await eventually(async () => (await db.prisma.webhookDelivery.count({ where: { claimedBy: nodeId } })) >= 20);
  const { id, accountId } = await scene.endpoint(living.url);
  await scene.emit(accountId, 'email.queued', 'email.sent', 'email.delivered');
  t.equal((await scene.settled(id)).length, 3);
  await slow.close();
});

t.test('an account with failing endpoints leaves calls to others that fail', async (t) => {
  const scene = await openScene(t);
  const { db } = scene;
  const called: string[] = [];
  const dead = await startHook(t, ({ path }) => void called.push(path));
  const { accountId } = await scene.endpoint(`${dead.url}/one`);
  for (let n = 0; n < 3; n += 1) await scene.endpoint(`${dead.url}/one`, { accountId });
  const other = await scene.endpoint(`${dead.url}/other`);
  const failingSince = new Date(Date.now() - 60_000);
  await db.prisma.webhook.updateMany({
    where: { accountId: { in: [accountId, other.accountId] } },
    data: { failingSince },
  });
  await scene.emit(accountId, 'email.sent', 'email.failed');
  await scene.start(t, { poster: patient, limits: { openToFailing: 6 } });
  await eventually(async () => called.length >= 3);
  await scene.emit(other.accountId, 'email.sent');
  await eventually(async () => called.includes('/other'));
  t.equal(called.filter((path) => path === '/one').length, 3, 'one account gets half');
  await dead.close();
});

t.test('an account with slow endpoints leaves calls to the others', async (t) => {
  const scene = await openScene(t);
  const slow = await startHook(t, () => undefined);
  const living = await startHook(t);
  const { accountId } = await scene.endpoint(slow.url);
  for (let n = 0; n < 2; n += 1) await scene.endpoint(slow.url, { accountId });
  await scene.emit(accountId, ...Array.from({ length: 4 }, () => 'email.sent' as const));
  await scene.start(t, { poster: patient, limits: { open: 8 } });
  await eventually(async () => slow.calls.length >= 4);
  const other = await scene.endpoint(living.url);
  await scene.emit(other.accountId, 'email.queued', 'email.sent', 'email.delivered');
  t.equal((await scene.settled(other.id)).length, 3);
  t.equal(slow.calls.length, 4, 'one account gets half');
  await slow.close();
});

t.test('endpoints take turns with the calls of a node', async (t) => {
  const scene = await openScene(t);
  const { db } = scene;
  const open: ServerResponse[] = [];
  const slow = await startHook(t, (_call, _number, response) => void open.push(response));
  const living = await startHook(t);
  const { id, accountId } = await scene.endpoint(living.url, { events: ['email.failed'] });
  for (let n = 0; n < 2; n += 1) await scene.endpoint(slow.url, { accountId, events: ['email.sent'] });
  await scene.emit(accountId, ...Array.from({ length: 20 }, () => 'email.sent' as const));
  const { nodeId } = await scene.start(t, { poster: patient, limits: { open: 8 } });
  await eventually(async () => open.length === 4);
  await scene.emit(accountId, 'email.failed');
  const claimed = () => db.prisma.webhookDelivery.count({ where: { webhookId: id, claimedBy: nodeId } });
  await eventually(async () => (await claimed()) === 1);
  let answered = 0;
  while (living.calls.length === 0 && answered < 20) {
    open.shift()?.end();
    answered += 1;
    await eventually(async () => open.length === 4 || living.calls.length > 0);
  }
  // One for each line before it, and some more if it was claimed but not yet in line.
  t.ok(answered < 10, `after ${answered} calls of others`);
  await slow.close();
});
