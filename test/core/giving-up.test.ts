import t, { type Test } from 'tap';
import { findWaiting, giveUp } from '../../src/core/destinations/giving-up.ts';
import { claim, release } from '../../src/core/recipients/recipients.ts';
import { heldNote, pausedUntil, pauseOf } from '../../src/core/recipients/waiting-for.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildSender, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { scheduleMany } from '../support/scheduled.ts';

const inAnHour = new Date(Date.now() + 3_600_000);
/** Long enough on any machine. */
const aMinute = 60_000;

/** Two accounts, each with 100 recipients at `gone.test` and 100 at `fine.test`, all but `r3` tried once. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  for (const sender of [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))])
    for (const to of ['gone.test', 'fine.test']) await scheduleMany(db, sender, { emails: 100, to, at: inAnHour });
  const change = (set: string, where: string, ...values: unknown[]) =>
    db.query({ text: `UPDATE recipients SET ${set} WHERE ${where}`, values });
  await change(`attempts = 1, status = 'deferred'`, `address NOT LIKE 'r3@%'`);
  return {
    db,
    queue,
    change,
    async count(where: string, table = 'recipients') {
      const [row] = await db.query<{ n: number }>({ text: `SELECT count(*)::int AS n FROM ${table} WHERE ${where}` });
      return row?.n;
    },
  };
}

t.test('all that waits for a domain fails, whoever sent it, and nothing else does', async (t) => {
  const { db, queue, change, count } = await prepare(t);
  const at = (address: string) => `address = '${address}@gone.test'`;
  await change('claimed_by = $1, job_id = $1', at('r1'), newId());
  await change('waiting_for = $1, next_attempt_at = $2', at('r2'), heldNote, pausedUntil);
  await change('waiting_for = $1, next_attempt_at = $2', at('r4'), pauseOf('gone.test'), pausedUntil);
  await change('job_id = $1, next_attempt_at = now()', at('r5'), newId());
  await change('claimed_by = $1, job_id = $1', `address = 'r6@fine.test'`, newId());
  await change('waiting_for = $1, next_attempt_at = $2', `address = 'r7@fine.test'`, heldNote, pausedUntil);
  t.strictSame(await findWaiting(db, 'Gone.TEST'), { domain: 'gone.test', waiting: 194, inHand: 2, held: 2 });
  const given = await giveUp(db, queue, 'Gone.TEST', 'the domain is gone', { size: 30, ms: aMinute });
  t.strictSame(given, { domain: 'gone.test', stopped: 194, inHand: 2, held: 2, rest: false });
  t.equal(await count(`status = 'failed' AND destination = 'gone.test' AND settled_at IS NOT NULL`), 194);
  t.equal(await count(`status = 'failed' AND pending = 0`, 'emails'), 194);
  t.equal(await count(`status = 'failed' AND destination <> 'gone.test'`), 0);
  t.equal(
    await count(
      `last_response = 'stopped before it was delivered, as an operator decided for all mail to gone.test: the domain is gone'`,
    ),
    194,
  );
  t.match(await giveUp(db, queue, 'gone.test', null), { stopped: 0, rest: false });
});

t.test('what one call has no time for is left to the next', async (t) => {
  const { db, queue, count } = await prepare(t);
  t.match(await giveUp(db, queue, 'gone.test', null, { size: 50, ms: 0 }), { stopped: 50, rest: true });
  t.equal(
    await count(`last_response = 'stopped before it was delivered, as an operator decided for all mail to gone.test'`),
    50,
  );
  let calls = 1;
  while ((await giveUp(db, queue, 'gone.test', null, { size: 50, ms: 0 })).rest) calls += 1;
  t.ok(calls >= 3 && calls <= 4, `${calls}`);
  t.equal(await count(`status = 'failed'`), 198, 'all but the scheduled ones');
});

t.test('what is left for the next call is not read to count what is left alone', async (t) => {
  const { db, queue, change } = await prepare(t);
  await change('claimed_by = $1, job_id = $1', `address = 'r1@gone.test'`, newId());
  await change('waiting_for = $1, next_attempt_at = $2', `address = 'r2@gone.test'`, heldNote, pausedUntil);
  await db.query({ text: 'ANALYZE recipients' });
  const readBy = async (tx: Sql) => {
    const [read] = await tx.query<{ rows: number }>({
      text: `SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE 'recipients_2%'`,
    });
    return read?.rows ?? Number.NaN;
  };
  let rows = 0;
  const watched: Database = {
    ...db,
    query: (statement) =>
      db.transaction(async (tx) => {
        const before = await readBy(tx);
        const found = await tx.query<never>(statement);
        rows += (await readBy(tx)) - before;
        return found;
      }),
  };
  const given = await giveUp(watched, queue, 'gone.test', null, { size: 10, ms: 0 });
  t.strictSame(given, { domain: 'gone.test', stopped: 10, inHand: 2, held: 2, rest: true });
  t.ok(rows > 0 && rows < 10, `${rows} rows`);
});

t.test('the name of a site is not taken for its domains', async (t) => {
  const { db, queue } = await openQueue(t);
  for (const name of ['Google', 'no such', '', 'a\0b.test']) {
    await t.rejects(giveUp(db, queue, name, null), { message: 'not found' });
    await t.rejects(findWaiting(db, name), { message: 'not found' });
  }
});

t.test('a recipient that a node claims meanwhile is left to it', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@gone.test'])]);
  let giving: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    await claim(tx, newId(), await queue.take(tx, 100, []));
    giving = giveUp(db, queue, 'gone.test', null);
    await untilOneWaits(db);
  });
  t.match(await giving, { stopped: 0, inHand: 1, rest: false });
});

t.test('a recipient that a node gives back meanwhile is given up', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@gone.test'])]);
  const claims = await db.transaction(async (tx) => claim(tx, newId(), await queue.take(tx, 100, [])));
  const returning: Database = {
    ...db,
    query: async (statement) => {
      const rows = await db.query(statement);
      if (statement.text.includes('left_alone')) await release(db, claims);
      return rows as never;
    },
  };
  t.match(await giveUp(returning, queue, 'gone.test', null), { stopped: 1, rest: false });
});

t.test('recipients are locked in the order in which nodes settle them, however the statement is planned', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@gone.test', 'b@gone.test'])]);
  const touch = (tx: Sql, position: number) =>
    tx.query({ text: 'UPDATE recipients SET crashes = crashes WHERE position = $1', values: [position] });
  // Its row comes after the other one from now on.
  await touch(db, 0);
  const byPlace: Database = {
    ...db,
    transaction: (work) =>
      db.transaction(async (tx) => {
        for (const plan of ['nestloop', 'mergejoin', 'indexscan', 'bitmapscan'])
          await tx.query({ text: `SET LOCAL enable_${plan} = off` });
        return work(tx);
      }),
  };
  let giving: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    await touch(tx, 0);
    giving = giveUp(byPlace, queue, 'gone.test', null);
    await untilOneWaits(db);
    await tx.query({ text: `SET LOCAL lock_timeout = '100ms'` });
    await touch(tx, 1);
  });
  t.match(await giving, { stopped: 2, rest: false });
});

t.test('endpoints hear of it at once, if there are any', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  let woken = 0;
  queue.webhooks.onWake(() => {
    woken += 1;
  });
  const giveUpOne = async () => {
    await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@gone.test'])]);
    t.match(await giveUp(db, queue, 'gone.test', null), { stopped: 1 });
    return woken;
  };
  t.equal(await giveUpOne(), 0);
  const endpoint = { url: 'https://example.test/hook', events: ['email.failed' as const] };
  await webhooks.create(db, account.id, endpoint, new Keyring(Buffer.alloc(32)));
  t.equal(await giveUpOne(), 1);
});
