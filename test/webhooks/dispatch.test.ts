import { connect as netConnect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import * as calls from '../../src/core/webhooks/webhook-calls.ts';
import { sendTest, testEvent } from '../../src/core/webhooks/webhook-deliveries.ts';
import * as lines from '../../src/core/webhooks/webhook-lines.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import type { Connect } from '../../src/smtp/calls/checked-socket.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { figure } from '../support/figure.ts';
import { isSigned, startHook } from '../support/hook.ts';
import { untilOneWaits } from '../support/locks.ts';
import { eventually } from '../support/node.ts';
import { type Endpoint, keyring, openScene, unopened } from './scene.ts';

t.test('calls', async (t) => {
  const scene = await openScene(t);
  const { db, queue } = scene;

  t.test('are signed over the exact bytes, and repeated under the same id until one succeeds', async (t) => {
    const hook = await startHook(t, (_call, number) => (number < 2 ? { status: 500, body: 'not now\0' } : 200));
    const { id, accountId, secret } = await scene.endpoint(hook.url);
    let before = Date.now();
    await scene.emit(accountId, 'email.sent');
    await scene.start(t, { schedule: [1_300, 50, 50] });
    const [delivery] = await scene.settled(id);
    t.match(delivery, { status: 'succeeded', attemptCount: 3, nextAttemptAt: null, error: null, jobId: null });
    t.match(delivery?.attempts, [
      { response_status: 500, response_body: 'not now\ufffd', error: null, duration_ms: Number, at: /Z$/ },
      { response_status: 500 },
      { response_status: 200, response_body: null },
    ]);
    t.equal(hook.calls.length, 3);
    for (const call of hook.calls) {
      t.ok(isSigned(call, secret));
      t.equal(call.headers['x-service-webhook-id'], delivery?.id);
      t.equal(call.headers['webhook-id'], delivery?.id);
      const seconds = Number(call.headers['x-service-webhook-timestamp']);
      const at = call.at.getTime();
      t.ok(seconds >= Math.floor(before / 1000) && seconds <= at / 1000, 'the time is that of the attempt');
      before = at;
      t.equal(call.body, delivery?.payload);
    }
    t.not(hook.calls[0]?.headers['webhook-timestamp'], hook.calls[1]?.headers['webhook-timestamp']);
    const calls = new Set(hook.calls.map(({ headers, body }) => `${headers['webhook-id']} ${body}`));
    figure('P8', `${hook.calls.length} calls of a delivery until its endpoint answered 200: ${calls.size} id and body`);
  });

  t.test('use the time of the database, whatever the clock of this machine shows', async (t) => {
    const hook = await startHook(t, () => 500);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    const aheadMs = 3_600_000;
    await scene.start(t, { clock: { now: () => new Date(Date.now() + aheadMs) }, schedule: [600_000] });
    const { attempts } = await scene.attempted(id, 1);
    const { failingSince } = await db.prisma.webhook.findUniqueOrThrow({ where: { id } });
    t.ok(Date.parse(attempts[0]?.at ?? '') > Date.now() + aheadMs - 60_000);
    t.equal(failingSince?.toISOString(), attempts[0]?.at, 'otherwise one failure would make the endpoint look failing');
  });

  t.test('end with the schedule', async (t) => {
    const hook = await startHook(t, () => 500);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t, { schedule: [20, 20] });
    const [delivery] = await scene.settled(id);
    t.match(delivery, { status: 'failed', attemptCount: 3, nextAttemptAt: null, error: 'given up after 3 attempts' });
    t.equal(hook.calls.length, 3);
    t.match(await webhooks.get(db, accountId, id), { status: 'enabled', failingSince: Date });
  });

  t.test('wait as long as Retry-After asks', async (t) => {
    const headers = { 'Retry-After': '3600' };
    const hook = await startHook(t, (_call, number) => ({ status: number === 0 ? 429 : 200, headers }));
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t);
    const { nextAttemptAt } = await scene.attempted(id, 1);
    t.ok(Math.abs((nextAttemptAt?.getTime() ?? 0) - Date.now() - 3_600_000) < 60_000);
  });

  t.test('410 disables the endpoint, which shows why and gets no more calls', async (t) => {
    const hook = await startHook(t, () => 410);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t);
    t.match(await scene.settled(id), [{ status: 'failed', error: /410/ }]);
    t.match(await webhooks.get(db, accountId, id), {
      status: 'disabled',
      disabledReason: 'the endpoint answered 410 Gone',
    });
    t.equal(await scene.emit(accountId, 'email.sent'), 0);
    await sleep(150);
    t.equal(hook.calls.length, 1);
    t.match(await webhooks.change(db, accountId, id, { status: 'enabled' }), {
      status: 'enabled',
      disabledReason: null,
    });
    t.equal(await scene.emit(accountId, 'email.sent'), 1);
  });

  t.test('an endpoint that has only failed for five days is disabled, unless the failed call is new', async (t) => {
    const hook = await startHook(t, () => 500);
    const { id, accountId } = await scene.endpoint(hook.url);
    const days = (count: number) => new Date(Date.now() - count * 86_400_000);
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: days(6) } });
    await scene.emit(accountId, 'email.sent');
    await scene.start(t, { schedule: [] });
    t.match(await scene.settled(id), [{ status: 'failed' }]);
    t.equal(
      (await webhooks.get(db, accountId, id)).status,
      'enabled',
      'one new failure after a silence proves nothing',
    );

    const old = newId(days(2));
    const draft = { accountId, webhookId: id, emailId: null, event: 'email.sent', payload: '{}', woken: true };
    await db.transaction(async (tx) => {
      await lines.insert(tx, queue, [{ ...draft, id: old }]);
      await tx.query({ text: 'UPDATE webhook_deliveries SET created_at = $2 WHERE id = $1', values: [old, days(2)] });
    });
    queue.webhooks.wake();
    await scene.settled(id);
    t.match(await webhooks.get(db, accountId, id), {
      status: 'disabled',
      disabledReason: 'no call has succeeded for 5 days',
    });
  });

  t.test('but not by the first call after a time without calls', async (t) => {
    const hook = await startHook(t, () => 500);
    const { id, accountId } = await scene.endpoint(hook.url);
    const days = (count: number) => new Date(Date.now() - count * 86_400_000);
    // It failed, and then the service was stopped or on hold for six days.
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: days(6) } });
    const draft = { accountId, webhookId: id, emailId: null, event: 'email.sent', payload: '{}', woken: true };
    await db.transaction((tx) => lines.insert(tx, queue, [{ ...draft, id: newId(days(6)) }]));
    await scene.start(t, { schedule: [1, 60_000] });
    await scene.attempted(id, 2);
    t.match(await webhooks.get(db, accountId, id), { status: 'enabled', failingSince: Date });
  });

  t.test('one success clears the failures', async (t) => {
    const hook = await startHook(t);
    const { id, accountId } = await scene.endpoint(hook.url);
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: new Date(0) } });
    await scene.emit(accountId, 'email.sent');
    await scene.start(t);
    await scene.settled(id);
    t.match(await webhooks.get(db, accountId, id), { status: 'enabled', failingSince: null });
  });

  t.test('a deleted endpoint gets no more calls, and waiting ones end: WH-05', async (t) => {
    const hook = await startHook(t, () => 500);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.delivered');
    await scene.start(t, { schedule: [60_000] });
    const tried = async () => (await scene.deliveries(id)).filter(({ attemptCount }) => attemptCount === 1).length;
    await eventually(async () => (await tried()) === 2);
    await scene.emit(accountId, 'email.failed');
    await webhooks.remove(db, accountId, id);
    const all = await scene.settled(id);
    t.match(all.slice(0, 2), [{ error: 'the endpoint was deleted' }, { error: 'the endpoint was deleted' }]);
    t.ok(hook.calls.length <= 3);
    t.equal(await scene.emit(accountId, 'email.sent'), 0);
  });

  t.test('a disabled endpoint ends the calls that wait for it, and their jobs', async (t) => {
    const hook = await startHook(t);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    await webhooks.change(db, accountId, id, { status: 'disabled' });
    await scene.start(t);
    t.match(await scene.settled(id), [{ status: 'failed', error: 'the endpoint was disabled', attempts: [] }]);
    t.equal(hook.calls.length, 0);
  });

  t.test('a call that waits for its turn when its endpoint is disabled or deleted is not made, and ends', async (t) => {
    for (const [what, end] of [
      ['disabled', ({ accountId, id }: Endpoint) => webhooks.change(db, accountId, id, { status: 'disabled' })],
      ['deleted', ({ accountId, id }: Endpoint) => webhooks.remove(db, accountId, id)],
    ] as const) {
      const held = Promise.withResolvers<number>();
      const hook = await startHook(t, () => held.promise);
      const endpoint = await scene.endpoint(hook.url);
      await scene.emit(endpoint.accountId, 'email.sent', 'email.delivered', 'email.failed');
      const { nodeId, stop } = await scene.start(t, { limits: { perEndpoint: 1, perGoodEndpoint: 1 } });
      await eventually(async () => {
        const all = await scene.deliveries(endpoint.id);
        return hook.calls.length === 1 && all.every(({ claimedBy }) => claimedBy === nodeId);
      });
      await end(endpoint);
      held.resolve(200);
      const all = await scene.settled(endpoint.id);
      t.strictSame(all.map(({ status }) => status).sort(), ['failed', 'failed', 'succeeded'], what);
      for (const { status, error, attemptCount, attempts } of all)
        if (status === 'failed')
          t.strictSame([error, attemptCount, attempts], ['the endpoint was deleted or disabled', 0, []], what);
      t.equal(hook.calls.length, 1, what);
      await stop();
    }
  });

  t.test('a changed URL applies to waiting calls: WH-05', async (t) => {
    const before = await startHook(t, () => 500);
    const after = await startHook(t);
    const { id, accountId } = await scene.endpoint(before.url);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t, { schedule: [600_000] });
    await scene.attempted(id, 1);
    await webhooks.change(db, accountId, id, { url: after.url });
    const due = `UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 ms' WHERE webhook_id = $1`;
    await db.query({ text: due, values: [id] });
    t.match(await scene.settled(id), [{ status: 'succeeded' }]);
    t.strictSame([before.calls.length, after.calls.length], [1, 1]);
  });

  t.test('a changed URL is checked when it is called: WH-05', async (t) => {
    const hook = await startHook(t);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t, { poster: { resolver: createResolver(['127.0.0.1:9']), allowPrivate: false }, schedule: [] });
    const [delivery] = await scene.settled(id);
    t.match(delivery?.attempts, [{ response_status: null, response_body: null, error: /public internet/ }]);
    t.equal(hook.connections, 0);
  });

  t.test('after a rotation both secrets sign for a day', async (t) => {
    const hook = await startHook(t);
    const { id, accountId, secret: old } = await scene.endpoint(hook.url);
    const { secret } = await webhooks.rotateSecret(db, accountId, id, keyring);
    t.not(secret, old);
    await scene.emit(accountId, 'email.sent');
    await scene.start(t);
    await scene.settled(id);
    const signedWith = (number: number) => {
      const call = hook.calls[number];
      return call && [secret, old].map((each) => isSigned(call, each));
    };
    t.strictSame(signedWith(0), [true, true]);
    await db.prisma.webhook.update({ where: { id }, data: { previousSecretUntil: new Date(Date.now() - 1_000) } });
    await scene.emit(accountId, 'email.sent');
    await eventually(async () => hook.calls.length === 2);
    t.strictSame(signedWith(1), [true, false]);
    await webhooks.forgetOldSecrets(db);
    t.match(await webhooks.get(db, accountId, id), { previousSecret: null, previousSecretUntil: null });
  });

  t.test('a secret that cannot be opened fails its own deliveries only', async (t) => {
    const hook = await startHook(t);
    const broken = await scene.endpoint(hook.url);
    const good = await scene.endpoint(hook.url);
    await db.query({
      text: 'UPDATE webhooks SET secret = (SELECT secret FROM webhooks WHERE id = $2) WHERE id = $1',
      values: [broken.id, good.id],
    });
    for (const { accountId } of [broken, good]) await scene.emit(accountId, 'email.sent');
    await scene.start(t, { schedule: [] });
    t.match(await scene.settled(good.id), [{ status: 'succeeded' }]);
    t.match((await scene.settled(broken.id))[0], { status: 'failed', attempts: [{ error: /could not be made/ }] });
  });
});

