import t, { type Test } from 'tap';
import { forgetAllOf, forgetOld } from '../../src/core/accounts/login-attempts.ts';
import * as passwords from '../../src/core/accounts/passwords.ts';
import { login } from '../../src/core/accounts/users.ts';
import type { ApiError } from '../../src/errors.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { withoutReads } from '../support/without-reads.ts';

t.test('a try that the database is too slow for does not count as a failed one', async (t) => {
  const db = await openDatabase(t);
  const account = await buildAccount(db);
  const { id: userId } = await db.prisma.user.findFirstOrThrow({ where: { accountId: account.id } });
  const inTrouble = withoutReads(db, 'user');
  const input = { email: account.email, password: account.password, address: '192.0.2.1' };
  const changed = { current: account.password, next: 'another long one' };
  for (let tries = 0; tries < 12; tries += 1) {
    await t.rejects(login(inTrouble, input), { message: /timeout/ });
    await t.rejects(passwords.change(inTrouble, userId, changed), { message: /timeout/ });
  }
  t.equal(await db.prisma.loginFailure.count(), 0);
  t.match(await login(db, input), { email: account.email });
  t.match(await passwords.change(db, userId, changed), { passwordChangedAt: Date });
});

async function prepare(t: Test) {
  const db = await openDatabase(t);
  const { email, password } = await buildAccount(db);
  const tryWith = (tried: string) => login(db, { email, password: tried, address: '192.0.2.1' });
  const subject = `pair:192.0.2.1 ${email}`;
  /** Failures of this many seconds ago. */
  const failed = (count: number, secondsAgo: number) =>
    db.query({
      text: `INSERT INTO login_failures (subject, at) SELECT $1, now() - make_interval(secs => $3) FROM generate_series(1, $2::int)`,
      values: [subject, count, secondsAgo],
    });
  return {
    db,
    failed,
    logIn: () => tryWith(password),
    fail: () => t.rejects(tryWith('wrong'), { status: 401, message: 'unauthorized' }),
  };
}

t.test('a failure counts for fifteen minutes', async (t) => {
  const { db, failed, logIn, fail } = await prepare(t);
  await failed(10, 901);
  await logIn();
  await failed(1, 800);
  await failed(8, 10);
  await fail();
  const refused: ApiError = await logIn().then(
    () => t.fail('it is refused'),
    (error) => error,
  );
  t.equal(refused.status, 429);
  const wait = Number(refused.headers['Retry-After']);
  t.ok(wait > 0 && wait <= 100, `until the first of the ten is old enough: ${wait} s`);
  const before = await db.prisma.loginFailure.count();
  await failed(3, 901);
  await forgetOld(db);
  t.equal(await db.prisma.loginFailure.count(), before, 'only those that no longer count are deleted');
  await t.rejects(logIn(), { message: 'rate limited', status: 429 });
});

t.test('a success forgets the failures before it, and itself counts as none, for its address either', async (t) => {
  const { db, failed, logIn, fail } = await prepare(t);
  await failed(9, 10);
  await logIn();
  t.equal(await db.prisma.loginFailure.count(), 0);
  await fail();
  await t.resolves(logIn());
});

t.test('a new password from an operator forgets the failures of its user, and of nobody else', async (t) => {
  const db = await openDatabase(t);
  const [userId, otherId] = ['01890000-0000-7000-8000-000000000001', '01890000-0000-7000-8000-000000000002'];
  const own = ['email:ann@x.test', `password:${userId}`, 'pair:192.0.2.1 ann@x.test', 'pair:2001:db8::/64 ann@x.test'];
  const others = [
    'address:192.0.2.1',
    'email:joann@x.test',
    'pair:192.0.2.1 bob@x.test',
    'pair:192.0.2.1 joann@x.test',
    `password:${otherId}`,
  ];
  await db.query({
    text: 'INSERT INTO login_failures (subject) SELECT unnest($1::text[])',
    values: [[...own, ...others]],
  });
  await forgetAllOf(db, { email: 'ann@x.test', userId });
  const left = await db.prisma.loginFailure.findMany();
  t.strictSame(left.map(({ subject }) => subject).sort(), others);
});
