import { randomUUID } from 'node:crypto';
import t from 'tap';
import * as plans from '../../src/core/accounts/plans.ts';
import type { Sql } from '../../src/db/client.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { dayLasting } from '../support/midnight.ts';

t.test('QUE-12: calls with idempotency keys are charged without deadlocks', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  await db.prisma.account.update({ where: { id }, data: { plan: 'pro' } });
  const takeKey = (tx: Sql) =>
    tx.query({
      text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, expires_at) VALUES ($1, $2, '', now())`,
      values: [id, randomUUID()],
    });
  const taken = Promise.withResolvers<void>();
  const charged = Promise.withResolvers<void>();
  const other = db.transaction(async (tx) => {
    await takeKey(tx);
    taken.resolve();
    await charged.promise;
    return plans.charge(tx, id, 1);
  });
  await taken.promise;
  // The key's row references the account's row, and so locks it for as long as the other call takes.
  const first = db.transaction(async (tx) => {
    await tx.query({ text: `SET LOCAL lock_timeout = '3s'` });
    await takeKey(tx);
    return plans.charge(tx, id, 1);
  });
  t.match(await first.finally(charged.resolve), { granted: 1 });
  t.match(await other, { granted: 1 });
  const { usageMonthCount } = await db.prisma.account.findUniqueOrThrow({ where: { id } });
  t.equal(usageMonthCount, 2);
});

t.test('a call that began before midnight and is charged after it counts for the new day and month', async (t) => {
  await dayLasting(10_000);
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  // Today is the day before: a call that began later has been charged already.
  await db.query({
    text: `UPDATE accounts SET plan = 'free', usage_day = d.day, usage_day_count = 98,
                  usage_month = date_trunc('month', d.day::timestamp), usage_month_count = 98
             FROM (SELECT (now() AT TIME ZONE 'UTC')::date + 1 AS day) d WHERE id = $1`,
    values: [id],
  });
  const before = await db.prisma.account.findUniqueOrThrow({ where: { id } });
  const charged = await db.transaction((tx) => plans.charge(tx, id, 3));
  const [{ tomorrow } = {}] = await db.query<{ tomorrow: Date }>({
    text: `SELECT usage_day::timestamp AT TIME ZONE 'UTC' AS tomorrow FROM accounts WHERE id = $1`,
    values: [id],
  });
  t.same(charged, { granted: 2, onlyDayIsFull: true, now: tomorrow });
  const after = await db.prisma.account.findUniqueOrThrow({ where: { id } });
  t.same(after, { ...before, usageDayCount: 100, usageMonthCount: 100 });
});

t.test('an account on a plan that this release does not know has the limits of the smallest', async (t) => {
  await dayLasting(10_000);
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  // As after an upgrade was undone, or while only some nodes have the next release.
  await db.query({
    text: `UPDATE accounts SET plan = 'of a later release', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 98,
                  usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = 98 WHERE id = $1`,
    values: [id],
  });
  t.match(await db.transaction((tx) => plans.charge(tx, id, 3)), { granted: 2, onlyDayIsFull: true });
});

t.test('what one account sends is counted for no other, and paid with the credit of no other', async (t) => {
  await dayLasting(10_000);
  const db = await openDatabase(t);
  const [own, other] = [await buildAccount(db), await buildAccount(db)];
  await db.query({
    text: `UPDATE accounts SET plan = 'pro', credit = 10, usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 7,
                  usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = 50000`,
  });
  const read = () => db.prisma.account.findUniqueOrThrow({ where: { id: other.id } });
  const before = await read();
  t.match(await db.transaction((tx) => plans.charge(tx, own.id, 3)), { granted: 3 });
  t.same(await read(), before);
  const { usageMonthCount, credit } = await db.prisma.account.findUniqueOrThrow({ where: { id: own.id } });
  t.strictSame([usageMonthCount, String(credit)], [50_003, '8.5']);
});

t.test('of two calls at once that each add the last domain of a plan, one waits, and is refused', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  await db.prisma.account.update({ where: { id }, data: { plan: 'free' } });
  const late = Promise.withResolvers<boolean>();
  const first = await db.transaction(async (tx) => {
    const allowed = await plans.allowsDomain(tx, id);
    late.resolve(db.transaction((other) => plans.allowsDomain(other, id)));
    await Promise.race([late.promise, untilOneWaits(db)]);
    await tx.query({
      text: `INSERT INTO domains (id, account_id, domain, verification_token, dkim_selector, dkim_private_key, dkim_public_key)
             VALUES ($1, $2, 'last.test', '', 'sw', '', '')`,
      values: [randomUUID(), id],
    });
    return allowed;
  });
  t.strictSame([first, await late.promise], [true, false]);
});
