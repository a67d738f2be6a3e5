import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { findPostmaster } from '../../src/db/postgres-process.ts';
import { createDatabase } from '../support/db.ts';
import { eventually, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { administer, makeFolder } from '../support/start.ts';
import { sendwright, told } from './terminal.ts';

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));

t.test('an empty database is refused until it is migrated, and migrating again changes nothing', async (t) => {
  const env = testEnv(await createDatabase());
  const name = new URL(env.DATABASE_URL ?? '').pathname.slice(1);
  await administer(['DROP SCHEMA public CASCADE', 'DROP SCHEMA pgboss CASCADE', 'CREATE SCHEMA public'], name);
  t.match(await sendwright(env, 'accounts', 'list'), { code: 1, said: /run sendwright migrate/ });
  const { code, applied } = await told(env, 'migrate');
  t.equal(code, 0);
  t.ok(applied.length > 15);
  t.match(await told(env, 'migrate'), { code: 0, applied: [] });
  t.match(await told(env, 'accounts', 'list'), { code: 0, accounts: [] });
});

t.test('a real process: start, commands beside it on its embedded database, and without it', async (t) => {
  const { PATH = '' } = process.env;
  const port = String(await freePort());
  const off = { HTTP_PORT: port, INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };
  const env = { PATH, ...off, DATA_DIR: join(await makeFolder(t), 'data'), LOG_LEVEL: 'silent' };
  const service = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--liftoff-only', cli, 'start'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(service, 'exit');
  let said = '';
  await new Promise<void>((resolve, reject) => {
    service.stderr.on('data', (chunk) => {
      said += chunk;
      if (said.includes('Stop with Ctrl-C')) resolve();
    });
    void ended.then(() => reject(new Error(said)));
  });
  t.match(said, new RegExp(`http://localhost:${port}`));
  t.match(await told(env, 'domains', 'list'), { domains: [{ domain: 'example.test', status: 'verified' }] });
  const hello = ['--from', 'a@example.test', '--to', 'b@anywhere.test', '--subject', 's', '--text', 't', '--wait'];
  t.match(await told(env, 'send', ...hello), { code: 0, email: { status: 'sent' } });
  t.match(await sendwright(env, 'doctor'), { code: 1, printed: /No mail leaves this machine/ });
  service.kill('SIGTERM');
  t.equal((await ended)[0], 0);
  t.match(await told(env, 'accounts', 'list'), { code: 0, count: 1 });

  // No node is there to deliver it: it waits until somebody has enough of that, and its database goes with it.
  const waiting = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', cli, 'send', ...hello], {
    env,
    stdio: 'ignore',
  });
  const left = once(waiting, 'exit');
  const postmaster = () => findPostmaster(realpathSync(join(env.DATA_DIR, 'postgres')));
  await eventually(async () => postmaster() !== undefined, 30_000);
  waiting.kill('SIGINT');
  t.equal((await left)[0], 130);
  t.notOk(postmaster());
});
