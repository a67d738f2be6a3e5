import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ensureAdmin, giveFirstPassword } from '../../src/core/accounts.ts';
import { createDatabase, openDatabase } from '../support/db.ts';
import { testEnv } from '../support/node.ts';
import { type SendwrightProcess, startSendwright } from '../support/process.ts';
import { makeFolder, refusalOf, takePort } from '../support/start.ts';

/** The login of the first screen, and whether it works. */
async function loginOf(app: SendwrightProcess): Promise<{ email: string; password: string; works: boolean }> {
  const [, email = '', password = ''] = /Admin login +(\S+) \/ (\S+) +\(generated now/.exec(app.stderr()) ?? [];
  return { email, password, works: await opens(app, email, password) };
}

async function opens(app: SendwrightProcess, email: string, password: string): Promise<boolean> {
  return (await app.call('POST', '/api/v1/auth/login', { body: { email, password } })).status === 200;
}

const external = async (dataDir: string) =>
  testEnv(await createDatabase(), { DATA_DIR: dataDir, ADMIN_EMAIL: '', ADMIN_PASSWORD: '' });

t.test('a first start that fails uses up no generated password', async (t) => {
  const dataDir = await makeFolder(t);
  const port = await takePort(t);
  for (const env of [{ DATA_DIR: dataDir }, await external(dataDir)]) {
    t.match(await refusalOf({ ...env, HTTP_PORT: port }), /^HTTP_PORT \d+ is in use by another program: stop it, or/);
    const app = await startSendwright(env);
    const login = await loginOf(app);
    t.ok(login.works, 'the second start shows it');
    t.equal(await app.end('SIGTERM'), 0);
    const again = await startSendwright(env);
    t.match(again.stderr(), `Admin login  ${login.email} / the password from the first start`);
    t.notMatch(again.stderr(), login.password);
    t.equal(await again.end('SIGTERM'), 0);
  }
});

t.test('what the next start says goes while nobody has a password', async (t) => {
  const env = await external(await makeFolder(t));
  await refusalOf({ ...env, HTTP_PORT: await takePort(t) });
  const chosen = { ADMIN_EMAIL: 'ops@example.test', ADMIN_PASSWORD: 'a password of my own' };
  const app = await startSendwright({ ...env, ...chosen });
  t.match(app.stderr(), 'Admin login  ops@example.test / (ADMIN_PASSWORD)');
  t.ok(await opens(app, chosen.ADMIN_EMAIL, chosen.ADMIN_PASSWORD));
  t.equal(await app.end('SIGTERM'), 0);
  const later = await startSendwright({ ...env, ADMIN_EMAIL: 'else@example.test', ADMIN_PASSWORD: 'another password' });
  t.match(later.stderr(), 'Admin login  ops@example.test / the password from the first start');
  t.notOk(await opens(later, 'ops@example.test', 'another password'));
  t.equal(await later.end('SIGTERM'), 0);
});

t.test('kill -9 at any moment of the first start: some password that was shown works', async (t) => {
  const dataDir = await makeFolder(t);
  const env = { PATH: process.env.PATH ?? '', HTTP_PORT: '0', DATA_DIR: dataDir };
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const shown: string[] = [];
  // At the first word of a password it may be in force, or a moment later; before it nothing can be.
  for (const moment of [/Preparing the schema/, /admin's password: \S+/]) {
    const child: ChildProcess = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], { env });
    let said = '';
    child.stderr?.on('data', (chunk) => {
      said += chunk;
      if (moment.test(said)) child.kill('SIGKILL');
    });
    t.same(await once(child, 'close'), [null, 'SIGKILL'], said);
    shown.push(/admin's password: (\S+)/.exec(said)?.[1] ?? '');
  }
  t.equal(shown[0], '', 'none was used up before');
  const app = await startSendwright({ DATA_DIR: dataDir });
  const login = await loginOf(app);
  t.ok(login.works || (await opens(app, 'admin@localhost', shown[1] ?? '')));
  t.equal(await app.end('SIGTERM'), 0);
});

t.test('two nodes start at once on an empty database: one shows the password', async (t) => {
  const env = await external(await makeFolder(t));
  const apps = await Promise.all([startSendwright(env), startSendwright(env)]);
  const logins = await Promise.all(apps.map(loginOf));
  t.equal(logins.filter(({ works }) => works).length, 1);
  t.equal(logins.filter(({ password }) => password === '').length, 1);
  for (const app of apps) t.equal(await app.end('SIGTERM'), 0);
});

t.test('a password that could not be shown is not in force', async (t) => {
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
