import t from 'tap';
import * as calls from '../../src/core/webhooks/webhook-calls.ts';
import { retry } from '../../src/core/webhooks/webhook-deliveries.ts';
import {
  change,
  create,
  type EventType,
  emit,
  forgetOldSecrets,
  get,
  list,
  openSecret,
  rotateSecret,
} from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Sql, Statement } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { withoutReads } from '../support/without-reads.ts';
import { event, openScene } from '../webhooks/scene.ts';

/** The same transaction, with every statement recorded. */
function counting(tx: Sql): { tx: Sql; statements: string[] } {
  const statements: string[] = [];
  return {
    statements,
    tx: {
      query<Row>(statement: Statement) {
        statements.push(statement.text);
        return tx.query<Row>(statement);
      },
    },
  };
}

t.test('emitting', async (t) => {
  const scene = await openScene(t);
  const { db, queue } = scene;
  const cost = (accountId: string, count: number, type: EventType = 'email.sent') =>
    db.transaction(async (plain) => {
      const { tx, statements } = counting(plain);
      await emit(
        tx,
        queue,
        Array.from({ length: count }, () => event(accountId, type)),
      );
      return statements.length;
    });
  const jobs = () =>
    db.query<{ id: string; data: { deliveryId: string }; group_id: string }>({
      text: `SELECT id, data, group_id FROM pgboss.job WHERE name = 'webhook'`,
    });

  t.test(
    'costs nothing for nothing, one statement if nobody subscribes, and the same for one as for many',
    async (t) => {
      const { accountId } = await scene.endpoint('https://example.com/', { events: ['email.sent'] });
      t.equal(await cost(accountId, 0), 0);
      t.equal(await cost(accountId, 5, 'email.failed'), 1);
      const once = await cost(accountId, 1);
      t.equal(await cost(accountId, 1_000), once);
    },
  );

  t.test('uses several statements if the payloads are megabytes', async (t) => {
    const { accountId } = await scene.endpoint('https://large.test/');
    const to = Array.from({ length: 100 }, (_, index) => `${'n'.repeat(3_000)} <r${index}@a.test>`);
    const about = { ...event(accountId, 'email.sent'), email: { ...event(accountId, 'email.sent').email, to } };
    const lengths: number[] = [];
    const made = await db.transaction((tx) => {
      const noting: Sql = {
        query(statement) {
          const payloads = statement.name === 'webhook-deliveries-insert' ? statement.values?.[5] : undefined;
          if (payloads) lengths.push((payloads as string[]).join('').length);
          return tx.query(statement);
        },
      };
      return emit(noting, queue, new Array(30).fill(about));
    });
    t.equal(made, 30);
    t.ok(Math.max(...lengths) < 4_000_000, `${lengths}`);
    t.equal(await db.prisma.webhookDelivery.count({ where: { accountId } }), 30);
  });

  t.test('makes a delivery with a job for each subscribed endpoint of the account', async (t) => {
    const one = await scene.endpoint('https://one.test/', { events: ['email.sent', 'email.failed'] });
    const two = await scene.endpoint('https://two.test/', { accountId: one.accountId, events: ['email.sent'] });
    const off = await scene.endpoint('https://off.test/', { accountId: one.accountId });
    await db.prisma.webhook.update({ where: { id: off.id }, data: { status: 'disabled' } });
    const stranger = await scene.endpoint('https://stranger.test/');
    t.equal(await scene.emit(one.accountId, 'email.sent', 'email.failed', 'email.queued'), 3);
    const eventsOf = async (id: string) => (await scene.deliveries(id)).map((delivery) => delivery.event);
    t.strictSame(await eventsOf(one.id), ['email.sent', 'email.failed']);
    t.strictSame(await eventsOf(two.id), ['email.sent']);
    t.strictSame([await eventsOf(off.id), await eventsOf(stranger.id)], [[], []]);
    const made = await jobs();
    for (const delivery of await scene.deliveries(one.id)) {
      const job = made.find(({ id }) => id === delivery.jobId);
      t.match(job, { data: { deliveryId: delivery.id, webhookId: one.id }, group_id: one.id });
      t.match(delivery, {
        accountId: one.accountId,
        status: 'pending',
        attempts: [],
        attemptCount: 0,
        nextAttemptAt: Date,
      });
    }
  });

  t.test('writes the documented payload, with recipients where they say more', async (t) => {
    const { id, accountId } = await scene.endpoint('https://example.com/');
    const recipients = [{ address: 'a@one.test', status: 'failed' as const, response: '550 no' }];
    const delivered = event(accountId, 'email.delivered', { status: 'sent' });
    const failed = {
      ...event(accountId, 'email.failed', { status: 'failed', tags: ['order', 'customer:42'] }),
      recipients,
    };
    await db.transaction((tx) => emit(tx, queue, [delivered, failed]));
    const payloads = (await scene.deliveries(id)).map(({ payload }) => payload);
    t.equal(
      payloads[0],
      `{"type":"email.delivered","created_at":"${delivered.createdAt.toISOString()}","data":{"email_id":"${delivered.email.id}",` +
        '"from":"Shop <s@shop.test>","to":["a@one.test","b@two.test"],"subject":"Grüße ✓","status":"delivered","created_at":"2026-11-21T10:00:00.123Z"}}',
    );
    const data = { status: 'failed', tags: ['order', 'customer:42'], recipients };
    t.match(JSON.parse(payloads[1] ?? ''), { type: 'email.failed', data });
  });

  t.test('keeps nothing if the transaction fails', async (t) => {
    const { id, accountId } = await scene.endpoint('https://example.com/');
    const before = (await jobs()).length;
    const failing = db.transaction(async (tx) => {
      await emit(tx, queue, [event(accountId, 'email.sent')]);
      throw new Error('no');
    });
    await t.rejects(failing, { message: 'no' });
    t.strictSame([await scene.deliveries(id), (await jobs()).length], [[], before]);
  });

  t.test('queues no more than the endpoint has room for', async (t) => {
    const { id, accountId } = await scene.endpoint('https://example.com/');
    await cost(accountId, 700);
    const withJob = async () => (await scene.deliveries(id)).filter(({ jobId }) => jobId !== null).length;
    t.equal(await withJob(), 500);
    await db.prisma.webhook.update({ where: { id }, data: { failingSince: new Date(Date.now() - 60_000) } });
    await cost(accountId, 10);
    t.equal(await withJob(), 500);
  });
});

