import { mock } from 'node:test';
import t from 'tap';
import { claim, park } from '../../src/core/recipients/recipients.ts';
import { tooMuchFor } from '../../src/core/recipients/waiting-for.ts';
import { connect } from '../../src/db/client.ts';
import { Overflow, overflowMs } from '../../src/delivery/sites/overflow.ts';
import type { Site } from '../../src/delivery/sites/providers.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';

const site: Site = { name: 'a.test', connections: 20, perMinute: null, perConnection: null };
/** Counted from the beginning of a test: others may have run for minutes before it. */
const times = () => {
  const now = new Date();
  return { now, later: new Date(now.getTime() + 60_000) };
};

t.test(
  'emails parked because there were too many for their site are called back in order, and no other waiting emails are',
  async (t) => {
    const { now, later } = times();
    const { db, queue } = await openQueue(t);
    const account = await buildAccount(db);
    const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
    await accept(
      db,
      queue,
      holderOf(account),
      [0, 1, 2, 3, 4].map((n) => requestOf(`s@${domain}`, [`r${n}@a.test`])),
    );
    const nodeId = newId();
    await buildNode(db, nodeId);
    const claims = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
    const [first, second, third, paused, last] = claims;
    if (!first || !second || !third || !paused || !last) throw new Error('they were not claimed');
    await park(db, [last], later, tooMuchFor(site.name));
    await park(db, [paused], later, 'something else');
    const due = async () =>
      (
        await db.query<{ email_id: string }>({
          text: 'SELECT email_id FROM recipients WHERE next_attempt_at <= now() AND waiting_for IS NULL ORDER BY 1',
        })
      ).map(({ email_id }) => email_id);
    const ids = (some: typeof claims) => some.map(({ emailId }) => emailId).sort();

    const overflow = new Overflow(db);
    t.notOk(overflow.has(site));
    await overflow.park(site, [first, second, third], later);
    t.strictSame(await due(), []);
    overflow.add(site, [paused], later);
    overflow.add(site, [last], now);
    await overflow.callBack(site, 1, now);
    t.strictSame(await due(), ids([first]));
    overflow.forgetDue(now);
    await overflow.callBack(site, 1, now);
    t.strictSame(await due(), ids([first, second]), 'the next one has not been forgotten: it is not due yet');
    t.ok(overflow.has(site));
    t.strictSame(overflow.sites, [site]);
    await overflow.callBack(site, 100, now);
    t.strictSame(
      await due(),
      ids([first, second, third]),
      'neither emails that wait for something else, nor those that are due anyway',
    );
    t.notOk(overflow.has(site));
    await overflow.callBack(site, 100, now);
  },
);

t.test('at most ten thousand are remembered, and there is room for others later', async (t) => {
  const { later } = times();
  const { db } = await openQueue(t);
  const overflow = new Overflow(db);
  const many = (count: number) => Array.from({ length: count }, () => buildClaim());
  const other = { ...site, name: 'b.test' };
  overflow.add(site, many(9_999), later);
  overflow.add(other, many(2), later);
  overflow.add({ ...site, name: 'c.test' }, many(1), later);
  t.strictSame(
    overflow.sites.map(({ name }) => name),
    ['a.test', 'b.test'],
  );
  const now = new Date();
  await overflow.callBack(site, 1, now);
  overflow.add({ ...site, name: 'c.test' }, many(2), later);
  overflow.add({ ...site, name: 'd.test' }, many(1), later);
  t.strictSame(
    overflow.sites.map(({ name }) => name),
    ['a.test', 'b.test', 'c.test'],
    'one was called back, so there was room for one',
  );
  overflow.add(site, many(1), later);
  await overflow.callBack(site, 9_997, now);
  t.ok(overflow.has(site), 'the last one is remembered as well');
  overflow.forgetDue(new Date(later.getTime() + 1));
  t.notOk(overflow.has(other), 'emails that are already due are forgotten');
  overflow.add(other, many(1), later);
  t.ok(overflow.has(other));
});

t.test('nothing is thrown if the database is down', async (t) => {
  const { now, later } = times();
  const db = connect('postgres://nobody@127.0.0.1:1/nothing', silentLog, 1);
  t.teardown(() => db.close());
  const overflow = new Overflow(db);
  overflow.add(site, [buildClaim()], later);
  await t.resolves(overflow.callBack(site, 1, now));
});

t.test(
  'the end of a line is parked for as long as the line takes, within bounds, and not all for the same time',
  async (t) => {
    const random = mock.method(Math, 'random', () => 0);
    t.teardown(() => random.mock.restore());
    const lines = [0, 5_000, 30_000, 60_000, 3_600_000];
    t.strictSame(lines.map(overflowMs), [5_000, 5_000, 30_000, 60_000, 60_000]);
    random.mock.mockImplementation(() => 1);
    t.strictSame(lines.map(overflowMs), [10_000, 10_000, 60_000, 120_000, 120_000]);
  },
);
