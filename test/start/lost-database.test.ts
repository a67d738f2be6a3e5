import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { findRunning } from '../../src/db/embedded.ts';
import { startErrorOf } from '../../src/db/failure.ts';
import { findPostmaster } from '../../src/db/postgres-process.ts';
import { silentLog } from '../../src/log.ts';
import { start } from '../../src/node/start.ts';
import { readSecrets } from '../../src/process/data-dir.ts';
import { type Stops, stopAll } from '../../src/process/stops.ts';
import { eventually, portsOff } from '../support/node.ts';
import { flags, ownEnv, startSendwright } from '../support/process.ts';
import { firstScreenOf, loginOf, makeFolder, opens } from '../support/start.ts';

const launcher = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url));

t.test('npm start ends with an error if the embedded PostgreSQL does, so that a supervisor restarts it', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  const first = await startSendwright({ DATA_DIR: dataDir });
  const { email, password, works } = await loginOf(first);
  t.ok(works);
  t.equal(await first.end('SIGTERM'), 0);

  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.test', DNS_SERVERS: '127.0.0.1:9' };
  for (const mode of [{}, { ...direct, WORKERS: '2' }]) {
    const env = { ...ownEnv(), HTTP_PORT: '0', ...portsOff, DATA_DIR: dataDir, ...mode };
    const child = spawn(process.execPath, [launcher, ...flags, 'src/main.ts'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const ended = once(child, 'close');
    let said = '';
    child.stderr.on('data', (chunk) => (said += chunk));
    await eventually(async () => said.includes('Stop with Ctrl-C'), 120_000);
    process.kill(findPostmaster(realpathSync(join(dataDir, 'postgres')))?.pid ?? 0, 'SIGKILL');
    t.strictSame(await ended, [1, null], JSON.stringify(mode));
    t.match(
      said.trim().split('\n').at(-1),
      /^sendwright: the embedded PostgreSQL has stopped unexpectedly: start Sendwright again/,
    );
  }

  await firstScreenOf({ DATA_DIR: dataDir }, async (again) => {
    t.ok(await opens(again, email, password), 'with all its data');
  });
});

t.test(
  'an outcome that cannot be written any more is not waited for: the next start reads it from the journal',
  async (t) => {
    const dataDir = join(await makeFolder(t), 'data');
    const app = await startSendwright({ DATA_DIR: dataDir });
    const key = /sk_live_[\w-]+/.exec(app.stderr())?.[0] ?? '';
    const running = findRunning(dataDir, (await readSecrets(dataDir)).databasePassword);
    const locker = new pg.Client({ connectionString: running?.url });
    locker.on('error', () => undefined);
    await locker.connect();
    await locker.query('BEGIN; LOCK TABLE attempts IN SHARE ROW EXCLUSIVE MODE');
    const body = { from: 'hello@example.test', to: ['you@anywhere.test'], subject: 'Hello', text: 'Hello' };
    const posted = await app.call('POST', '/api/v1/emails', { key, body });
    t.equal(posted.status, 200);
    await eventually(async () => {
      const { rowCount } = await locker.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
      return rowCount !== 0;
    });
    process.kill(running?.pid ?? 0, 'SIGKILL');
    const killedAt = performance.now();
    // The signal for its end is one that it has long heard, or does no harm.
    t.equal(await app.end('SIGCONT'), 1);
    t.ok(performance.now() - killedAt < 15_000, 'it took 20 s for the journal to be left to the next start');

    await firstScreenOf({ DATA_DIR: dataDir }, async (again) => {
      const { id } = (posted.body as { email: { id: string } }).email;
      const read = async () => (await again.call('GET', `/api/v1/emails/${id}`, { key })).body;
      await eventually(async () => JSON.stringify(await read()).includes('"status":"sent"'));
      const { body } = await again.call('GET', `/api/v1/emails/${id}/attempts`, { key });
      t.equal((body as { attempts: unknown[] }).attempts.length, 1, 'and it is not sent again');
    });
  },
);

t.test('one that ends during a start is not taken for that of DATABASE_URL, which nobody has set', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  for (const workers of ['1', '2']) {
    const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.test', WORKERS: workers };
    const stops: Stops = [];
    const say = (sentence: string) => {
      if (sentence === 'Preparing the schema')
        process.kill(findPostmaster(realpathSync(join(dataDir, 'postgres')))?.pid ?? 0, 'SIGKILL');
    };
    const config = readConfig({ HTTP_PORT: '0', ...portsOff, DATA_DIR: dataDir, ...(workers === '1' ? {} : direct) });
    const refusal = await start(config, { log: silentLog, say, stops }).then(
      () => null,
      (error: Error) => error,
    );
    await stopAll(stops);
    const found = startErrorOf(refusal)?.message;
    t.match(
      found,
      /^the embedded PostgreSQL (has stopped|failed) during the start \(.*\): start Sendwright again, and see the end of .*postgres\.log for the reason$/,
    );
    t.notMatch(found, /DATABASE_URL/);
  }
});