t.test('an account has at most 20 endpoints, even if many are made at once', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const keyring = new Keyring(Buffer.alloc(32));
  const make = (n: number) => create(db, accountId, { url: `https://n${n}.test/`, events: ['email.sent'] }, keyring);
  for (let n = 0; n < 15; n += 1) await make(n);
  // No more than there are connections: on a full machine, who has to wait for one may get none in time.
  const made = await Promise.allSettled(Array.from({ length: 10 }, (_, n) => make(15 + n)));
  t.equal(made.filter(({ status }) => status === 'fulfilled').length, 5);
  t.equal((await list(db, accountId)).length, 20);
  t.match(
    made.find(({ status }) => status === 'rejected'),
    { reason: { status: 400, detail: /20 endpoints/ } },
  );
});

t.test('an endpoint that has moved is not judged by answers of its old URL', async (t) => {
  const scene = await openScene(t);
  const { db } = scene;
  const { id, accountId } = await scene.endpoint('https://old.test/');
  const attempt = { at: new Date(), responseStatus: 410, responseBody: null, error: null, durationMs: 1 };
  const say = (endpoint: 'gone' | 'fails' | 'works', url: string, timesEnabled = 0) => {
    const claim = {
      nodeId: newId(),
      jobId: newId(),
      deliveryId: newId(),
      webhookId: id,
      accountId: newId(),
      failing: false,
    };
    const made = { attempt, attemptCount: 1, endpoint, url, timesEnabled };
    return { claim, status: 'failed' as const, nextAttemptAt: null, error: null, made };
  };
  const settle = (...outcomes: calls.CallOutcome[]) => db.transaction((tx) => calls.settle(tx, outcomes));
  await settle(say('works', 'https://old.test/'));
  await change(db, accountId, id, { events: ['email.sent'] });
  t.type((await get(db, accountId, id)).answeredAt, Date);
  await change(db, accountId, id, { url: 'https://new.test/' });
  await settle(say('gone', 'https://old.test/'), say('fails', 'https://old.test/'), say('works', 'https://old.test/'));
  t.match(
    await get(db, accountId, id),
    { status: 'enabled', failingSince: null, answeredAt: null },
    'and it is not trusted for them either',
  );
  await settle(say('fails', 'https://new.test/'), say('works', 'https://old.test/'));
  t.match(await get(db, accountId, id), { status: 'enabled', failingSince: attempt.at.toISOString() });
  await settle(say('gone', 'https://new.test/'));
  t.match(await get(db, accountId, id), { status: 'disabled', disabledReason: /410/ });
  await change(db, accountId, id, { status: 'enabled' });
  await settle(say('gone', 'https://new.test/'), say('fails', 'https://new.test/'));
  t.match(
    await get(db, accountId, id),
    { status: 'enabled', failingSince: null },
    'nor by answers from before it was enabled',
  );
  await settle(say('gone', 'https://new.test/', 1));
  t.match(await get(db, accountId, id), { status: 'disabled', disabledReason: /410/ });
  await settle(say('fails', 'https://new.test/', 1));
  t.match(await get(db, accountId, id), { disabledReason: /410/ }, 'a call that ends later leaves the reason as it is');
  await change(db, accountId, id, { status: 'disabled' });
  await settle(say('gone', 'https://new.test/', 1));
  t.match(await get(db, accountId, id), { disabledReason: null }, 'its owner has switched it off, and nothing else');
});

