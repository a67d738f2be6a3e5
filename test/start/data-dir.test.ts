import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  chown,
  mkdir,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { findPostmaster, stopPostmaster } from '../../src/db/postgres-process.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { startNode } from '../../src/node/node.ts';
import { start } from '../../src/node/start.ts';
import { readSecrets, unusableDataDir, writeSecrets } from '../../src/process/data-dir.ts';
import type { StartError } from '../../src/process/start-error.ts';
import { type Stops, stopAll } from '../../src/process/stops.ts';
import { createDatabase } from '../support/db.ts';
import { eventually, foundationOf, testEnv } from '../support/node.ts';
import { runSendwright } from '../support/process.ts';
import { lastWordsOf, makeFolder, refusalOf } from '../support/start.ts';

const messageOf = (work: Promise<unknown>) => work.then(String, (error: StartError) => error.message);
const isRoot = process.getuid?.() === 0;
const whatToDo = /: set it to a folder that this user can write$/;

t.test('an unusable DATA_DIR is one line that names it', async (t) => {
  const home = await makeFolder(t);
  await writeFile(join(home, 'file'), '');
  await symlink(join(home, 'nowhere'), join(home, 'link'));
  const impossible = [
    join(home, 'file'),
    join(home, 'file', 'x'),
    '/dev/null/x',
    join(home, 'x'.repeat(300)),
    join(home, 'link'),
  ];
  for (const [at, dataDir] of impossible.entries()) {
    const refusal = at === 0 ? await refusalOf({ DATA_DIR: dataDir }) : await messageOf(readSecrets(dataDir));
    t.ok(refusal.startsWith(`DATA_DIR ${dataDir} cannot be used (`), refusal);
    t.match(refusal, whatToDo);
  }
});

t.test(
  'if the system says ENOENT for an existing folder, the start ends',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const began = Date.now();
    t.match(await lastWordsOf({ DATA_DIR: '/proc/x' }), /^DATA_DIR \/proc\/x cannot be used \(ENOENT/);
    t.match(await messageOf(readSecrets('/proc/x/y/z')), whatToDo);
    t.ok(Date.now() - began < 60_000);
  },
);

t.test('a full disk is named, as another folder is not all that helps', async (t) => {
  for (const reason of ['ENOSPC: no space left on device, write', 'EDQUOT: disk quota exceeded, write']) {
    const error = Object.assign(new Error(reason), { code: reason.split(':')[0] });
    t.equal(
      unusableDataDir('/data', error).message,
      `the disk of DATA_DIR /data is full (${reason}): free some space, or set it to another folder`,
    );
  }
});

t.test('with an external database the journal still needs it, but a node without mail does not', async (t) => {
  const env = testEnv(await createDatabase(), { DATA_DIR: '/dev/null/x' });
  t.match(await refusalOf(env), /^DATA_DIR \/dev\/null\/x cannot be used/);
  t.match(
    await refusalOf({ ...env, ROLES: 'api', HTTP_HOST: '192.0.2.1' }),
    /^cannot listen on HTTP_HOST/,
    'it gets further',
  );
});

t.test('only its owner can read the secrets or write in the folder, however others came to these rights', async (t) => {
  const dataDir = await makeFolder(t);
  const file = join(dataDir, 'secrets.json');
  const modes = async () => [(await stat(dataDir)).mode & 0o777, (await stat(file)).mode & 0o777];
  await readSecrets(dataDir);
  t.strictSame(await modes(), [0o755, 0o600]);
  await chmod(dataDir, 0o777);
  await chmod(file, 0o644);
  await readSecrets(dataDir);
  t.strictSame(await modes(), [0o755, 0o600]);
});

t.test('folders that are not there are made, for every user to pass through, whatever the umask', async (t) => {
  const home = await makeFolder(t);
  const folders = ['a', 'a/b', 'a/b/c'].map((folder) => join(home, folder));
  const umask = process.umask(0o077);
  const secrets = await readSecrets(folders.at(-1) ?? '').finally(() => process.umask(umask));
  t.ok(secrets.encryptionKey);
  for (const folder of folders) t.equal((await stat(folder)).mode & 0o777, 0o711, folder);
});

