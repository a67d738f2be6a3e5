import t from 'tap';
import * as calls from '../../src/core/webhooks/webhook-calls.ts';
import { replay, retry } from '../../src/core/webhooks/webhook-deliveries.ts';
import * as lines from '../../src/core/webhooks/webhook-lines.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { newId } from '../../src/ids.ts';
import { untilOneWaits } from '../support/locks.ts';
import { openScene } from '../webhooks/scene.ts';

const url = 'http://127.0.0.1:1024/';
const days = (count: number) => new Date(Date.now() - count * 86_400_000);

type Verdict = calls.MadeCall['endpoint'];

/** An outcome whose call began at this time. */
function outcome(
  claim: calls.Claim,
  status: 'succeeded' | 'failed' | 'pending',
  { at = new Date(), attemptCount = 1, endpoint = 'unknown' as Verdict, to = url, body = null as string | null } = {},
): calls.CallOutcome {
  const attempt = { at, responseStatus: null, responseBody: body, error: null, durationMs: 1 };
  const made = { attempt, attemptCount, endpoint, url: to, timesEnabled: 0 };
  return status === 'pending'
    ? { claim, made, status, nextAttemptAt: new Date(Date.now() + 60_000), error: null }
    : { claim, made, status, nextAttemptAt: null, error: null };
}

