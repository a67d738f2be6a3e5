import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type EmbeddedOptions, findRunning, startEmbedded } from '../../src/db/embedded.ts';
import { serverUser } from '../../src/db/postgres-binaries.ts';
import { initdbFailure, serverFailure } from '../../src/db/postgres-cluster.ts';
import {
  buffersIn,
  findPostmaster,
  lastLines,
  linesAfter,
  sizeOf,
  stopPostmaster,
} from '../../src/db/postgres-process.ts';
import { silentLog } from '../../src/log.ts';

const password = "p ä:/@'%";
const fast = { fsync: 'off', full_page_writes: 'off' };
const isRoot = process.getuid?.() === 0;

/** A data directory with a space and more in its name; whatever still runs on it is stopped afterwards. */
function place(t: Test, parent = os.tmpdir()): EmbeddedOptions {
  const home = fs.mkdtempSync(path.join(parent, 'send wright ü '));
  // mkdtemp closes the folder to the user that PostgreSQL runs as.
  fs.chmodSync(home, 0o755);
  const dataDir = path.join(home, 'data');
  t.teardown(async () => {
    const cluster = path.join(dataDir, 'postgres');
    const real = fs.existsSync(cluster) ? fs.realpathSync(cluster) : cluster;
    const postmaster = findPostmaster(real);
    if (postmaster) await stopPostmaster(postmaster.pid, real, silentLog);
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 10 });
  });
  return { dataDir, password, log: silentLog, settings: fast, systemDir: path.join(os.tmpdir(), path.basename(home)) };
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const withoutSocket = (url: string) => url.replace(/&host=.*/, '');

