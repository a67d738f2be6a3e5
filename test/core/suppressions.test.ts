import t from 'tap';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import { ApiError } from '../../src/errors.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

t.test('adding and removing an address at the same time: both calls are answered', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  const unforeseen: unknown[] = [];
  for (let round = 0; round < 100; round += 1) {
    const both = Array.from({ length: 3 }, () => [
      suppressions.add(db, id, { address: 'Ann@x.test', reason: 'manual' }),
      suppressions.remove(db, id, 'ann@x.test'),
    ]);
    for (const result of await Promise.allSettled(both.flat()))
      if (result.status === 'rejected' && !(result.reason instanceof ApiError)) unforeseen.push(result.reason);
  }
  t.strictSame(unforeseen, []);
});

t.test('the first reason stays, but any that stops all mail replaces "unsubscribe"', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const address = 'ann@x.test';
  const list = async () => [...(await suppressions.find(db, accountId, [address])).values()];
  type Reason = Parameters<typeof suppressions.add>[2]['reason'];
  const add = (...reasons: Reason[]) =>
    suppressions.addAll(
      db,
      reasons.map((reason) => ({ accountId, address, reason, emailId: null })),
    );
  await add('unsubscribe');
  t.strictSame(await list(), ['unsubscribe']);
  await add('bounce');
  t.strictSame(await list(), ['bounce']);
  for (const reason of ['complaint', 'unsubscribe', 'manual'] as const) await add(reason);
  t.strictSame(await list(), ['bounce']);
  for (const reasons of [
    ['unsubscribe', 'complaint'],
    ['complaint', 'unsubscribe'],
  ] as const) {
    await suppressions.remove(db, accountId, address);
    await add(...reasons);
    t.strictSame(await list(), ['complaint'], `${reasons} at once`);
  }
});

t.test('the list of one account says nothing about the mail of another', async (t) => {
  const db = await openDatabase(t);
  const [{ id: ours }, { id: theirs }] = [await buildAccount(db), await buildAccount(db)];
  const address = 'ann@x.test';
  await suppressions.add(db, theirs, { address, reason: 'complaint' });
  t.equal((await suppressions.find(db, ours, [address])).size, 0);
  t.match(await suppressions.add(db, ours, { address, reason: 'manual' }), { accountId: ours, reason: 'manual' });
  t.strictSame([...(await suppressions.find(db, ours, [address]))], [[address, 'manual']]);
  await suppressions.remove(db, ours, address);
  t.strictSame([...(await suppressions.find(db, theirs, [address]))], [[address, 'complaint']]);
});