t.test('calls of nodes that are late', async (t) => {
  const scene = await openScene(t);
  const { db, queue } = scene;
  const take = async () => {
    await lines.wakeDue(db, queue);
    const claims = await db.transaction(async (tx) => calls.claim(tx, newId(), await queue.webhooks.take(tx, 100, [])));
    return claims[0] as calls.Claim;
  };
  const takeFromDead = async () => {
    await lines.sweep(db, null, 100);
    return take();
  };
  const settle = (...outcomes: calls.CallOutcome[]) => db.transaction((tx) => calls.settle(tx, outcomes));
  const only = async (webhookId: string) => (await scene.deliveries(webhookId))[0];

  for (const asked of ['for it', 'for all of that time'])
    t.test(`a success from before its owner asked again, ${asked}, does not end the new try`, async (t) => {
      const { id, accountId } = await scene.endpoint(url);
      await scene.emit(accountId, 'email.sent');
      const frozen = await take();
      const quick = await takeFromDead();
      const first = outcome(quick, 'succeeded', { at: new Date(Date.now() - 1_000) });
      const late = outcome(frozen, 'succeeded', { at: new Date(Date.now() - 30_000) });
      await settle(first);
      await settle(late);
      t.match(await only(id), { status: 'succeeded', attempts: { length: 1 } }, 'it was over already');

      if (asked === 'for it') await retry(db, queue, accountId, quick.deliveryId);
      else await replay(db, accountId, id, { since: days(1), until: new Date(Date.now() + 1_000) });
      // The second is one whose record is repeated, as the answer to its commit was lost.
      for (const before of [late, first]) await settle(before);
      t.match(await only(id), { status: 'pending', attemptCount: 0, attempts: { length: 1 }, nextAttemptAt: Date });
      const next = await take();
      t.equal(next?.deliveryId, quick.deliveryId);
      await settle(outcome(next, 'pending'));
      for (const before of [late, first]) await settle(before);
      t.match(await only(id), { status: 'pending', attemptCount: 1, attempts: { length: 2 }, nextAttemptAt: Date });

      await db.query({
        // A time is kept to the nearest millisecond: now could still be ahead.
        text: `UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 ms' WHERE webhook_id = $1`,
        values: [id],
      });
      const lateAgain = await take();
      await takeFromDead();
      await settle(outcome(lateAgain, 'succeeded', { attemptCount: 2 }));
      t.match(await only(id), { status: 'succeeded', attemptCount: 2, attempts: { length: 3 }, jobId: null });
    });

  t.test('nor one from between two tries before that, once there was a new one', async (t) => {
    const { id, accountId } = await scene.endpoint(url);
    await scene.emit(accountId, 'email.sent');
    const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000);
    await settle(outcome(await take(), 'pending', { at: ago(60) }));
    await db.query({
      text: `UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 ms' WHERE webhook_id = $1`,
      values: [id],
    });
    const frozen = await take();
    await settle(outcome(await takeFromDead(), 'failed', { at: ago(30), attemptCount: 2 }));
    await retry(db, queue, accountId, frozen.deliveryId);
    await settle(outcome(await take(), 'pending'));
    t.match(await only(id), { status: 'pending', attemptCount: 1, attempts: { length: 3 } });
    await settle(outcome(frozen, 'succeeded', { at: ago(40) }));
    t.match(await only(id), { status: 'pending', attempts: { length: 3 }, nextAttemptAt: Date });
  });

  t.test('what a node had taken before says nothing about what it has taken anew, unless it succeeded', async (t) => {
    const { id, accountId } = await scene.endpoint(url);
    await scene.emit(accountId, 'email.sent');
    const old = await take();
    const claim = { ...(await takeFromDead()), nodeId: old.nodeId };
    await db.query({
      text: 'UPDATE webhook_deliveries SET claimed_by = $2 WHERE webhook_id = $1',
      values: [id, old.nodeId],
    });
    for (const status of ['pending', 'failed'] as const) {
      await settle(outcome(old, status));
      t.match(await only(id), {
        status: 'pending',
        claimedBy: old.nodeId,
        jobId: claim.jobId,
        attempts: { length: 0 },
      });
    }
    await settle(outcome(old, 'succeeded', { body: 'with an address' }));
    t.match(await only(id), { status: 'succeeded', jobId: null, attempts: [{ response_body: null }] });
  });

  for (const order of ['before', 'after'])
    t.test(`a late success counts if it is recorded at once with the next try of another, ${order} it`, async (t) => {
      const { id, accountId } = await scene.endpoint(url);
      await scene.emit(accountId, 'email.sent');
      const [old, holder] = [await take(), await takeFromDead()];
      const both = [outcome(old, 'succeeded', { body: 'with an address' }), outcome(holder, 'pending')];
      await settle(...(order === 'before' ? both : both.toReversed()));
      t.match(await only(id), { status: 'succeeded', jobId: null, attempts: [{ response_body: null }] });

      await retry(db, queue, accountId, holder.deliveryId);
      const stale = outcome(old, 'succeeded', { at: new Date(Date.now() - 30_000) });
      const again = [stale, outcome(await take(), 'pending')];
      await settle(...(order === 'before' ? again : again.toReversed()));
      t.match(
        await only(id),
        { status: 'pending', attemptCount: 1, jobId: null, claimedBy: null },
        'but not a stale one',
      );

      const last = await scene.endpoint(url);
      await scene.emit(last.accountId, 'email.sent');
      const ending = [outcome(await take(), 'succeeded'), outcome(await takeFromDead(), 'failed')];
      await settle(...(order === 'before' ? ending : ending.toReversed()));
      t.match(await only(last.id), { status: 'succeeded', attempts: { length: 1 } }, 'even if that was the last try');
    });

  t.test('what a node gives back is left alone once it is taken anew, by the same node', async (t) => {
    const { id, accountId } = await scene.endpoint(url);
    await scene.emit(accountId, 'email.sent');
    const old = await take();
    const claim = await takeFromDead();
    await db.query({
      text: 'UPDATE webhook_deliveries SET claimed_by = $2 WHERE webhook_id = $1',
      values: [id, old.nodeId],
    });
    await calls.release(db, [old]);
    t.match(await only(id), { claimedBy: old.nodeId, jobId: claim.jobId });
    await calls.release(db, [{ ...claim, nodeId: newId() }]);
    t.match(await only(id), { claimedBy: old.nodeId, jobId: claim.jobId });
    await calls.release(db, [{ ...claim, nodeId: old.nodeId }]);
    t.match(await only(id), { status: 'pending', claimedBy: null, jobId: null, nextAttemptAt: Date });
  });

  t.test('one of two nodes with the same job gets it', async (t) => {
    const { id, accountId } = await scene.endpoint(url);
    await scene.emit(accountId, 'email.sent');
    const jobs = await db.transaction((tx) => queue.webhooks.take(tx, 100, []));
    const [one, two] = [newId(), newId()];
    const claimFor = (nodeId: string) => db.transaction((tx) => calls.claim(tx, nodeId, jobs));
    let second: Promise<calls.Claim[]> | undefined;
    await db.transaction(async (tx) => {
      t.equal((await calls.claim(tx, one, jobs)).length, 1);
      second = claimFor(two);
      await untilOneWaits(db, 'WITH woken%');
    });
    t.strictSame([await second, await claimFor(two)], [[], []]);
    t.match(await only(id), { claimedBy: one });
  });

  t.test('an answer says nothing about an endpoint that its owner changes in that moment', async (t) => {
    const changes = { url: `url = 'https://new.test/'`, 'times enabled': 'times_enabled = times_enabled + 1' };
    for (const [what, change] of Object.entries(changes)) {
      const { id, accountId } = await scene.endpoint(url);
      await scene.emit(accountId, 'email.sent');
      const claim = await take();
      let settling: Promise<unknown> | undefined;
      await db.transaction(async (tx) => {
        await tx.query({ text: `UPDATE webhooks SET ${change} WHERE id = $1`, values: [id] });
        settling = settle(outcome(claim, 'failed', { endpoint: 'gone' }));
        await untilOneWaits(db, 'UPDATE webhooks w%');
      });
      await settling;
      t.match(await webhooks.get(db, accountId, id), { status: 'enabled', failingSince: null }, what);
      t.match(await only(id), { status: 'failed' });
    }
  });
});

