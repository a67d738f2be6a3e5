import { spawnSync } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t, { type Test } from 'tap';
import { readConfig } from '../../src/config.ts';
import { startWorkers } from '../../src/node/first-process.ts';
import type { FromWorker, Ground } from '../../src/node/worker.ts';
import { type Stops, stopAll } from '../../src/process/stops.ts';
import { createAuthority } from '../support/authority.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, prepareSender, receiverZone } from '../support/direct.ts';
import { startGate } from '../support/gate.ts';
import { startScriptedMx } from '../support/mx.ts';
import { adminPassword, eventually, foundationOf, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { flags, type SendwrightProcess, startSendwright } from '../support/process.ts';
import { administer, lastWordsOf, makeFolder, makeRole, refusalOf, takePort } from '../support/start.ts';
import { nicenessOf } from '../support/threads.ts';
import { startZone } from '../support/zone.ts';

/** A receiver that answers a final dot when told to, and what it received. */
async function startReceiver(t: Test) {
  const received: string[] = [];
  let answer = Promise.resolve();
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet();
    for (;;) {
      const line = await peer.line();
      if (line === 'QUIT') return;
      peer.send(line === 'DATA' ? '354 go\r\n' : '250 ok\r\n');
      if (line !== 'DATA') continue;
      received.push(/^Subject: (.*)\r$/m.exec(await peer.until('\r\n.\r\n'))?.[1] ?? '');
      await answer;
      peer.send('250 taken\r\n');
    }
  });
  t.teardown(() => mx.close());
  const zone = await startZone(receiverZone);
  t.teardown(() => zone.close());
  /** Holds back all answers from now on, until the returned function is called. */
  const hold = () => {
    const held = Promise.withResolvers<void>();
    answer = held.promise;
    return () => {
      answer = Promise.resolve();
      held.resolve();
    };
  };
  return { received, zone, hold, env: directEnv(zone, mx.port) };
}

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'sendwright-workers-'));
  t.teardown(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** The processes whose metrics Prometheus gets there. */
async function measured(port: string): Promise<string[]> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { Connection: 'close' } })).text();
  return [...text.matchAll(/^sendwright_database_up\{process="(\d+)"\} 1$/gm)].map(([, name = '']) => name).sort();
}

/** The worker that has a message in flight, from the name of its journal. */
async function deliverer(dataDir: string): Promise<number> {
  const [name = ''] = await readdir(join(dataDir, 'journal'));
  return Number.parseInt(name, 10);
}

/** What /proc says; nothing about processes that have just ended. */
function procOf(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return '';
  }
}

