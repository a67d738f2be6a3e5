import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { portsOff } from '../support/node.ts';
import { flags, ownEnv, startTogether } from '../support/process.ts';
import { firstScreenOf, freshEnv, loginOf, makeFolder, opens } from '../support/start.ts';

t.test('kill -9 at any moment of the first start: one of the shown passwords works', async (t) => {
  const dataDir = await makeFolder(t);
  const env = { ...ownEnv(), HTTP_PORT: '0', ...portsOff, DATA_DIR: dataDir };
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const shown: string[] = [];
  // From the first word about a password on it may work, or a moment later; before that, it cannot.
  for (const moment of [/Preparing the schema/, /Admin login .*generated now/]) {
    const child: ChildProcess = spawn(process.execPath, [...flags, main], { env });
    let said = '';
    child.stderr?.on('data', (chunk) => {
      said += chunk;
      if (moment.test(said)) child.kill('SIGKILL');
    });
    t.same(await once(child, 'close'), [null, 'SIGKILL'], said);
    shown.push(/Admin login +\S+ \/ (\S+)/.exec(said)?.[1] ?? '');
  }
  t.equal(shown[0], '', 'none was used up before');
  await firstScreenOf({ DATA_DIR: dataDir }, async (node) => {
    const login = await loginOf(node);
    t.ok(login.works || (await opens(node, 'admin@localhost', shown[1] ?? '')));
  });
});

t.test('two nodes start at once on an empty database: one shows the password', async (t) => {
  const env = await freshEnv(await makeFolder(t));
  const apps = await startTogether(t, [env, env]);
  const logins = await Promise.all(apps.map(loginOf));
  t.equal(logins.filter(({ works }) => works).length, 1);
  t.equal(logins.filter(({ password }) => password === '').length, 1);
  for (const app of apps) t.equal(await app.end('SIGTERM'), 0);
});
