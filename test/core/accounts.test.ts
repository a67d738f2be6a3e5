import t from 'tap';
import * as accounts from '../../src/core/accounts/accounts.ts';
import * as members from '../../src/core/accounts/members.ts';
import type { Database } from '../../src/db/client.ts';
import { StartError } from '../../src/process/start-error.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { withoutReads } from '../support/without-reads.ts';

const refused = { message: /^invalid request/, status: 400 };

async function buildAdmin(db: Database): Promise<string> {
  const { id } = await buildAccount(db);
  await db.prisma.user.updateMany({ where: { accountId: id }, data: { role: 'admin' } });
  return id;
}

const activeOf = (db: Database, ids: string[]) =>
  db.prisma.account.count({ where: { id: { in: ids }, suspendedAt: null } });

t.test('the account of the only admin cannot be suspended, however its id is written', async (t) => {
  const db = await openDatabase(t);
  const admin = await buildAdmin(db);
  for (const id of [admin, admin.toUpperCase()]) await t.rejects(accounts.change(db, id, { suspended: true }), refused);
  const member = await buildAccount(db);
  t.match(await accounts.change(db, member.id, { suspended: true }), { suspendedAt: Date });
  const other = await buildAdmin(db);
  t.match(await accounts.change(db, other.toUpperCase(), { suspended: true, name: 'Gone' }), {
    name: 'Gone',
    suspendedAt: Date,
  });
  await t.rejects(accounts.change(db, admin, { suspended: true, name: 'Not this either' }), refused);
  t.notMatch(await accounts.get(db, admin), { name: 'Not this either' });
  t.match(await accounts.change(db, admin, { name: 'Still here' }), { name: 'Still here', suspendedAt: null });
});

t.test('an admin who has no password yet is none who could log in to resume an account', async (t) => {
  const db = await openDatabase(t);
  const first = await accounts.ensureAdmin(db, 'root@a.test');
  await t.rejects(
    accounts.change(db, first.accountId, { suspended: true }),
    refused,
    'nor is its own account suspended',
  );
  const admin = await buildAdmin(db);
  await t.rejects(accounts.change(db, admin, { suspended: true }), refused);
  t.match(await accounts.change(db, first.accountId, { suspended: true }), { suspendedAt: Date });
  await accounts.change(db, first.accountId, { suspended: false });
  await accounts.giveFirstPassword(db, first.userId, 'a long password');
  t.match(await accounts.change(db, admin, { suspended: true }), { suspendedAt: Date });
});

t.test('two admins who suspend each other at the same moment do not both succeed', async (t) => {
  const db = await openDatabase(t);
  const pair = [await buildAdmin(db), await buildAdmin(db)];
  for (let round = 0; round < 8; round += 1) {
    const ended = await Promise.allSettled(pair.map((id) => accounts.change(db, id, { suspended: true })));
    t.strictSame(ended.map(({ status }) => status).sort(), ['fulfilled', 'rejected'], `round ${round}`);
    t.equal(await activeOf(db, pair), 1);
    for (const id of pair) await accounts.change(db, id, { suspended: false });
  }
});

t.test('an admin is not removed if no other one can log in', async (t) => {
  const db = await openDatabase(t);
  const withoutPassword = await accounts.ensureAdmin(db, 'root@a.test');
  const suspended = await buildAdmin(db);
  await db.prisma.account.update({ where: { id: suspended }, data: { suspendedAt: new Date() } });
  const ops = { email: 'ops@a.test', password: 'a long password', role: 'admin' } as const;
  await members.add(db, (await buildAccount(db)).id, ops);
  await t.rejects(members.remove(db, ops.email), refused);
  await accounts.giveFirstPassword(db, withoutPassword.userId, 'a long password');
  t.match(await members.remove(db, ops.email), { email: ops.email });
});

t.test('suspending an account again does not change the time of its suspension', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  const { suspendedAt } = await accounts.change(db, id, { suspended: true });
  t.ok(suspendedAt);
  t.match(await accounts.change(db, id, { suspended: true, plan: 'pro' }), {
    suspendedAt: suspendedAt?.toISOString(),
    plan: 'pro',
  });
  t.match(await accounts.change(db, id, { suspended: false }), { suspendedAt: null, plan: 'pro' });
});

t.test('create answers from the statement that inserted, and a top-up with the new credit', async (t) => {
  const db = await openDatabase(t);
  const unread = withoutReads(db, 'account');
  const user = { email: 'ann@shop.test', password: 'a long one' };
  const made = await accounts.create(unread, { name: 'Shop', plan: 'pro', user });
  t.same(made, await accounts.get(db, made.id));
  t.match(await db.prisma.user.findMany({ where: { accountId: made.id } }), [{ email: user.email, role: 'member' }]);
  await t.rejects(accounts.create(unread, { name: 'Other', plan: 'pro', user }), {
    message: 'invalid request',
    detail: 'email: belongs to a user already',
  });
  t.equal(await db.prisma.account.count({ where: { name: 'Other' } }), 0);
  const call = { by: made.id, idempotency: null, respond: ({ credit }: { credit: object }) => String(credit) };
  t.equal((await accounts.topUp(db, { id: made.id, amount: 2.5 }, call)).response, '2.5');
  t.equal(String((await accounts.get(db, made.id)).credit), '2.5');
  for (const id of ['no id', made.id.replace(/^.{8}/, '00000000')])
    await t.rejects(accounts.topUp(db, { id, amount: 1 }, call), { message: 'not found' });
});

const accountOf = (email: string) =>
  ({ name: 'Other', plan: 'pro', user: { email, password: 'a long password' } }) as const;

t.test('an email belongs to one user in every spelling of its domain', async (t) => {
  const db = await openDatabase(t);
  const admin = await accounts.ensureAdmin(db, 'root@bücher.test');
  for (const email of ['root@bücher.test', 'root@xn--bcher-kva.test']) {
    await t.rejects(
      accounts.create(db, accountOf(email)),
      { message: 'invalid request', detail: 'email: belongs to a user already' },
      email,
    );
    t.match(await accounts.find(db, email), { id: admin.accountId }, email);
  }
  t.equal(await db.prisma.account.count(), 1);
});

t.test('the first admin cannot take the email of another user, in any spelling', async (t) => {
  const db = await openDatabase(t);
  await accounts.create(db, accountOf('ann@xn--bcher-kva.test'));
  for (const email of ['ann@bücher.test', 'ann@xn--bcher-kva.test'])
    await t.rejects(accounts.ensureAdmin(db, email), { constructor: StartError, message: /^ADMIN_EMAIL ann@/ }, email);
  for (const email of ['root@bücher.test', 'root@xn--bcher-kva.test', 'root@bücher.test'])
    t.match(await accounts.ensureAdmin(db, email), { email }, 'it may change the spelling of its own email');
  t.match(await accounts.ensureAdmin(db, 'ann@bücher.test'), { email: 'root@bücher.test' });
});
