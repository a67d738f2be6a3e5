import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startEmbedded } from '../../src/db/embedded.ts';
import { isAlive } from '../../src/db/postgres-cluster.ts';
import { findPostmaster, stopPostmaster } from '../../src/db/postgres-process.ts';
import { silentLog } from '../../src/log.ts';

/**
 * One PostgreSQL for a whole run of the tests. The first test that asks for it starts a keeper, this very file as its
 * own process, which runs the server until the test runner is gone, killed or not, and then removes everything.
 */

const WAIT_SECONDS = 60;
const password = 'test';
const home = path.join(os.tmpdir(), `sendwright-tests-${process.getuid?.() ?? 0}`);
// Under tap the runner is our parent, and the same for every test file; a file run by hand is its own runner.
const runner = process.env.TAP ? process.ppid : process.pid;
let url: Promise<string> | undefined;

/**
 * A superuser's URL of the run's server; its database is empty. Every caller in one run gets the same server, or the one that
 * TEST_SERVER_URL names, such as one of an older version.
 */
export function testServerUrl(): Promise<string> {
  url ??= process.env.TEST_SERVER_URL ? Promise.resolve(process.env.TEST_SERVER_URL) : startOrJoin();
  return url;
}

async function startOrJoin(): Promise<string> {
  const dir = path.join(home, `${runner}-${startTime(runner)}`);
  fs.mkdirSync(home, { recursive: true, mode: 0o755 });
  if (makeDir(dir)) {
    // Without tap's environment: the keeper is no test, and needs no loader or coverage.
    const { PATH, TMPDIR, NODE_COMPILE_CACHE } = process.env;
    const env = {
      ...(PATH && { PATH }),
      ...(TMPDIR && { TMPDIR }),
      ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }),
    };
    const log = fs.openSync(path.join(dir, 'keeper.log'), 'a');
    const args = ['--disable-warning=ExperimentalWarning', import.meta.filename, String(runner), dir];
    spawn(process.execPath, args, { cwd: '/', detached: true, env, stdio: ['ignore', log, log] }).unref();
    fs.closeSync(log);
  }
  for (const end = Date.now() + WAIT_SECONDS * 1000; Date.now() < end; await sleep(20)) {
    for (const [file, settle] of [
      ['url', (text: string) => text],
      ['error', (text: string) => Promise.reject(new Error(text))],
    ] as const) {
      if (fs.existsSync(path.join(dir, file))) return settle(fs.readFileSync(path.join(dir, file), 'utf8'));
    }
  }
  throw new Error(`the tests' PostgreSQL did not start within ${WAIT_SECONDS} s; see ${dir}`);
}

async function keep(runnerOfTests: number, dir: string): Promise<void> {
  await removeAbandoned();
  try {
    const server = await startEmbedded({
      dataDir: dir,
      password,
      log: silentLog,
      // Each test file has its own database: autovacuum would visit all of them endlessly.
      settings: {
        fsync: 'off',
        synchronous_commit: 'off',
        full_page_writes: 'off',
        autovacuum: 'off',
        jit: 'off',
        max_connections: '400',
        scram_iterations: '1',
      },
    });
    await hashAnew(server.url);
    publish(dir, 'url', server.url);
  } catch (error) {
    publish(dir, 'error', (error as Error).message);
  }
  const mine = path.basename(dir);
  while (fs.existsSync(dir) && mine === `${runnerOfTests}-${startTime(runnerOfTests)}`) await sleep(100);
  await remove(dir);
}

/** Of a hash of one round each connection takes a quarter less of a client's processor time; what `initdb` made has 4,096. */
async function hashAnew(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`ALTER ROLE CURRENT_USER PASSWORD '${password}'`);
  await client.end();
}

/** The servers of runs whose keeper was killed as well. */
async function removeAbandoned(): Promise<void> {
  for (const name of fs.readdirSync(home)) {
    const runner = Number(name.split('-')[0]);
    if (name !== `${runner}-${startTime(runner)}`) await remove(path.join(home, name));
  }
}

async function remove(dir: string): Promise<void> {
  const entry = path.join(dir, 'postgres');
  // The link is followed: as root, with a temporary folder that others cannot enter, the cluster is elsewhere.
  const cluster = fs.existsSync(entry) ? fs.realpathSync(entry) : entry;
  const postmaster = findPostmaster(cluster);
  if (postmaster) await stopPostmaster(postmaster.pid, cluster, silentLog);
  for (const folder of [cluster, dir]) fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}

/** Distinguishes a process from a later one with the same id. `gone` if there is none. */
function startTime(pid: number): string {
  try {
    // The 22nd field; the second is the program's name in brackets and may contain anything.
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return fields[0] === 'Z' ? 'gone' : (fields[19] ?? 'gone');
  } catch {
    return fs.existsSync('/proc/self/stat') || !isAlive(pid) ? 'gone' : 'alive';
  }
}

/** Complete or not at all, for those who wait for it. */
function publish(dir: string, name: string, text: string): void {
  fs.writeFileSync(path.join(dir, `.${name}`), text);
  fs.renameSync(path.join(dir, `.${name}`), path.join(dir, name));
}

function makeDir(dir: string): boolean {
  try {
    fs.mkdirSync(dir, { mode: 0o755 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

if (import.meta.main) await keep(Number(process.argv[2]), process.argv[3] ?? '');
