import t, { type Test } from 'tap';
import { cancel } from '../../src/core/orders/scheduling.ts';
import { stop } from '../../src/core/orders/stopping.ts';
import { claim } from '../../src/core/recipients/recipients.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';

/** An email to two destinations that waits in the queue. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const sender = holderOf(account);
  const [accepted] = await accept(db, queue, sender, [requestOf(`s@${domain}`, ['a@a.test', 'b@b.test'])]);
  if (!accepted || !('email' in accepted)) throw new Error('it was refused');
  return { db, queue, sender, id: accepted.email.id };
}

t.test('a recipient that a node claims during the stop counts as in hand', async (t) => {
  const { db, queue, sender, id } = await prepare(t);
  let stopping: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    const jobs = await queue.take(tx, 100, []);
    await claim(
      tx,
      newId(),
      jobs.filter(({ destination }) => destination === 'a.test'),
    );
    stopping = stop(db, queue, sender, id);
    await untilOneWaits(db);
  });
  t.match(await stopping, { stopped: 1, inHand: 1, email: { status: 'queued', pending: 1 } });
  t.match(await stop(db, queue, sender, id).catch((error: unknown) => error), {
    detail: /being delivered at this moment/,
  });
});

t.test('if nodes claim all recipients meanwhile, the email is said to be on its way', async (t) => {
  const { db, queue, sender, id } = await prepare(t);
  let stopping: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    await claim(tx, newId(), await queue.take(tx, 100, []));
    stopping = stop(db, queue, sender, id).catch((error: unknown) => error);
    await untilOneWaits(db);
  });
  t.match(await stopping, { detail: /being delivered at this moment/ });
});

t.test('recipients are locked in the order in which they are settled', async (t) => {
  const { db, queue, sender, id } = await prepare(t);
  // Sooner than PostgreSQL detects a deadlock.
  const lock = (tx: Sql, position: number) =>
    tx.query({
      text: `SET LOCAL lock_timeout = '200ms'; SELECT FROM recipients WHERE email_id = '${id}' AND position = ${position} FOR NO KEY UPDATE`,
    });
  // The first row lies behind the second, as after an update.
  await db.query({ text: 'UPDATE recipients SET job_id = gen_random_uuid() WHERE position = 0' });
  let stopping: Promise<unknown> = Promise.resolve();
  // Read in the order on disk, as the planner may choose to.
  const bare: Database = {
    ...db,
    transaction: (work) =>
      db.transaction(async (tx) => {
        await tx.query({ text: 'SET LOCAL enable_indexscan = off' });
        return work(tx);
      }),
  };
  await db.transaction(async (tx) => {
    await lock(tx, 0);
    stopping = stop(bare, queue, sender, id);
    await untilOneWaits(db);
    await lock(tx, 1);
  });
  t.match(await stopping, { stopped: 2, inHand: 0, email: { status: 'failed', pending: 0 } });
});

t.test('an email that is moved to another time meanwhile counts as scheduled', async (t) => {
  const { db, queue, sender, id } = await prepare(t);
  const changeTo = async (tx: Sql, at: string) => {
    await tx.query({
      text: `UPDATE recipients SET job_id = NULL, next_attempt_at = ${at} WHERE email_id = $1`,
      values: [id],
    });
    await tx.query({ text: `UPDATE emails SET scheduled_at = ${at} WHERE id = $1`, values: [id] });
  };
  // It became due after the call that moves it had looked.
  await changeTo(db, `now() - interval '1 second'`);
  let stopping: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    await changeTo(tx, `now() + interval '1 hour'`);
    stopping = stop(db, queue, sender, id).catch((error: unknown) => error);
    await untilOneWaits(db);
  });
  t.match(await stopping, { detail: /waits for its scheduled time/ });
});

t.test('an email that was canceled before its scheduled time is not said to wait for it', async (t) => {
  const { db, queue, sender, id } = await prepare(t);
  const at = `now() + interval '1 hour'`;
  await db.query({ text: `UPDATE recipients SET job_id = NULL, next_attempt_at = ${at}` });
  await db.query({ text: `UPDATE emails SET scheduled_at = ${at}` });
  await cancel(db, sender, id);
  t.match(await stop(db, queue, sender, id).catch((error: unknown) => error), {
    detail: 'no recipient of the email is waiting any more',
  });
});
