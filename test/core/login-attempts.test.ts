import t from 'tap';
import * as passwords from '../../src/core/accounts/passwords.ts';
import { login } from '../../src/core/accounts/users.ts';
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