t.test(
  'a node takes what a job stands for now, and of an endpoint that fails only as much as it calls at once',
  async (t) => {
    const scene = await openScene(t);
    const { db, queue } = scene;
    const take = () => db.transaction((tx) => queue.webhooks.take(tx, 100, []));
    const claim = (jobs: Awaited<ReturnType<typeof take>>) => db.transaction((tx) => calls.claim(tx, newId(), jobs));
    const { id, accountId } = await scene.endpoint(url);
    for (let made = 0; made < 6; made += 1) await scene.emit(accountId, 'email.sent');
    const former = await take();
    t.equal(former.length, 6);
    await lines.sweep(db, null, 100);
    await lines.wakeDue(db, queue);
    t.strictSame(await claim(former), [], 'they have other jobs by now');
    const taken = await scene.deliveries(id);
    t.strictSame(
      [...new Set(taken.map(({ claimedBy }) => claimedBy))],
      [null],
      'nobody would make a call that is held in vain',
    );

    await db.prisma.webhook.update({ where: { id }, data: { failingSince: days(1) } });
    const claimed = await claim(await take());
    t.equal(claimed.length, 4);
    t.strictSame(
      (await scene.deliveries(id)).map(({ claimedBy, jobId, nextAttemptAt }) => [
        claimedBy,
        jobId,
        nextAttemptAt !== null,
      ]),
      taken.map(({ id: deliveryId }) => {
        const held = claimed.find((each) => each.deliveryId === deliveryId);
        return [held?.nodeId ?? null, held?.jobId ?? null, true];
      }),
    );
  },
);

t.test('endpoints are judged in one order, whatever that of the calls is', async (t) => {
  const { db, endpoint } = await openScene(t);
  const two = [await endpoint(url), await endpoint(url)].sort((a, b) => (a.id < b.id ? -1 : 1));
  const failures = two.map(({ id, accountId }) => {
    const made = { nodeId: newId(), jobId: newId(), deliveryId: newId(), webhookId: id, accountId, failing: false };
    return outcome(made, 'pending', { endpoint: 'fails' });
  });
  for (const order of [failures, failures.toReversed()]) {
    let settling: Promise<unknown> | undefined;
    await db.transaction(async (tx) => {
      const touch = (n: number) =>
        tx.query({ text: 'UPDATE webhooks SET url = url WHERE id = $1', values: [two[n]?.id] });
      await touch(0);
      settling = db.transaction((tx) => calls.settle(tx, order));
      await untilOneWaits(db, 'UPDATE webhooks w%');
      await tx.query({ text: `SET LOCAL lock_timeout = '100ms'` });
      await touch(1);
    });
    await t.resolves(settling ?? Promise.reject(new Error('nothing was settled')));
  }
});

