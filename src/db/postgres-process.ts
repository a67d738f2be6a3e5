import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../log.ts';
import { type Binaries, identity, serverEnv } from './postgres-binaries.ts';
import { type Cluster, isAlive } from './postgres-cluster.ts';

/** The first process of a PostgreSQL server and the port that it listens on. */
export interface Postmaster {
  pid: number;
  port: number;
}

const LOG_LIMIT = 10 * 1024 * 1024;
/** No system gives out this process id. */
const NO_PROCESS = 2147483647;

const defaults = {
  listen_addresses: '127.0.0.1',
  // A socket's path may have no more than 107 bytes; nothing here needs one.
  unix_socket_directories: '',
  max_connections: '200',
  // What PostgreSQL assumes is a small machine of long ago. Fewer checkpoints mean fewer whole pages in the log; after a
  // crash, two gigabytes of it are read again in well under a minute.
  shared_buffers: '256MB',
  wal_buffers: '16MB',
  max_wal_size: '2GB',
  checkpoint_timeout: '10min',
  random_page_cost: '1.1',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  // Statements and details would put addresses and mail into the log.
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
};

/** The server that runs on this data directory, by its postmaster.pid; undefined when there is none or it is long dead. */
export function findPostmaster(dir: string): Postmaster | undefined {
  const [pid, , , port] = readPidFile(dir)?.split('\n') ?? [];
  return pid && port && serves(Number(pid), dir) ? { pid: Number(pid), port: Number(port) } : undefined;
}

/** Starts a server in a session of its own, so that Ctrl-C in the terminal goes past it. It outlives this process. */
export async function spawnPostmaster(
  cluster: Cluster,
  binaries: Binaries,
  settings: Record<string, string>,
  logFile: string,
): Promise<ChildProcess> {
  freePidFile(cluster.dir);
  const all = { ...defaults, port: String(await freePort()), ...settings };
  const args = ['-D', cluster.dir, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const output = openLog(logFile);
  try {
    const stdio: ['ignore', number, number] = ['ignore', output, output];
    const child = spawn(binaries.postgres, args, {
      cwd: '/',
      env: serverEnv,
      detached: true,
      stdio,
      ...identity(cluster.user),
    });
    // A spawn that fails has no pid; whoever waits for the server sees that it never comes.
    child.on('error', (error) => fs.appendFileSync(logFile, `${error.message}\n`));
    child.unref();
    return child;
  } finally {
    fs.closeSync(output);
  }
}

/** Fast shutdown, which ends every session and writes a checkpoint; the hard way when that takes more than 20 s. */
export async function stopPostmaster(pid: number, dir: string, log: Logger): Promise<void> {
  for (const [signal, seconds] of [
    ['SIGINT', 20],
    ['SIGQUIT', 10],
    ['SIGKILL', 5],
  ] as const) {
    if (!serves(pid, dir)) return;
    if (signal !== 'SIGINT') log.warn({ pid, signal }, 'the embedded PostgreSQL does not stop; using force');
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(20)) {
      if (!serves(pid, dir)) return;
    }
  }
}

/** The last lines that the server wrote: what to show when it does not come up. */
export function lastLines(logFile: string, count = 6): string {
  const text = fs.existsSync(logFile) ? fs.readFileSync(logFile, 'utf8') : '';
  return text.trim().split('\n').slice(-count).join('\n');
}

/**
 * True when the process with this id is a server on this very directory. Ids are used again, after a restart of the
 * machine or of a container at once, so being alive proves nothing; a server's working directory does.
 */
export function serves(pid: number, dir: string): boolean {
  if (!isAlive(pid)) return false;
  if (!fs.existsSync('/proc/self/cwd'))
    return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout.includes(dir);
  try {
    const [cwd, own] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(dir)];
    return cwd.dev === own.dev && cwd.ino === own.ino;
  } catch (error) {
    // Root in a container may not look at other users' processes, apart from their arguments. A zombie has neither.
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
  }
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(dir);
  } catch {
    return false;
  }
}

function readPidFile(dir: string): string | undefined {
  try {
    return fs.readFileSync(path.join(dir, 'postmaster.pid'), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * PostgreSQL will not start while the process named in postmaster.pid is alive, even if that is another program by now.
 * Only the id is taken out: from the rest PostgreSQL sees for itself whether anything still uses the old server's memory.
 */
function freePidFile(dir: string): void {
  const text = readPidFile(dir);
  const pid = Number(text?.split('\n', 1)[0]);
  if (text && pid > 0 && isAlive(pid) && !serves(pid, dir)) {
    fs.writeFileSync(path.join(dir, 'postmaster.pid'), text.replace(/^\d+/, String(NO_PROCESS)));
  }
}

function openLog(file: string): number {
  const log = fs.openSync(file, 'a', 0o600);
  if (fs.fstatSync(log).size > LOG_LIMIT) fs.ftruncateSync(log);
  return log;
}

async function freePort(): Promise<number> {
  const probe = net.createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as net.AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
