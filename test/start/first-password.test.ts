import t from 'tap';
import { ensureAdmin, giveFirstPassword } from '../../src/core/accounts/accounts.ts';
import { openDatabase } from '../support/db.ts';
import { startSendwright } from '../support/process.ts';
import { firstScreenOf, freshEnv, loginOf, makeFolder, opens, refusalOf, takePort } from '../support/start.ts';

t.test('a first start that fails does not use up a generated password', async (t) => {
  const dataDir = await makeFolder(t);
  const port = await takePort(t);
  for (const env of [{ DATA_DIR: dataDir }, await freshEnv(dataDir)]) {
    t.match(await refusalOf({ ...env, HTTP_PORT: port }), /^HTTP_PORT \d+ is in use by another program: stop it, or/);
    const app = await startSendwright(env);
    const login = await loginOf(app);
    t.ok(login.works, 'the second start shows it');
    t.equal(app.stderr().split(login.password).length, 2, 'once');
    t.equal(await app.end('SIGTERM'), 0);
    const again = await firstScreenOf(env);
    t.match(again, `Admin login  ${login.email} / the password from the first start`);
    t.notMatch(again, login.password);
  }
});

t.test('as long as nobody has a password, the settings of the next start count', async (t) => {
  const env = await freshEnv(await makeFolder(t));
  await refusalOf({ ...env, HTTP_PORT: await takePort(t) });
  const chosen = { ADMIN_EMAIL: 'ops@example.test', ADMIN_PASSWORD: 'a password of my own' };
  const next = await firstScreenOf({ ...env, ...chosen }, async (node) => {
    t.ok(await opens(node, chosen.ADMIN_EMAIL, chosen.ADMIN_PASSWORD));
  });
  t.match(next, 'Admin login  ops@example.test / (ADMIN_PASSWORD)');
  const other = { ADMIN_EMAIL: 'else@example.test', ADMIN_PASSWORD: 'another password' };
  const later = await firstScreenOf({ ...env, ...other }, async (node) => {
    t.ok(await opens(node, chosen.ADMIN_EMAIL, chosen.ADMIN_PASSWORD));
    t.notOk(await opens(node, chosen.ADMIN_EMAIL, other.ADMIN_PASSWORD));
  });
  t.match(later, 'Admin login  ops@example.test / the password from the first start');
});

t.test('a password that could not be shown does not work', async (t) => {
  const db = await openDatabase(t);
  const admin = await ensureAdmin(db, 'one@example.test');
  t.match(admin, { email: 'one@example.test', hasPassword: false });
  t.match(await ensureAdmin(db, 'two@example.test'), { ...admin, email: 'two@example.test' });
  const unseen = giveFirstPassword(db, admin.userId, 'a first password', () => {
    throw new Error('the terminal is gone');
  });
  await t.rejects(unseen, /the terminal is gone/);
  t.match(await ensureAdmin(db, 'two@example.test'), { hasPassword: false });

  const shown: string[] = [];
  const give = (password: string) => giveFirstPassword(db, admin.userId, password, () => shown.push(password));
  const given = await Promise.all([give('a second password'), give('a third password')]);
  t.same(given.toSorted(), [false, true]);
  t.equal(shown.length, 1);
  t.match(await ensureAdmin(db, 'three@example.test'), { email: 'two@example.test', hasPassword: true });
});