t.test('what calls say about their endpoint', async (t) => {
  const scene = await openScene(t);
  const { db } = scene;
  const { id: webhookId, accountId } = await scene.endpoint(url, { isNew: true });
  const other = await scene.endpoint(url);
  const claim = (deliveryId: string) => ({
    nodeId: newId(),
    jobId: newId(),
    deliveryId,
    webhookId,
    accountId,
    failing: true,
  });
  const settle = (...outcomes: calls.CallOutcome[]) => db.transaction((tx) => calls.settle(tx, outcomes));
  /** One that was made so many hours ago is given up; the clock of the node that made it is days ahead, or behind. */
  const givenUp = async (hours = 25, clock = days(-3)) => {
    const made = claim(newId(clock));
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, created_at, next_attempt_at, job_id, claimed_by)
             VALUES ($1, $2, $3, 'email.sent', '{}', now() - make_interval(hours => $4), now(), $5, $6)`,
      values: [made.deliveryId, accountId, webhookId, hours, made.jobId, made.nodeId],
    });
    return outcome(made, 'failed', { endpoint: 'fails' });
  };
  const works = () => outcome(claim(newId()), 'succeeded', { endpoint: 'works' });
  const failFor = (count: number) =>
    db.prisma.webhook.update({ where: { id: webhookId }, data: { failingSince: days(count) } });

  t.test('one that answers a call is not disabled with those given up at the same time', async (t) => {
    await failFor(6);
    await settle(await givenUp(), works());
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'enabled', failingSince: null, answeredAt: Date });
  });

  t.test('one that keeps answering is not written each time', async (t) => {
    const { answeredAt } = await webhooks.get(db, accountId, webhookId);
    t.same(await settle(works()), { failing: [], answering: false });
    t.same((await webhooks.get(db, accountId, webhookId)).answeredAt, answeredAt);
  });

  t.test('one of which nothing was learned is as it was', async (t) => {
    const before = await webhooks.get(db, accountId, webhookId);
    const unknown = [outcome(claim(newId()), 'pending'), outcome(claim(newId()), 'failed')];
    t.same(await settle(...unknown), { failing: [], answering: false });
    t.same(await webhooks.get(db, accountId, webhookId), before);
    t.same(before.failingSince, null);
  });

  t.test('or after five days without an hour in which no call failed, even if none is given up', async (t) => {
    const fails = () => outcome(claim(newId()), 'pending', { endpoint: 'fails' });
    const noted = (failedAt: Date | null, steadyFailureSince: Date | null) =>
      db.prisma.webhook.update({ where: { id: webhookId }, data: { failedAt, steadyFailureSince } });
    const status = async () => (await webhooks.get(db, accountId, webhookId)).status;
    await settle(fails(), fails());
    await failFor(6);
    await settle(fails());
    t.equal(await status(), 'enabled', 'it has failed steadily since now');
    await noted(days(5.2), days(5.9));
    await settle(fails());
    await settle(fails());
    t.equal(await status(), 'enabled', 'no calls were made for five days');
    // A node of the previous release has seen it work.
    await db.prisma.webhook.update({ where: { id: webhookId }, data: { failingSince: null } });
    await noted(days(0.01), days(5.1));
    await settle(fails());
    await settle(fails());
    t.equal(await status(), 'enabled');
    await failFor(6);
    const since = days(4.9);
    await noted(days(0.01), since);
    await settle(fails());
    t.equal(await status(), 'enabled');
    t.same((await db.prisma.webhook.findUnique({ where: { id: webhookId } }))?.steadyFailureSince, since);
    await noted(days(0.01), days(5.1));
    await settle(fails(), works());
    t.equal(await status(), 'enabled');
    await failFor(6);
    await noted(days(0.01), days(5.1));
    await settle(fails());
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'disabled', disabledReason: /5 days/ });
    // As if it had not been; enabling it anew would make calls of before say nothing.
    await db.prisma.webhook.update({ where: { id: webhookId }, data: { status: 'enabled', disabledReason: null } });
    await noted(null, null);
  });

  t.test('it is disabled after five days, and no other', async (t) => {
    await failFor(4.9);
    await settle(await givenUp());
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'enabled' });
    await failFor(5.1);
    await settle(await givenUp(23, days(3)));
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'enabled' }, 'what was given up was new');
    await settle({ ...(await givenUp()), claim: claim(newId()) });
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'enabled' }, 'or is not given up');
    await settle(await givenUp());
    t.match(await webhooks.get(db, accountId, webhookId), { status: 'disabled', disabledReason: /5 days/ });
    t.match(await webhooks.get(db, other.accountId, other.id), { status: 'enabled', failingSince: null });
  });
});