t.test('a delivery that is about to be sent is not sent once more by hand', async (t) => {
  const scene = await openScene(t);
  const { id, accountId } = await scene.endpoint('https://a.test/');
  await scene.emit(accountId, 'email.sent');
  const before = await scene.deliveries(id);
  t.match(before, [{ jobId: String }]);
  await retry(scene.db, scene.queue, accountId, before[0]?.id ?? '');
  t.strictSame(await scene.deliveries(id), before);
});

t.test('a secret is not lost to an error after it was made', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const keyring = new Keyring(Buffer.alloc(32));
  const input = { url: 'https://one.test/', events: ['email.sent' as const] };
  /** Prisma returns bytes that are not a Buffer. */
  const plain = (row: object) =>
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
    ]);
  const { webhook, secret } = await create(withoutReads(db, 'webhook'), accountId, input, keyring);
  t.same(plain(webhook), plain(await get(db, accountId, webhook.id)));
  t.equal(openSecret(keyring, webhook.id, webhook.secret), secret);
  const rotated = await rotateSecret(withoutReads(db, 'webhook', 1), accountId, webhook.id, keyring);
  t.same(plain(rotated.webhook), plain(await get(db, accountId, webhook.id)));
  t.equal(openSecret(keyring, webhook.id, rotated.webhook.secret), rotated.secret);
});

t.test('a rotation concerns one endpoint, and its old secret stays until its day is over', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const keyring = new Keyring(Buffer.alloc(32));
  const make = () => create(db, accountId, { url: 'https://one.test/', events: ['email.sent'] }, keyring);
  const [one, other] = [await make(), await make()];
  const rotated = await rotateSecret(db, accountId, one.webhook.id, keyring);
  t.equal(rotated.webhook.id, one.webhook.id);
  await forgetOldSecrets(db);
  const [now, untouched] = [await get(db, accountId, one.webhook.id), await get(db, accountId, other.webhook.id)];
  t.ok(now.previousSecret);
  t.equal(now.previousSecret && openSecret(keyring, now.id, now.previousSecret), one.secret);
  t.equal(openSecret(keyring, untouched.id, untouched.secret), other.secret);
  t.equal(untouched.previousSecret, null);
});
