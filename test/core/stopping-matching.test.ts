import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { SendRequest } from '../../src/core/emails/draft.ts';
import { type Stopping, stopMatching, type Wanted } from '../../src/core/orders/stopping-matching.ts';
import { claim } from '../../src/core/recipients/recipients.ts';
import { stoppedNote } from '../../src/core/recipients/settlement.ts';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';

const inAnHour = new Date(Date.now() + 3_600_000);
/** Long enough on any machine. */
const aMinute = 60_000;

const anything: Wanted = {
  type: null,
  tag: null,
  from: null,
  to: null,
  domain: null,
  q: null,
  apiKeyId: null,
  createdAfter: null,
  createdBefore: null,
};

/** Two accounts that can send. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  const [ours, theirs] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
  type Account = typeof ours;
  return {
    db,
    queue,
    ours,
    theirs,
    /** @returns the ids of emails with these recipients each */
    async send(sender: Account, to: string[], fields: Partial<SendRequest>[]): Promise<string[]> {
      const requests = fields.map((some) => requestOf(sender.from, to, some));
      const accepted = await accept(db, queue, holderOf(sender.account), requests);
      return accepted.map((one) => ('email' in one ? one.email.id : ''));
    },
    stop: (wanted: Partial<Wanted>, stopping: Stopping = { ms: aMinute }) =>
      stopMatching(db, queue, ours.account.id, { ...anything, ...wanted }, stoppedNote, stopping),
    change: (set: string, id: string | undefined, ...values: unknown[]) =>
      db.query({ text: `UPDATE recipients SET ${set} WHERE email_id = $1`, values: [id, ...values] }),
    async statuses(ids: string[]): Promise<string[]> {
      const rows = await db.query<{ status: string }>({
        text: `SELECT e.status || ':' || (SELECT string_agg(r.status::text, ',' ORDER BY r.position) FROM recipients r WHERE r.email_id = e.id) AS status
                 FROM emails e WHERE e.id = ANY($1) ORDER BY array_position($1, e.id)`,
        values: [ids],
      });
      return rows.map(({ status }) => status);
    },
  };
}

t.test('all waiting mail of an account that matches is stopped, and nothing else', async (t) => {
  const { db, ours, theirs, send, stop, change, statuses } = await prepare(t);
  const news = { tags: ['news'] };
  const both = ['a@b.test', 'c@d.test'];
  const [queued, deferred, inHand, held, half] = await send(ours, both, [news, news, news, news, news]);
  const [other] = await send(ours, both, [{ tags: ['receipt'] }]);
  const [later] = await send(ours, both, [{ ...news, scheduledAt: inAnHour }]);
  const [othersLater] = await send(ours, both, [{ scheduledAt: inAnHour }]);
  const [foreign, foreignLater] = await send(theirs, both, [news, { ...news, scheduledAt: inAnHour }]);
  await change(`status = 'deferred', attempts = 1, next_attempt_at = $2, job_id = NULL`, deferred, inAnHour);
  await change('claimed_by = $2', inHand, newId());
  await change('waiting_for = $2, next_attempt_at = $3, job_id = NULL', held, heldNote, pausedUntil);
  await change('claimed_by = CASE position WHEN 0 THEN $2::uuid END', half, newId());
  const told = { stopped: 0, canceled: 0 };
  const stopping: Stopping = {
    ms: aMinute,
    onStopped: (some) => (told.stopped += some),
    onCanceled: (some) => (told.canceled += some),
  };
  const result = await stop({ tag: 'news' }, stopping);
  t.strictSame(result, { stopped: 5, canceled: 1, inHand: 3, held: 2, rest: false });
  t.strictSame(told, { stopped: 5, canceled: 1 });
  const ids = [queued, deferred, inHand, held, half, other, later, othersLater, foreign, foreignLater].map(String);
  const [waits, failed] = ['queued:queued,queued', 'failed:failed,failed'];
  const canceled = 'canceled:canceled,canceled';
  t.strictSame(await statuses(ids), [
    failed,
    failed,
    waits,
    waits,
    'queued:queued,failed',
    waits,
    canceled,
    waits,
    waits,
    waits,
  ]);
  t.match(await db.prisma.email.findUnique({ where: { id: queued ?? '' } }), { error: stoppedNote, pending: 0 });
  t.strictSame(await stop({ tag: 'news' }), { stopped: 0, canceled: 0, inHand: 3, held: 2, rest: false });
});

t.test('each part of the search narrows what is stopped', async (t) => {
  const { db, ours, send, stop, statuses } = await prepare(t);
  const [first] = await send(ours, ['a@b.test'], [{ subject: 'Red apples', type: 'marketing', tags: ['x'] }]);
  const [second] = await send(ours, ['a@c.test'], [{ subject: 'Green pears' }]);
  const ids = [first, second].map(String);
  const keyOf = (id = '') => db.prisma.email.findUniqueOrThrow({ where: { id } }).then(({ apiKeyId }) => apiKeyId);
  await db.prisma.email.update({ where: { id: second ?? '' }, data: { apiKeyId: newId() } });
  const none: Partial<Wanted>[] = [
    { tag: 'y' },
    { type: 'marketing', tag: 'y' },
    { from: 'nobody@b.test' },
    { to: 'x@b.test' },
    { to: '@d.test' },
    { domain: 'b.test' },
    { q: 'apples green' },
    { apiKeyId: newId() },
    { createdAfter: inAnHour },
    { createdBefore: new Date(Date.now() - 3_600_000) },
  ];
  for (const wanted of none) t.match(await stop(wanted), { stopped: 0, canceled: 0 }, JSON.stringify(wanted));
  t.match(await stop({ apiKeyId: await keyOf(second), to: '@c.test', from: ours.from, q: 'pears' }), { stopped: 1 });
  t.strictSame(await statuses(ids), ['queued:queued', 'failed:failed']);
  t.match(await stop({ domain: ours.domain, type: 'marketing', createdBefore: inAnHour }), { stopped: 1 });
});