t.test('secrets that cannot be put in place leave no copy behind', async (t) => {
  const dataDir = await makeFolder(t);
  const secrets = await readSecrets(dataDir);
  await rm(join(dataDir, 'secrets.json'));
  await mkdir(join(dataDir, 'secrets.json'));
  t.match(await messageOf(writeSecrets(dataDir, secrets)), /^DATA_DIR .* cannot be used \(EISDIR/);
  t.same(await readdir(dataDir), ['secrets.json']);
});

t.test('damaged or missing secrets are not replaced', async (t) => {
  const dataDir = await makeFolder(t);
  const file = join(dataDir, 'secrets.json');
  const whole = await readSecrets(dataDir);
  t.same(await readSecrets(dataDir), whole);
  t.same(await readdir(dataDir), ['secrets.json']);
  const left = ['secrets.json.0123456789ab.writing', 'secrets.json.ba9876543210.writing', 'secrets.json.202611261355'];
  for (const name of left) await writeFile(join(dataDir, name), '');
  const hourAgo = new Date(Date.now() - 3_600_000);
  for (const name of [left[0], left[2]]) await utimes(join(dataDir, name ?? ''), hourAgo, hourAgo);
  t.same(await readSecrets(dataDir), whole);
  t.same(
    (await readdir(dataDir)).sort(),
    ['secrets.json', ...left.slice(1)].sort(),
    'leftovers of a killed process are gone',
  );
  for (const name of left.slice(1)) await rm(join(dataDir, name));
  const damaged: [string, RegExp][] = [
    ['', /it is not JSON/],
    [(await readFile(file, 'utf8')).slice(0, 90), /it is not JSON/],
    ['null', /it has no databasePassword/],
    [JSON.stringify({ ...whole, jwtSecret: undefined }), /it has no jwtSecret/],
    [JSON.stringify({ ...whole, encryptionKey: 7 }), /it has no encryptionKey/],
    [JSON.stringify({ ...whole, encryptionKey: 'c2hvcnQ=' }), /its encryptionKey is not 32 bytes/],
    [JSON.stringify({ ...whole, nextEncryptionKey: 'c2hvcnQ=' }), /its nextEncryptionKey is not 32 bytes/],
    [JSON.stringify({ ...whole, nextEncryptionKey: 7 }), /its nextEncryptionKey is not 32 bytes/],
  ];
  for (const [text, how] of damaged) {
    await writeFile(file, text);
    const refusal = text === '' ? await refusalOf({ DATA_DIR: dataDir }) : await messageOf(readSecrets(dataDir));
    t.ok(refusal.startsWith(`DATA_DIR ${dataDir} has a damaged secrets.json (`), refusal);
    t.match(refusal, how);
    t.match(refusal, /: restore it from a backup, or set DATA_DIR to an empty folder$/);
    t.equal(await readFile(file, 'utf8'), text, 'it is left as it is');
  }
  await rm(file);
  await mkdir(file);
  t.match(await messageOf(readSecrets(dataDir)), /cannot be used \(EISDIR/);
  await rm(file, { recursive: true });
  await symlink('elsewhere.json', file);
  t.match(
    await messageOf(readSecrets(dataDir)),
    /has a secrets\.json that links to elsewhere\.json, which does not exist: restore that file/,
    'none are made that nothing would keep',
  );
  await rm(file);
  await mkdir(join(dataDir, 'postgres', 'base'), { recursive: true });
  t.match(await messageOf(readSecrets(dataDir)), /has a database but no secrets\.json, .*: restore it from a backup/);
  t.same(await readdir(dataDir), ['postgres'], 'no others are made');
});

t.test('something else in the place of the database', async (t) => {
  const dataDir = await makeFolder(t);
  await mkdir(join(dataDir, 'postgres.log'));
  t.match(
    await refusalOf({ DATA_DIR: dataDir }),
    /^DATA_DIR .* cannot be used \(EISDIR: .*postgres\.log'\): set it to/,
  );
  const other = await makeFolder(t);
  await writeFile(join(other, 'postgres'), '');
  t.match(await refusalOf({ DATA_DIR: other }), /^DATA_DIR .* cannot be used \(ENOTDIR: .*postgres'\): set it to/);
  t.same(await readdir(other), ['postgres'], 'no secrets are made for a database that cannot be seen');
});

t.test('an end in the middle of a start that fails is no error of its own', async (t) => {
  const dataDir = await makeFolder(t);
  await readSecrets(dataDir);
  await writeFile(join(dataDir, 'postgres'), '');
  const stops: Stops = [];
  const endings: Promise<string>[] = [];
  // As a signal would, while the server is starting.
  const say = () =>
    queueMicrotask(() => {
      const steps = stops.length;
      endings.push(stopAll(stops).then(() => `${steps} step`, String));
    });
  await t.rejects(start(readConfig({ DATA_DIR: dataDir }), { log: silentLog, say, stops }), /cannot be used/);
  t.same(await Promise.all(endings), ['1 step']);
});

t.test('a start that fails says why, even if what it had begun does not stop', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const unkind = `const { kill } = process; process.kill = (id, signal) => { if (signal === 'SIGINT') throw new Error('no'); return kill(id, signal); }`;
  const env = { DATA_DIR: dataDir, HTTP_PORT: String((taken.address() as AddressInfo).port) };
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(unkind)}`;
  const { stderr } = (await runSendwright({ ...env, NODE_OPTIONS })) as { stderr: string };
  const dir = join(await realpath(dataDir), 'postgres');
  await stopPostmaster(findPostmaster(dir)?.pid ?? 0, dir, silentLog);
  t.match(stderr.trim().split('\n').at(-1), /^sendwright: HTTP_PORT \d+ is in use by another program/);
});

t.test('a signal in the middle of a start ends what there is of the node, and the start goes no further', async (t) => {
  const url = await createDatabase();
  const env = testEnv(url, { DATA_DIR: await makeFolder(t) });
  const stops: Stops = [];
  let ended: Promise<void> | undefined;
  const said: string[] = [];
  const say = (sentence: string) => {
    said.push(sentence);
    ended ??= stopAll(stops);
  };
  await t.rejects(start(readConfig(env), { log: silentLog, say, stops }));
  await ended;
  t.same(said, ['Preparing the schema'], 'and it does not say that it is ready');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  await eventually(async () => {
    const { rows } = await client.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    );
    return rows.length === 0;
  });
  t.same((await client.query('SELECT FROM nodes')).rows, [], 'no node has begun');
});

t.test('a node that is ended while it puts itself on a list takes itself off again', async (t) => {
  const url = await createDatabase();
  const config = readConfig(testEnv(url, { DATA_DIR: await makeFolder(t) }));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  const count = async (text: string) => (await client.query(text)).rowCount;
  for (const list of ['key_holders', 'nodes']) {
    const warnings: string[] = [];
    const log = Object.assign(Object.create(silentLog) as Logger, {
      warn: (_: unknown, what: string) => warnings.push(what),
    });
    const stops: Stops = [];
    await client.query(`BEGIN; LOCK TABLE ${list}`);
    const starting = startNode(config, { ...foundationOf(config), log }, stops);
    const refused = t.rejects(starting);
    const waiting = `SELECT FROM pg_locks WHERE relation = '${list}'::regclass AND mode = 'RowExclusiveLock' AND NOT granted`;
    await eventually(async () => (await count(waiting)) !== 0);
    const ended = stopAll(stops);
    await client.query('COMMIT');
    await refused;
    await ended;
    t.notOk(warnings.includes('a component did not stop cleanly'), list);
    t.equal(await count(`SELECT FROM ${list}`), 0, list);
  }
});

t.test('files that variables name are checked before anything is begun', async (t) => {
  const folder = await makeFolder(t);
  const file = join(folder, 'file');
  await writeFile(file, '{}');
  for (const [env, refusal] of [
    [{ PROVIDERS_FILE: file }, /^PROVIDERS_FILE \S.* is wrong: must be an array$/],
    [{ SMTP_TLS_CERT: file, SMTP_TLS_KEY: file, SUBMISSION_PORT: '2587' }, /^SMTP_TLS_CERT .* does not contain a cert/],
  ] as const)
    t.match(await refusalOf({ ...env, DATA_DIR: join(folder, 'data') }), refusal);
  t.same(await readdir(folder), ['file'], 'there is no database yet');
});

t.test('two simultaneous first starts have the same secrets', async (t) => {
  const dataDir = await makeFolder(t);
  const script = `
    const { readSecrets } = await import(${JSON.stringify(new URL('../../src/process/data-dir.ts', import.meta.url).href)});
    process.stdout.write('.');
    process.stdin.once('data', async () => {
      console.log((await readSecrets(${JSON.stringify(dataDir)})).databasePassword);
      process.exit();
    });`;
  const readers = Array.from({ length: 6 }, () =>
    spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );
  await Promise.all(readers.map(({ stdout }) => once(stdout, 'data')));
  const passwords = readers.map(async ({ stdin, stdout }) => {
    stdin.write('go\n');
    return String((await once(stdout, 'data'))[0]);
  });
  t.equal(new Set(await Promise.all(passwords)).size, 1);
  t.same(await readdir(dataDir), ['secrets.json']);
});

t.test(
  'a folder of another user',
  { skip: isRoot ? false : 'needs root, who alone can give a folder away' },
  async (t) => {
    const home = await makeFolder(t);
    // The kernel lets root write anywhere, so the check runs as another user.
    const script = `
    const { makeDataDir, readSecrets } = await import(${JSON.stringify(new URL('../../src/process/data-dir.ts', import.meta.url).href)});
    process.setgid(65534);
    process.setuid(65534);
    for (const use of [makeDataDir, readSecrets])
      for (const folder of ['.', './new']) await use(folder).catch((error) => console.log(error.message));
    await readSecrets('./shared').then(() => console.log('usable'), (error) => console.log(error.message));`;
    const shared = join(home, 'shared');
    await mkdir(shared);
    await chmod(shared, 0o777);
    for (const folder of [home, shared]) await chown(folder, 1, 1);
    const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], {
      cwd: home,
    });
    let said = '';
    child.stdout.on('data', (chunk) => (said += chunk));
    await once(child, 'close');
    const lines = said.trim().split('\n');
    t.equal(lines.pop(), 'usable', 'one that all may write in serves, though its rights cannot be taken');
    t.equal(lines.length, 4, said);
    for (const line of lines)
      t.match(line, /^DATA_DIR \S+ cannot be used \(EACCES: .*\): set it to a folder that this user can write$/);
  },
);