/** Other programs that this process has started. Linux only. */
const childrenOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`)
    .flatMap((task) => procOf(`${pid}/task/${task}/children`).trim().split(' '))
    .filter((child) => child !== '' && procOf(`${child}/cmdline`).includes('main.ts'))
    .map(Number);

const isGone = (pid: number) => {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
};

/**
 * Normally other nodes declare ended ones dead after half a minute. Here they never do, so only the process that
 * started them can know.
 */
const passForAlive = (databaseUrl: string) =>
  administer([`UPDATE nodes SET seen_at = now() + interval '1 day'`], new URL(databaseUrl).pathname.slice(1));

const post = (app: SendwrightProcess, key: string, subject: string) =>
  app.call('POST', '/api/v1/emails', {
    key,
    body: { from: 'a@workers.test', to: 'b@receiver.test', subject, text: 'text' },
  });

t.test('a killed worker is replaced, and its messages in flight are settled at once', async (t) => {
  const { received, hold, zone, env } = await startReceiver(t);
  const dataDir = await folder(t);
  const port = String(await freePort());
  const all = { ...env, DATA_DIR: dataDir, WORKERS: '2', METRICS_PORT: port };
  const databaseUrl = await createDatabase();
  const app = await startSendwright(testEnv(databaseUrl, all));
  t.teardown(() => app.end('SIGKILL'));
  // A worker that answers slowly is left out until the next time.
  await eventually(async () => String(await measured(port)) === '1,2');
  t.pass('one port for Prometheus shows both');
  const key = await prepareSender(app, zone, 'workers.test');
  const before = childrenOf(app.pid);
  t.equal(before.length, 2);
  for (const worker of before)
    t.strictSame(
      nicenessOf(worker).get('libuv-worker'),
      Array(4).fill(Math.min(getPriority() + 5, 19)),
      'signing threads give way',
    );
  const letGo = hold();
  const { id } = (await post(app, key, 'killed')).body.email;
  await eventually(async () => received.length === 1);
  const killed = await deliverer(dataDir);
  t.ok(before.includes(killed));
  process.kill(killed, 'SIGKILL');
  await passForAlive(databaseUrl);
  letGo();
  // A request may have gone to the killed worker.
  const read = async (path = '') =>
    (await app.call('GET', `/api/v1/emails/${id}${path}`, { key }).catch(() => ({ body: {} }))).body;
  await eventually(async () => (await read()).email?.status === 'sent');
  t.match((await read('/attempts')).attempts, [
    { number: 1, outcome: 'deferred', uncertain: true, phase: 'dot' },
    { number: 2, outcome: 'delivered', uncertain: false },
  ]);
  t.same(received, ['killed', 'killed']);
  await eventually(async () => childrenOf(app.pid).length === 2);
  t.notOk(childrenOf(app.pid).includes(killed));
  t.match(await eventually(async () => (await measured(port)).length === 2 && measured(port)), [/[12]/, '3']);
  t.match(app.stdout(), /"level":50.*"ended":"SIGKILL".*"a worker has ended; starting another one"/);
  process.kill(childrenOf(app.pid)[0] ?? 0, 'SIGTERM');
  const inOrder = /"level":40.*"ended":"exit code 0".*"a worker has ended; starting another one"/;
  await eventually(async () => inOrder.test(app.stdout()), 20_000);
  t.match(app.stdout(), inOrder, 'what an operator has ended is no error');
  await eventually(async () => String(await measured(port)) === '3,4', 20_000);

  // Both are told to stop: messages in flight are finished, others stay for the next start.
  const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => post(app, key, `drain ${index}`)));
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
  t.equal(await app.end('SIGTERM'), 0);
  t.same(await readdir(join(dataDir, 'journal')), [], 'nothing is left to recover');
  const drained = received.filter((subject) => subject.startsWith('drain'));
  t.equal(new Set(drained).size, drained.length, 'none twice');
});

t.test('what a worker had in hand that is killed while it stops is recorded and freed before the end', async (t) => {
  const { received, hold, zone, env } = await startReceiver(t);
  const dataDir = await folder(t);
  const databaseUrl = await createDatabase();
  const app = await startSendwright(testEnv(databaseUrl, { ...env, DATA_DIR: dataDir, WORKERS: '2' }));
  t.teardown(() => app.end('SIGKILL'));
  const key = await prepareSender(app, zone, 'workers.test');
  hold();
  await post(app, key, 'in the air');
  await eventually(async () => received.length === 1);
  const busy = await deliverer(dataDir);
  const ended = app.end('SIGTERM');
  await eventually(async () => childrenOf(app.pid).length === 1);
  process.kill(busy, 'SIGKILL');
  t.equal(await ended, 0);
  t.match(app.stdout(), /"ended":"SIGKILL".*"a worker has ended before it had stopped"/);
  t.same(await readdir(join(dataDir, 'journal')), []);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  t.teardown(() => client.end());
  t.match((await client.query('SELECT claimed_by, uncertain FROM recipients JOIN attempts USING (email_id)')).rows, [
    { claimed_by: null, uncertain: true },
  ]);
  t.same((await client.query('SELECT FROM nodes')).rows, []);
});

t.test('the journal of a worker that died while the database was down is recorded once it is back', async (t) => {
  const { received, hold, zone, env } = await startReceiver(t);
  const dataDir = await folder(t);
  const databaseUrl = await createDatabase();
  const gate = await startGate(databaseUrl);
  t.teardown(() => gate.close());
  const app = await startSendwright(testEnv(gate.url, { ...env, DATA_DIR: dataDir, WORKERS: '2' }));
  t.teardown(() => app.end('SIGKILL'));
  const key = await prepareSender(app, zone, 'workers.test');
  const letGo = hold();
  const { id } = (await post(app, key, 'taken')).body.email;
  await eventually(async () => received.length === 1);
  const killed = await deliverer(dataDir);
  gate.set('shut');
  letGo();
  await eventually(async () => {
    const [name = ''] = await readdir(join(dataDir, 'journal'));
    return readFileSync(join(dataDir, 'journal', name), 'utf8').includes('"results"');
  });
  process.kill(killed, 'SIGKILL');
  await passForAlive(databaseUrl);
  await eventually(async () => app.stdout().includes('the recovery of a dead worker'));
  gate.set('open');
  const read = async (path = '') =>
    (await app.call('GET', `/api/v1/emails/${id}${path}`, { key }).catch(() => ({ body: {} }))).body;
  await eventually(async () => (await read()).email?.status === 'sent');
  t.match((await read('/attempts')).attempts, [{ number: 1, outcome: 'delivered' }]);
  t.same(received, ['taken'], 'and is not sent again');
  await eventually(async () => childrenOf(app.pid).length === 2);
  t.same(await readdir(join(dataDir, 'journal')), []);
});

t.test(
  'workers outlive their first process for as long as they need, and a new start takes them into account',
  async (t) => {
    const { received, hold, zone, env } = await startReceiver(t);
    const dataDir = await makeFolder(t);
    const all = { ...env, ADMIN_EMAIL: 'admin@example.test', ADMIN_PASSWORD: adminPassword, DATA_DIR: dataDir };
    const app = await startSendwright({ ...all, WORKERS: '2' });
    t.teardown(() => app.end('SIGKILL'));
    const key = await prepareSender(app, zone, 'workers.test');
    const workers = childrenOf(app.pid);
    const letGo = hold();
    const { id } = (await post(app, key, 'in the air')).body.email;
    await eventually(async () => received.length === 1);
    const busy = await deliverer(dataDir);
    t.equal(await app.end('SIGKILL'), 'SIGKILL');
    await eventually(async () => workers.every((pid) => pid === busy || isGone(pid)));
    t.notOk(isGone(busy), 'it waits for the answer');

    // It finds a server, a node and a journal that are in use.
    const next = await startSendwright(all);
    t.teardown(() => next.end('SIGKILL'));
    letGo();
    const read = async (path = '') => (await next.call('GET', `/api/v1/emails/${id}${path}`, { key })).body;
    await eventually(async () => (await read()).email.status === 'sent');
    t.same((await read('/attempts')).attempts.length, 1);
    t.same(received, ['in the air'], 'it was not sent again');
    await eventually(async () => isGone(busy));
    t.equal(await next.end('SIGTERM'), 0);
  },
);

const noPrlimit = spawnSync('prlimit', ['--version']).status !== 0 && 'prlimit, of util-linux, is not here';

t.test('two workers of one service, without any mail', async (t) => {
  const { env } = await startReceiver(t);
  const port = String(await freePort());
  const dataDir = await folder(t);
  const files = { SMTP_TLS_CERT: join(dataDir, 'cert.pem'), SMTP_TLS_KEY: join(dataDir, 'key.pem') };
  const { cert, key } = createAuthority().issue(['mx.test'], { to: new Date(Date.now() + 3_600_000) });
  await Promise.all([writeFile(files.SMTP_TLS_CERT, cert), writeFile(files.SMTP_TLS_KEY, key)]);
  const doors = { ...files, SUBMISSION_PORT: String(await freePort()), METRICS_PORT: port };
  // Code that is loaded first, and takes its time: what a worker is told meanwhile is lost.
  const preload = { NODE_OPTIONS: '--import=data:text/javascript,await(new(Promise)((go)=>setTimeout(go,50)))' };
  const more = { DATA_DIR: dataDir, WORKERS: '2', RATE_LIMIT: '1/1000', START_ON_HOLD: 'true', ...preload };
  const app = await startSendwright(testEnv(await createDatabase(), { ...env, ...doors, ...more }));
  t.teardown(() => app.end('SIGKILL'));
  const expiring = () => app.stdout().match(/.*"check":"smtp_certificate".*"something is wrong with this machine.*/g);
  await eventually(async () => expiring() !== null);

  t.test('a key has one budget in both', async () => {
    const body = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await app.call('POST', '/api/v1/auth/login', { body })).body;
    const { key } = (await app.call('POST', '/api/v1/keys', { token, body: { name: 'both' } })).body;
    const begun = performance.now();
    let asked = 0;
    const left = async () => {
      asked += 1;
      // On a connection of its own: each goes to the next worker.
      const { headers } = await fetch(`${app.baseUrl}/api/v1/emails`, {
        headers: { 'X-API-Key': key, Connection: 'close' },
      });
      return Number(/r=(\d+)/.exec(headers.get('RateLimit') ?? '')?.[1]);
    };
    await Promise.all(Array.from({ length: 60 }, left));
    const given = () => Math.ceil((performance.now() - begun) / 1_000);
    await eventually(async () => (await left()) <= 1_000 - asked + given());
    // By then each has heard all that the other has said.
    await sleep(200);
    t.ok((await left()) >= 1_000 - asked, 'nothing is counted twice');
  });

  t.test('a connection that was handed to a worker and not accepted ends when the worker does', async (t) => {
    const [frozen = 0] = childrenOf(app.pid);
    process.kill(frozen, 'SIGSTOP');
    const calls = Array.from({ length: 6 }, () => {
      const state = { over: false };
      const socket = connect(Number(new URL(app.baseUrl).port), '127.0.0.1');
      t.teardown(() => socket.destroy());
      socket.on('error', () => undefined).on('close', () => (state.over = true));
      socket.end('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').resume();
      return state;
    });
    const open = () => calls.filter(({ over }) => !over).length;
    await eventually(async () => open() === 1);
    await sleep(300);
    t.equal(open(), 1, 'the other worker has answered the rest');
    process.kill(frozen, 'SIGKILL');
    await eventually(async () => open() === 0);
  });

  t.test('if no process can be created, the others go on, and it is tried again', { skip: noPrlimit }, async (t) => {
    // The one that replaces the killed one works by now.
    await eventually(async () => (await measured(port)).length === 2);
    const allow = (descriptors: number) =>
      t.equal(spawnSync('prlimit', ['--pid', `${app.pid}`, `--nofile=${descriptors}:`]).status, 0);
    const before = childrenOf(app.pid);
    t.equal(before.length, 2);
    // A new process needs more of them than a dead one frees.
    allow(readdirSync(`/proc/${app.pid}/fd`).length);
    process.kill(before[0] ?? 0, 'SIGKILL');
    await eventually(async () => app.stdout().includes('"a worker could not be started"'));
    allow(1_000);
    await eventually(async () => childrenOf(app.pid).length === 2);
    t.ok(childrenOf(app.pid).includes(before[1] ?? 0), 'the other one was left alone');
    t.equal((await app.call('GET', '/healthz')).status, 200);
    const replaced = () => app.stdout().match(/; starting another one/g)?.length;
    const beforeEnd = replaced();
    t.equal(await app.end('SIGTERM'), 0);
    t.equal(replaced(), beforeEnd, 'those that are stopped are not missed');
  });

  t.test('that nothing is sent, and what is wrong with their machine, is said once', async (t) => {
    t.equal(app.stdout().match(/is on hold, so nothing is sent/g)?.length, 1, 'with two more workers since');
    const lines = (expiring() ?? []).map((line) => JSON.parse(line));
    t.match(lines, [{ found: /^It expires on / }]);
    t.notOk('worker' in (lines[0] ?? {}), 'by the first process, as none of the workers outlives it');
  });
});

t.test('a worker that is stopped during its start takes itself off the list of nodes', async (t) => {
  const { env } = await startReceiver(t);
  const databaseUrl = await createDatabase();
  const all = testEnv(databaseUrl, { ...env, DATA_DIR: await folder(t), WORKERS: '2' });
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  t.teardown(() => client.end());
  cluster.setupPrimary({ exec: fileURLToPath(new URL('../../src/main.ts', import.meta.url)), execArgv: flags });
  const worker = cluster.fork(all);
  t.teardown(() => worker.process.kill('SIGKILL'));
  const ended = once(worker, 'exit');
  // It reads this table right after it has put itself on the list.
  await client.query('BEGIN; LOCK TABLE service_hold');
  const encryptionKeys = [Buffer.from(all.ENCRYPTION_KEY ?? '', 'hex').toString('base64')];
  const jwtSecret = all.JWT_SECRET ?? '';
  worker.on('message', ({ kind }: FromWorker) => {
    if (kind === 'listening')
      worker.send({ kind: 'ground', databaseUrl, jwtSecret, encryptionKeys, taken: [] } satisfies Ground);
  });
  const nodes = async () => (await client.query('SELECT FROM nodes')).rowCount;
  await eventually(async () => (await nodes()) === 1);
  worker.process.kill('SIGTERM');
  await client.query('COMMIT');
  await ended;
  t.equal(await nodes(), 0);
});

t.test(
  'nodes that are on the list are dead if no other can be running, and those of others are left alone',
  async (t) => {
    const databaseUrl = await createDatabase();
    const config = readConfig(testEnv(databaseUrl, { DATA_DIR: await folder(t) }));
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    t.teardown(() => client.end());
    await client.query(`INSERT INTO nodes (id, hostname, roles) VALUES (gen_random_uuid(), 'seen just now', '{mta}')`);
    for (const alone of [false, true]) {
      const stops: Stops = [];
      // What is done once, before there are workers.
      await t.rejects(startWorkers({ ...config, workers: 0 }, { ...foundationOf(config), alone }, stops), /no worker/);
      await stopAll(stops);
      t.equal((await client.query('SELECT FROM nodes')).rowCount, alone ? 0 : 1);
    }
  },
);

t.test('whatever keeps a worker from starting is logged as one line of the first process', async (t) => {
  const dataDir = await folder(t);
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.test', DATA_DIR: dataDir, WORKERS: '2' };
  const [http, metrics] = [await takePort(t), await takePort(t)];
  t.equal(
    await lastWordsOf(testEnv(await createDatabase(), { ...direct, HTTP_PORT: http, METRICS_PORT: metrics })),
    `HTTP_PORT ${http} and METRICS_PORT ${metrics} are in use by other programs: stop them, or set these variables to free ports`,
  );
  const { url } = await makeRole(t, 'CONNECTION LIMIT 30');
  t.match(
    await refusalOf(testEnv(url, direct)),
    /^the role "r_\w+" of DATABASE_URL can have 30 connections, but a node needs 48: /,
  );
});