t.test('what one call has no time for is left to the next', async (t) => {
  const { ours, send, stop } = await prepare(t);
  const many = (fields: Partial<SendRequest>) => send(ours, ['a@b.test', 'c@b.test'], Array(30).fill(fields));
  await many({ tags: ['news'], scheduledAt: inAnHour });
  await many({ tags: ['news'] });
  await many({ tags: ['other'] });
  const inPieces = { size: 25, ms: 0 };
  const sum = { stopped: 0, canceled: 0 };
  let calls = 0;
  for (let rest = true; rest && calls < 20; calls += 1) {
    const result = await stop({ tag: 'news' }, inPieces);
    t.ok(result.stopped <= 25 && result.canceled <= 25, 'at most one batch of each');
    sum.stopped += result.stopped;
    sum.canceled += result.canceled;
    rest = result.rest;
  }
  t.strictSame(sum, { stopped: 60, canceled: 30 });
  t.ok(calls > 2 && calls < 20, `${calls} calls`);
  await many({ tags: ['more'], scheduledAt: inAnHour });
  const atOnce = await stop({ tag: 'more' }, { size: 25, ms: aMinute });
  t.match(atOnce, { canceled: 30, rest: false }, 'but a call goes on while it has time');
});

t.test(
  'a recipient that a node claims meanwhile is left to it, and a scheduled email whose time comes is not canceled',
  async (t) => {
    const { db, queue, ours, send, stop, statuses } = await prepare(t);
    const [now] = await send(ours, ['a@b.test'], [{ tags: ['news'] }]);
    let stopping: Promise<unknown> = Promise.resolve();
    await db.transaction(async (tx) => {
      await claim(tx, newId(), await queue.take(tx, 100, []));
      stopping = stop({ tag: 'news' });
      await untilOneWaits(db);
    });
    t.match(await stopping, { stopped: 0, inHand: 1, rest: false });
    const [later] = await send(ours, ['a@b.test', 'c@d.test'], [{ tags: ['later'], scheduledAt: inAnHour }]);
    await db.transaction(async (tx) => {
      // As when one of them is made due.
      await tx.query({
        text: 'UPDATE recipients SET job_id = $2, next_attempt_at = now() WHERE email_id = $1 AND position = 1',
        values: [later, newId()],
      });
      stopping = stop({ tag: 'later' });
      await untilOneWaits(db);
    });
    t.match(await stopping, { canceled: 0, rest: false }, 'an email is canceled whole, or not');
    t.strictSame(await statuses([now, later].map(String)), ['queued:queued', 'queued:queued,failed']);
    t.match(await stop({ tag: 'later' }), { stopped: 0, canceled: 1 });
  },
);

t.test('what comes back from a node while a call works is stopped, and so is what comes due meanwhile', async (t) => {
  const { db, ours, send, stop, change, statuses } = await prepare(t);
  const [waiting, inHand] = await send(ours, ['a@b.test'], [{ tags: ['news'] }, { tags: ['news'] }]);
  const soon = new Date(Date.now() + 2_000);
  const [later] = await send(ours, ['a@b.test'], [{ tags: ['news'], scheduledAt: soon }]);
  await change('claimed_by = $2', inHand, newId());
  let stopping: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    // As when another change of many emails has it: the call has begun, and waits here.
    await tx.query({ text: 'SELECT FROM recipients WHERE email_id = $1 FOR UPDATE', values: [waiting] });
    stopping = stop({ tag: 'news' });
    await untilOneWaits(db);
    const back = `claimed_by = NULL, job_id = NULL, status = 'deferred', attempts = 1, next_attempt_at = $2`;
    await change(back, inHand, inAnHour);
    await sleep(soon.getTime() - Date.now() + 200);
  });
  t.match(await stopping, { inHand: 0, rest: false });
  const kept = await statuses([waiting, inHand, later].map(String));
  t.strictSame(kept.slice(0, 2), ['failed:failed', 'failed:failed']);
  t.match(kept[2], /^(canceled:canceled|failed:failed)$/);
});

t.test('a call whose time is over has stopped what it found, though that is less than a batch', async (t) => {
  const { ours, send, stop, change, statuses } = await prepare(t);
  const many = (count: number, tag: string) => send(ours, ['a@b.test'], Array(count).fill({ tags: [tag] }));
  const [inHand] = await many(1, 'news');
  await change('claimed_by = $2', inHand, newId());
  await many(70, 'other');
  const [first] = await many(1, 'news');
  await many(70, 'other');
  const [last] = await many(1, 'news');
  const inPieces = { size: 3, ms: 0 };
  t.match(await stop({ tag: 'news' }, inPieces), { stopped: 1, rest: true }, 'what is in hand ends no call');
  t.strictSame(await statuses([first, last].map(String)), ['failed:failed', 'queued:queued']);
  t.match(await stop({ tag: 'news' }, inPieces), { stopped: 1 });
  t.match(await stop({ tag: 'news' }, inPieces), { stopped: 0, inHand: 1, rest: false });
});