/** Another process that starts the database and then just holds it. */
async function otherOwner(t: Test, { dataDir, settings, systemDir }: EmbeddedOptions): Promise<ChildProcess> {
  const script = `
    const { startEmbedded } = await import(${JSON.stringify(new URL('../../src/db/embedded.ts', import.meta.url).href)});
    const log = (await import(${JSON.stringify(new URL('../../src/log.ts', import.meta.url).href)})).silentLog;
    await startEmbedded({ log, ...${JSON.stringify({ dataDir, password, settings, systemDir })} });
    console.log('ready');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let complaint = '';
  child.stderr.on('data', (chunk) => (complaint += chunk));
  t.teardown(() => child.kill('SIGKILL'));
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'close').then(() => Promise.reject(new Error(complaint))),
  ]);
  return child;
}

t.test('on a small machine PostgreSQL leaves memory to the service', async (t) => {
  const sharedIn = (memory: number) => buffersIn(memory * 1024 ** 2).shared_buffers;
  t.strictSame([256, 512, 1_024, 2_048, 24_576].map(sharedIn), ['64MB', '64MB', '128MB', '256MB', '256MB']);
  t.strictSame(buffersIn(1024 ** 3), { shared_buffers: '128MB', wal_buffers: '8MB' });
});

t.test('the first start creates the cluster, and the second finds what was written', async (t) => {
  const at = place(t);
  const told: string[] = [];
  const first = await startEmbedded({ ...at, onProgress: (sentence) => told.push(sentence) });
  t.match(first.url, /^postgres:\/\/sendwright:.+@127\.0\.0\.1:\d+\/sendwright\?sslmode=disable&host=[^&]+$/);
  const byTcp = withoutSocket(first.url);
  for (const [url, through] of [
    [first.url, null],
    [byTcp, '127.0.0.1'],
  ] as const) {
    t.same(await query(url, 'SELECT host(inet_server_addr()) AS through'), [{ through }]);
    await t.rejects(query(url.replace(/:[^:@]+@/, ':wrong@'), 'SELECT 1'), { code: '28P01' });
  }
  t.equal(findRunning(at.dataDir, password)?.url, first.url);
  const [made] = await query(
    first.url,
    `SELECT current_user AS who, pg_encoding_to_char(encoding) AS encoding, datlocprovider AS provider, datlocale AS locale
     FROM pg_database WHERE datname = current_database()`,
  );
  t.match(made, { who: 'sendwright', encoding: 'UTF8', provider: 'b', locale: 'C.UTF-8' });
  await query(first.url, 'CREATE TABLE kept AS SELECT 7 AS n');
  await Promise.all([first.stop(), first.stop()]);
  t.equal(findRunning(at.dataDir, password)?.url, undefined);
  t.equal(told.length, 1, 'the first start says why it takes long');

  const second = await startEmbedded({ ...at, onProgress: (sentence) => told.push(sentence) });
  t.same(await query(second.url, 'SELECT n FROM kept'), [{ n: 7 }]);
  t.equal(told.length, 1);
  t.same(fs.readdirSync(at.dataDir).sort(), ['postgres', 'postgres.log'], 'nothing is left of initdb');
  await second.stop();
});

t.test('no other database takes the place of one that is gone, as from a volume that is not mounted', async (t) => {
  const at = place(t);
  const inside = (name: string) => path.join(at.dataDir, name);
  await (await startEmbedded(at)).stop();
  fs.renameSync(inside('postgres'), inside('away'));
  const message = `${at.dataDir} had a database that is gone, only its postgres.log is there: mount or restore ${inside('postgres')}, or remove ${inside('postgres.log')} to start with an empty database`;
  await t.rejects(startEmbedded(at), { message });
  fs.mkdirSync(inside('postgres'));
  await t.rejects(startEmbedded(at), { message }, 'nor into an empty mount point');
  t.strictSame(fs.readdirSync(inside('postgres')), []);
  fs.rmSync(inside('postgres.log'));
  await (await startEmbedded(at)).stop();
  t.ok(fs.existsSync(inside('postgres/PG_VERSION')), 'unless the operator wants it');
});

t.test('the server of a process that was killed is taken over', async (t) => {
  const at = place(t);
  const owner = await otherOwner(t, at);
  const before = findRunning(at.dataDir, password)?.url ?? '';
  await query(before, 'CREATE TABLE kept AS SELECT 7 AS n');
  owner.kill('SIGKILL');
  const { pid = 0 } = findPostmaster(fs.realpathSync(path.join(at.dataDir, 'postgres'))) ?? {};
  process.kill(pid, 'SIGSTOP');
  await t.rejects(
    startEmbedded({ ...at, answerMs: 100 }),
    { message: new RegExp(`does not answer \\(timeout expired\\): end its process with kill -9 ${pid}, `) },
    'one that is frozen is named',
  );
  process.kill(pid, 'SIGCONT');
  const server = await startEmbedded(at);
  t.equal(server.url, before, 'the same server, on the same port');
  t.same(await query(server.url, 'SELECT n FROM kept'), [{ n: 7 }]);
  await server.stop();
  t.equal(findRunning(at.dataDir, password)?.url, undefined, 'it is ours to stop');
});

t.test('two first starts at once: one wins, the other is refused and does no harm', async (t) => {
  const at = place(t);
  const [other, mine] = await Promise.allSettled([otherOwner(t, at), startEmbedded(at)]);
  t.not(other.status, mine.status);
  const lost = other.status === 'rejected' ? other : mine;
  t.ok(
    lost.status === 'rejected' &&
      lost.reason.message.includes(`DATA_DIR ${at.dataDir} is in use by another Sendwright process`),
  );
  t.same(await query(findRunning(at.dataDir, password)?.url ?? '', 'SELECT 1 AS n'), [{ n: 1 }]);
  if (mine.status === 'fulfilled') await mine.value.stop();
});

t.test('obstacles to a start', async (t) => {
  const at = place(t);
  const abandoned = path.join(at.dataDir, 'postgres.initdb-99999999');
  fs.mkdirSync(path.join(abandoned, 'cluster', 'base'), { recursive: true });
  const first = await startEmbedded(at);
  t.notOk(fs.existsSync(abandoned), 'what a killed initdb left is removed');
  await first.stop();

  const cluster = fs.realpathSync(path.join(at.dataDir, 'postgres'));
  // That of another container, whose processes have numbers of their own, in a folder that both have.
  const elsewhere = net.createServer().listen(path.join(cluster, '.s.PGSQL.5999'));
  await once(elsewhere, 'listening');
  const itsFiles = {
    '.s.PGSQL.5999.lock': '99999999\n',
    'postmaster.pid': `99999999\n${cluster}\n1700000000\n5999\n.\n\n`,
  };
  for (const [file, text] of Object.entries(itsFiles)) fs.writeFileSync(path.join(cluster, file), text);
  await t.rejects(startEmbedded(at), {
    message: `DATA_DIR ${at.dataDir} is in use by a Sendwright in another container: stop that one, or set another DATA_DIR`,
  });
  for (const [file, text] of Object.entries(itsFiles))
    t.equal(fs.readFileSync(path.join(cluster, file), 'utf8'), text, `its ${file} is left alone`);
  elsewhere.close();

  const user = serverUser();
  const stranger = spawn('sleep', ['600'], { stdio: 'ignore', ...(user && { uid: user.uid, gid: user.gid }) });
  t.teardown(() => stranger.kill());
  fs.writeFileSync(path.join(cluster, 'postmaster.pid'), `${stranger.pid}\n${cluster}\n1700000000\n1\n\n127.0.0.1\n`);
  if (user) fs.chownSync(path.join(cluster, 'postmaster.pid'), user.uid, user.gid);
  const second = await startEmbedded(at);
  t.same(
    await query(second.url, 'SELECT 1 AS n'),
    [{ n: 1 }],
    'a process id that was used again is not mistaken for the server',
  );
  t.equal(stranger.exitCode, null);
  await second.stop();

  // As one that replays a long log, this server answers nobody for as long as it likes.
  const standby = path.join(cluster, 'standby.signal');
  fs.writeFileSync(standby, '');
  const ending = new AbortController();
  const endless = startEmbedded({ ...at, settings: { ...fast, hot_standby: 'off' }, signal: ending.signal });
  for (let left = 3_000; left > 0 && !findPostmaster(cluster); left--) await sleep(20);
  ending.abort();
  const patience = sleep(60_000, 'it goes on', { ref: false });
  t.equal(await Promise.race([endless.catch(() => 'it was ended'), patience]), 'it was ended');
  t.equal(findPostmaster(cluster), undefined, 'and leaves no server behind');
  fs.rmSync(standby);

  await t.rejects(startEmbedded({ ...at, password: 'other' }), /does not accept the password in/);
  await t.rejects(
    startEmbedded({ ...at, settings: { max_connections: 'many' } }),
    /invalid value for parameter "max_connections"/,
  );
  fs.writeFileSync(path.join(cluster, 'PG_VERSION'), '17\n');
  await t.rejects(startEmbedded(at), /was created by PostgreSQL 17, but this release has 18/);
  fs.rmSync(path.join(cluster, 'PG_VERSION'));
  await t.rejects(startEmbedded(at), /is not a PostgreSQL data directory/);
});

t.test('a full disk does not empty the file that names the server', async (t) => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pid '));
  t.teardown(() => fs.rmSync(dir, { recursive: true }));
  const file = path.join(dir, 'postmaster.pid');
  const text = `${process.pid}\n${dir}\n1700000000\n1\n\n127.0.0.1\n`;
  fs.writeFileSync(file, text);
  const script = `
    const { spawnPostmaster } = await import(${JSON.stringify(new URL('../../src/db/postgres-process.ts', import.meta.url).href)});
    await spawnPostmaster({ dir: ${JSON.stringify(dir)} }, { postgres: '/nowhere' }, {}, '/dev/null');`;
  // No file of this process can grow.
  const shell = ['-c', 'ulimit -f 0; exec "$0" --no-warnings --input-type=module -e "$1"', process.execPath, script];
  const { status, stderr } = spawnSync('/bin/sh', shell, { encoding: 'utf8' });
  t.equal(status, 1);
  t.match(stderr, /EFBIG/);
  t.equal(fs.readFileSync(file, 'utf8'), text);
});

t.test('a folder name that is too long for a socket, and sockets that nobody listens on', async (t) => {
  const at = place(t);
  const far = path.join(at.dataDir, 'x'.repeat(100));
  const server = await startEmbedded({ ...at, dataDir: far, systemDir: path.join(far, 'system') });
  t.equal(server.url, withoutSocket(server.url));
  t.same(await query(server.url, 'SELECT 1 AS n'), [{ n: 1 }], 'by TCP, as always');
  await server.stop();

  const first = await startEmbedded(at);
  const cluster = fs.realpathSync(path.join(at.dataDir, 'postgres'));
  const sockets = () => fs.readdirSync(cluster).filter((name) => name.startsWith('.s.'));
  const { pid = 0, port } = findPostmaster(cluster) ?? {};
  t.same(sockets(), [`.s.PGSQL.${port}`, `.s.PGSQL.${port}.lock`]);
  process.kill(pid, 'SIGKILL');
  await first.stop();
  fs.writeFileSync(path.join(cluster, `.s.${process.pid}`), 'of a start with the same id that was killed');
  const second = await startEmbedded(at);
  t.equal(sockets().length, 2, 'those of killed processes are gone');
  t.same(await query(second.url, 'SELECT 1 AS n'), [{ n: 1 }]);
  await second.stop();
  t.same(sockets(), []);
});

t.test('the server crashes', async (t) => {
  const at = place(t);
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const lost: string[] = [];
  const server = await startEmbedded({ ...at, log, onLost: (reason) => lost.push(reason) });
  const heard = async (pattern: RegExp) => {
    for (let waited = 0; waited < 60_000; waited += 50) {
      const line = lines.find(({ msg }) => pattern.test(msg));
      if (line) return line;
      await sleep(50);
    }
    return undefined;
  };

  const backend = new pg.Client(server.url);
  backend.on('error', () => {});
  await backend.connect();
  const [{ pid }] = (await backend.query('SELECT pg_backend_pid() AS pid')).rows;
  process.kill(pid, 'SIGKILL');
  t.match(await heard(/has ended all sessions/), { level: 40 });
  t.same(await query(server.url, 'SELECT 1 AS n'), [{ n: 1 }], 'it recovers by itself after one of its processes died');
  const locks = () => query(server.url, "SELECT FROM pg_locks WHERE locktype = 'advisory'");
  for (let waited = 0; waited < 60_000 && (await locks()).length === 0; waited += 50) await sleep(50);
  t.equal((await locks()).length, 1, 'and is locked again');

  process.kill(findPostmaster(fs.realpathSync(path.join(at.dataDir, 'postgres')))?.pid ?? 0, 'SIGKILL');
  t.match(await heard(/is lost/), { level: 50 });
  t.match(lost, [/^the embedded PostgreSQL has stopped unexpectedly: start Sendwright again, .*postgres\.log/]);
  await server.stop();
  t.equal(lost.length, 1, 'a stop that was asked for is not a loss');
});

t.test('another process takes over the server while the lock is free for a moment', async (t) => {
  const at = place(t);
  const lost = Promise.withResolvers<string>();
  const server = await startEmbedded({ ...at, onLost: lost.resolve });
  // The lock belongs to the database postgres.
  const url = server.url.replace('/sendwright?', '/postgres?');
  const other = new pg.Client(url);
  await other.connect();
  // A process that waits gets the lock at the moment in which its holder's session ends.
  const taken = other.query("SELECT pg_advisory_lock(hashtext('sendwright'), hashtext('data directory'))");
  const waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
  while ((await query(url, waits)).length === 0) await sleep(20);
  await query(url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
  await taken;
  t.match(await lost.promise, /is in use by another Sendwright process/);
  await server.stop();
  t.same(await query(url, 'SELECT 1 AS n'), [{ n: 1 }], 'the other process owns the server now, so it is left running');
  await other.end();
});

t.test('as root, in a folder that only root can enter', { skip: !isRoot && 'needs root' }, async (t) => {
  const at = place(t, os.homedir());
  const { systemDir = '' } = at;
  t.teardown(() => fs.rmSync(systemDir, { recursive: true, force: true }));
  const told: string[] = [];
  const tell = { onProgress: (sentence: string) => told.push(sentence) };
  // As on a hardened machine.
  const umask = process.umask(0o077);
  const first = await startEmbedded({ ...at, ...tell }).finally(() => process.umask(umask));
  const link = path.join(at.dataDir, 'postgres');
  const whereabouts = `The database is in ${fs.realpathSync(link)}, where ${link} links to: back up both folders`;
  t.same(told.slice(1), [whereabouts], 'it says where the database really is');
  t.ok(fs.lstatSync(link).isSymbolicLink());
  t.equal(path.dirname(fs.realpathSync(link)), systemDir);
  await query(first.url, 'CREATE TABLE kept AS SELECT 7 AS n');
  await first.stop();

  const second = await startEmbedded({ ...at, ...tell });
  t.same(told.slice(2), [whereabouts], 'at every start');
  t.same(await query(second.url, 'SELECT n FROM kept'), [{ n: 7 }], 'the link is followed');
  await second.stop();

  // As a backup that followed the link is restored.
  const cluster = fs.realpathSync(link);
  fs.unlinkSync(link);
  execFileSync('mv', [cluster, link]);
  await t.rejects(startEmbedded(at), /cannot enter .*: move that folder into .* and put a link to it in its place/);
  execFileSync('mv', [link, cluster]);
  fs.symlinkSync(cluster, link);
  const restored = await startEmbedded(at);
  t.same(await query(restored.url, 'SELECT n FROM kept'), [{ n: 7 }], 'what the line says to do is enough');
  await restored.stop();

  fs.rmSync(fs.realpathSync(link), { recursive: true });
  await t.rejects(
    startEmbedded(at),
    /which does not exist: restore it, or remove the link and the postgres\.log beside it to start/,
  );
  for (const name of ['postgres', 'postgres.log']) fs.rmSync(path.join(at.dataDir, name));
  await (await startEmbedded(at)).stop();
  fs.rmSync(at.dataDir, { recursive: true });
  const third = await startEmbedded(at);
  await t.rejects(query(third.url, 'SELECT n FROM kept'), { code: '42P01' }, 'without DATA_DIR it starts afresh');
  await third.stop();
});

t.test('a copy without its owners or modes: the start says how to give them back', async (t) => {
  const at = place(t);
  const first = await startEmbedded(at);
  await query(first.url, 'CREATE TABLE kept AS SELECT 7 AS n');
  await first.stop();
  const dir = path.join(at.dataDir, 'postgres');

  const refused = async (pattern: RegExp) => {
    const message = await startEmbedded(at).then(
      () => 'it started',
      (error: Error) => error.message,
    );
    t.match(message, pattern);
    // What comes last is a command to paste.
    execFileSync('sh', ['-c', /(chown -R|chmod) .*$/.exec(message)?.[0] ?? 'false']);
  };
  fs.chmodSync(dir, 0o755);
  await refused(/is open to other users, .*: close it with chmod 700 '/);
  if (isRoot) {
    execFileSync('chown', ['-R', 'root:', dir]);
    await refused(/belongs to root, .* PostgreSQL runs as the user .*: give it back with chown -R \d+:\d+ '/);
  }
  const restored = await startEmbedded(at);
  t.same(await query(restored.url, 'SELECT n FROM kept'), [{ n: 7 }], 'what the lines say to do is enough');
  await restored.stop();
});

t.test('a failed initdb is reported by its reason only', async (t) => {
  const begun = `The files belonging to this database system will be owned by user "postgres".
creating subdirectories ... ok
selecting dynamic shared memory implementation ... posix
running bootstrap script ... `;
  const full = `2026-11-26 20:00:00.000 UTC [7] FATAL:  could not write to file "pg_wal/xlogtemp.7": No space left on device
child process exited with exit code 1
initdb: removing data directory "/data/postgres"`;
  t.equal(
    initdbFailure(begun + full, 'exit code 1'),
    'the disk is full, so the database could not be created (FATAL:  could not write to file "pg_wal/xlogtemp.7": No space left on device): free some space, or set another DATA_DIR',
  );
  t.equal(
    initdbFailure(
      `${begun}initdb: error: could not change permissions of "/data": Read-only file system\n`,
      'exit code 1',
    ),
    'the database could not be created (initdb: error: could not change permissions of "/data": Read-only file system): fix this, or set another DATA_DIR',
  );
  t.equal(
    initdbFailure('', 'SIGKILL'),
    'the database could not be created (initdb: SIGKILL): fix this, or set another DATA_DIR',
  );
});

t.test('a server that does not start for want of disk space says so, instead of showing its log', async (t) => {
  const log = `2026-11-27 17:55:52.645 UTC [9] LOG:  redo done at 0/1E67AC8
2026-11-27 17:55:52.652 UTC [9] FATAL:  could not write to file "pg_wal/xlogtemp.9": No space left on device
2026-11-27 17:55:52.663 UTC [7] LOG:  database system is shut down`;
  t.equal(
    serverFailure('Connection terminated unexpectedly', log, '/data/postgres.log'),
    'the disk is full, so the embedded PostgreSQL cannot start (FATAL:  could not write to file "pg_wal/xlogtemp.9": No space left on device): free some space, and start again',
  );
  t.equal(
    serverFailure('it did not start', 'a\n  b', '/data/postgres.log'),
    'the embedded PostgreSQL cannot be reached (it did not start): fix the error at the end of /data/postgres.log: a b',
  );
  const since = `2026-11-28 01:36:11.678 UTC [21] LOG:  automatic recovery in progress
2026-11-28 01:36:11.702 UTC [21] FATAL:  could not access file "x": Permission denied
${'2026-11-28 01:36:11.733 UTC [14] LOG:  terminating any other active server processes\n'.repeat(6)}`;
  t.equal(
    serverFailure('it did not start', since, '/data/postgres.log'),
    'the embedded PostgreSQL cannot be reached (it did not start): fix the error at the end of /data/postgres.log: FATAL:  could not access file "x": Permission denied',
    'and of another error the line that names it, however many follow',
  );
  const file = path.join(t.testdir({ 'postgres.log': log }), 'postgres.log');
  const size = sizeOf(file);
  fs.appendFileSync(file, since);
  t.equal(linesAfter(file, size), since, 'what was logged before this start is no reason');
  t.equal(lastLines(file).split('\n').length, 6);
});