t.test('crashes', async (t) => {
  const scene = await openScene(t);
  const { db, queue } = scene;
  const take = (nodeId: string) =>
    db.transaction(async (tx) => calls.claim(tx, nodeId, await queue.webhooks.take(tx, 100, [])));

  t.test('calls that a dead node held, and calls that lost their job, are found and made', async (t) => {
    const hook = await startHook(t);
    const { id, accountId } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.failed');
    t.equal((await take(newId())).length, 2, 'held by an unknown node');
    await scene.emit(accountId, 'email.delivered');
    await db.query({ text: `DELETE FROM pgboss.job WHERE name = 'webhook' AND state = 'created'` });
    await scene.start(t);
    await sleep(150);
    t.equal(hook.calls.length, 0);
    t.match(await lines.sweep(db, null, 100), { freed: 3, next: null });
    t.match(await scene.settled(id), [{ status: 'succeeded' }, { status: 'succeeded' }, { status: 'succeeded' }]);
    t.equal(hook.calls.length, 3);
  });

  t.test('the sweeper continues where it stopped', async (t) => {
    const { accountId, id } = await scene.endpoint('http://127.0.0.1:1024/');
    await scene.emit(accountId, ...Array.from({ length: 25 }, () => 'email.sent' as const));
    await db.query({ text: `DELETE FROM pgboss.job WHERE name = 'webhook'` });
    const freed: number[] = [];
    let at: lines.Place | null = null;
    do {
      const result: Awaited<ReturnType<typeof lines.sweep>> = await lines.sweep(db, at, 10);
      freed.push(result.freed);
      at = result.next;
    } while (at);
    t.strictSame(freed, [10, 10, 5]);
    await webhooks.remove(db, accountId, id);
    await lines.wakeDue(db, queue);
    t.match(await scene.settled(id), { length: 25 });
  });

  t.test('a node considered dead changes nothing but a success', async (t) => {
    const { id, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
    await scene.emit(accountId, 'email.sent', 'email.failed');
    const zombie = await take(newId());
    await lines.sweep(db, null, 100);
    await lines.wakeDue(db, queue);
    const living = await take(newId());
    t.equal(living.length, 2);
    const attempt = { at: new Date(), responseStatus: 200, responseBody: 'thanks', error: null, durationMs: 1 };
    const made = {
      attempt,
      attemptCount: 1,
      endpoint: 'unknown' as const,
      url: 'http://127.0.0.1:1024/',
      timesEnabled: 0,
    };
    const outcome = (claim: calls.Claim, status: 'succeeded' | 'failed') => ({
      ...{ claim, status, made, nextAttemptAt: null, error: null },
    });
    const settle = (...outcomes: calls.CallOutcome[]) => db.transaction((tx) => calls.settle(tx, outcomes));
    const of = (claims: calls.Claim[], index: number) => claims[index] as calls.Claim;
    await settle(outcome(of(zombie, 0), 'failed'), outcome(of(zombie, 1), 'succeeded'));
    t.same((await scene.deliveries(id)).map(({ status }) => status).sort(), ['pending', 'succeeded']);
    await settle(...living.map((claim) => outcome(claim, 'failed')));
    const both = await scene.deliveries(id);
    t.same(both.map(({ status }) => status).sort(), ['failed', 'succeeded']);
    const heard = (wanted: string) => both.find(({ status }) => status === wanted)?.attempts;
    t.match(heard('failed'), [{ response_body: 'thanks' }]);
    // The recipient that it names may have been erased since: an erasure waits only for nodes that hold a delivery.
    t.match(heard('succeeded'), [{ response_status: 200, response_body: null }]);
  });

  t.test('a call that was in progress during a standstill says nothing about the time in between', async (t) => {
    const { id: webhookId, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
    const days = (count: number) => new Date(Date.now() - count * 86_400_000);
    const claim = { nodeId: newId(), jobId: newId(), deliveryId: newId(days(6)), webhookId, accountId, failing: false };
    const attempt = { responseStatus: null, responseBody: null, error: 'no answer', durationMs: 15_000 };
    for (const at of [days(6), new Date()])
      await db.transaction((tx) =>
        calls.settle(tx, [
          {
            ...{ claim, status: 'failed', nextAttemptAt: null, error: null },
            made: {
              ...{ attempt: { ...attempt, at }, attemptCount: 9 },
              ...{ endpoint: 'fails', url: 'http://127.0.0.1:1024/', timesEnabled: 0 },
            },
          },
        ]),
      );
    const { status, failingSince } = await webhooks.get(db, accountId, webhookId);
    t.equal(status, 'enabled');
    t.ok(failingSince && failingSince > days(1), `${failingSince}`);
  });

  t.test('without a valid lease nothing is sent', async (t) => {
    const hook = await startHook(t);
    const { accountId, id } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent');
    let valid = true;
    const lease = {
      onHold: false,
      nodeId: newId(),
      // Lost between the claim and the call.
      valid: () => {
        const answer = valid;
        valid = false;
        return answer;
      },
    };
    await scene.start(t, { lease });
    await eventually(async () => !valid);
    await eventually(async () => (await scene.deliveries(id)).every(({ claimedBy }) => claimedBy === null));
    await sleep(300);
    t.equal(hook.calls.length, 0);
    t.match(await scene.deliveries(id), [{ status: 'pending', attemptCount: 0, attempts: [], claimedBy: null }]);
  });

  t.test('after a call that this server could not even make, none begins for a second', async (t) => {
    const hook = await startHook(t);
    const { accountId, id } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.delivered');
    const begunAt: number[] = [];
    const connect: Connect = (options) => {
      // Calls that other tests have left are made as well.
      if (options.port !== hook.port) return netConnect(options);
      begunAt.push(performance.now());
      return begunAt.length === 1 ? unopened('EMFILE') : netConnect(options);
    };
    const poster = { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, connect };
    const worker = await scene.start(t, { limits: { perEndpoint: 1 }, poster });
    t.match(await scene.settled(id), [{ status: 'succeeded' }, { status: 'succeeded' }]);
    await worker.stop();
    const [first = 0, second = 0] = begunAt;
    t.ok(second - first >= 1_000, `${second - first} ms`);
  });

  t.test('a hold starts no waiting call, and gives the calls back until it ends', async (t) => {
    const held = Promise.withResolvers<void>();
    const hook = await startHook(t, (_call, number) => (number < 2 ? held.promise.then(() => 200) : 200));
    const { accountId, id } = await scene.endpoint(hook.url);
    for (let n = 0; n < 10; n++) await scene.emit(accountId, 'email.sent', 'email.failed', 'email.delivered');
    const lease = { nodeId: newId(), onHold: false, valid: () => true };
    await scene.start(t, { lease, limits: { perEndpoint: 2, perGoodEndpoint: 2 } });
    await eventually(async () => hook.calls.length === 2);
    lease.onHold = true;
    held.resolve();
    const begun = 2;
    const waiting = await eventually(async () => {
      const pending = (await scene.deliveries(id)).filter(({ status }) => status === 'pending');
      return pending.every(({ claimedBy }) => claimedBy === null) && pending;
    });
    t.equal(hook.calls.length, begun);
    t.equal(waiting.length, 30 - begun);
    for (const delivery of waiting) t.match(delivery, { attemptCount: 0, attempts: [] });
    lease.onHold = false;
    const all = await scene.settled(id);
    t.ok(all.every(({ status }) => status === 'succeeded'));
    t.equal(hook.calls.length, 30, 'each once');
  });

  t.test(
    'calls that the database could not give, or take back, for a moment are made all the same, each once',
    async (t) => {
      const hook = await startHook(t);
      const { accountId, id } = await scene.endpoint(hook.url);
      await scene.emit(accountId, 'email.sent', 'email.failed', 'email.delivered');
      const failed: string[] = [];
      const through: Database = {
        ...db,
        query: (statement) => {
          const what = statement.name === 'webhook-deliveries-load' ? 'load' : 'release';
          const isOurs = what === 'load' || statement.text.includes('claimed_by = c.node_id');
          if (!isOurs || failed.includes(what)) return db.query(statement);
          failed.push(what);
          throw new Error('the connection was lost');
        },
      };
      // One at a time: a place that is not given back would end all calls to the endpoint.
      await scene.start(t, { through, limits: { perEndpoint: 1, perGoodEndpoint: 1 } });
      const all = await scene.settled(id);
      t.strictSame(failed, ['load', 'release']);
      for (const delivery of all) t.match(delivery, { status: 'succeeded', attemptCount: 1 });
      t.equal(hook.calls.length, 3);
    },
  );

  t.test('calls that cannot be given back are logged once, however many there are', async (t) => {
    const hook = await startHook(t);
    const { accountId, id } = await scene.endpoint(hook.url);
    let away = true;
    let loads = 0;
    const through: Database = {
      ...db,
      query: (statement) => {
        const isLoad = statement.name === 'webhook-deliveries-load';
        if (!away || !(isLoad || statement.text.includes('claimed_by = c.node_id'))) return db.query(statement);
        if (isLoad) loads += 1;
        throw new Error('the connection was lost');
      },
    };
    const said: string[] = [];
    const log = {
      ...silentLog,
      warn: (_fields: unknown, sentence: string) => said.push(sentence),
    } as unknown as Logger;
    await scene.start(t, { through, log });
    for (let n = 1; n <= 3; n++) {
      await scene.emit(accountId, 'email.sent');
      await eventually(async () => loads === n);
    }
    away = false;
    t.equal((await scene.settled(id)).length, 3);
    t.equal(said.filter((sentence) => sentence.includes('could not be released')).length, 1, `${said}`);
  });

  t.test('a call that somebody waits for goes before those that wait here for its endpoint', async (t) => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const hook = await startHook(t, (_call, number) => (number === 0 ? promise : 200));
    const { accountId, id } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.failed', 'email.delivered');
    await scene.start(t, { limits: { perEndpoint: 1, perGoodEndpoint: 1 } });
    await eventually(async () => hook.calls.length === 1);
    const test = await sendTest(db, queue, accountId, id);
    const isTaken = { where: { id: test.id, claimedBy: { not: null } } };
    await eventually(async () => (await db.prisma.webhookDelivery.count(isTaken)) === 1);
    resolve(200);
    await scene.settled(id);
    t.equal(JSON.parse(hook.calls[1]?.body ?? '{}').type, testEvent);
    t.equal(hook.calls.length, 4);
  });

  t.test('a stop hands back calls that have not begun, and waits for those that have', async (t) => {
    let answer: (status: number) => void = () => {};
    const hook = await startHook(t, () => new Promise<number>((resolve) => (answer = resolve)));
    const { accountId, id } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.failed', 'email.delivered');
    // A look for due calls would be waited for, and the next call would begin meanwhile.
    const worker = await scene.start(t, { wakes: false, limits: { perEndpoint: 1, perGoodEndpoint: 1 } });
    await eventually(async () => hook.calls.length === 1);
    const stopped = worker.stop();
    await sleep(100);
    answer(200);
    await stopped;
    const all = await scene.deliveries(id);
    t.same(all.map(({ status }) => status).sort(), ['pending', 'pending', 'succeeded']);
    for (const delivery of all) t.match(delivery, { jobId: null, claimedBy: null });
    t.equal(hook.calls.length, 1);
  });

  for (const what of ['the outcome of a call', 'jobs']) {
    t.test(`a stop does not wait for a database that gives no answer about ${what}`, async (t) => {
      let isSilent = what === 'jobs';
      const silence = () => new Promise<never>(() => {});
      const through: Database = {
        ...db,
        query: (statement) => (isSilent ? silence() : db.query(statement)),
        transaction: (work) => (isSilent ? silence() : db.transaction(work)),
      };
      const hook = await startHook(t, () => {
        isSilent = true;
        return 200;
      });
      const { accountId } = await scene.endpoint(hook.url);
      await scene.emit(accountId, 'email.sent');
      const worker = await scene.start(t, { wakes: false, through, patience: { drainMs: 500, stopMs: 1_000 } });
      if (!isSilent) await eventually(async () => hook.calls.length === 1);
      // Which never comes.
      await t.resolves(worker.stop());
    });
  }

  t.test('a stop hands back calls that are just being claimed', async (t) => {
    const hook = await startHook(t);
    const { accountId, id } = await scene.endpoint(hook.url);
    await scene.emit(accountId, 'email.sent', 'email.failed');
    let stopped: Promise<void> | undefined;
    await db.transaction(async (tx) => {
      await tx.query({ text: 'SELECT FROM webhook_deliveries WHERE webhook_id = $1 FOR UPDATE', values: [id] });
      const worker = await scene.start(t, { wakes: false });
      await untilOneWaits(db, 'WITH woken%');
      stopped = worker.stop();
    });
    await stopped;
    for (const delivery of await scene.deliveries(id))
      t.match(delivery, { status: 'pending', jobId: null, claimedBy: null });
    t.equal(hook.calls.length, 0);
  });
});
