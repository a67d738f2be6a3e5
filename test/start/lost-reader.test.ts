import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { call, eventually, testEnv } from '../support/node.ts';
import { flags, ownEnv } from '../support/process.ts';
import { makeFolder } from '../support/start.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

t.test('a node finishes its work and ends if what reads its log has ended', async (t) => {
  const env = { ...ownEnv(), ...testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t) }) };
  const child = spawn(process.execPath, [...flags, main], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'close');
  let said = '';
  child.stderr.on('data', (chunk) => (said += chunk));
  await eventually(async () => said.includes('Stop with Ctrl-C'), 120_000);
  child.stdout.destroy();
  // Has a line in the log.
  await call(/Dashboard +(http:\S+)/.exec(said)?.[1] ?? '', 'GET', '/api/v1/emails').catch(() => undefined);
  t.strictSame(await ended, [1, null]);
  t.match(said, /nobody reads the log: finishing the work in progress/);
  t.match(said.trim().split('\n').at(-1), /^sendwright: what read the log has ended: start it again, and Sendwright$/);
});
