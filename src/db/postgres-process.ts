import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../log.ts';
import { memoryBytes } from '../memory.ts';
import { type Binaries, identity, serverEnv } from './postgres-binaries.ts';
import { type Cluster, isAlive } from './postgres-cluster.ts';

/** The first process of a PostgreSQL server and where it listens. */
export interface Postmaster {
  pid: number;
  port: number;
  /** The folder of its Unix socket, which is cheaper than TCP; undefined if there can be none. */
  socketDir: string | undefined;
}

const mostLogBytes = 10 * 1024 * 1024;
/** A process id that no system assigns. */
const noProcess = 2147483647;
/** Longest path of a socket, in bytes: macOS allows the least. */
const longestSocketPath = 103;

const defaults = {
  listen_addresses: '127.0.0.1',
  max_connections: '200',
  // PostgreSQL's defaults assume a small, old machine. Fewer checkpoints mean fewer full pages in the log; after a crash,
  // replaying two gigabytes of it takes well under a minute.
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

/** PostgreSQL's own memory. On a small machine the service beside it needs the rest. @param memory in bytes */
export function buffersIn(memory: number): { shared_buffers: string; wal_buffers: string } {
  const shared = Math.min(256, Math.max(64, Math.floor(memory / 8 / 1024 ** 2)));
  return { shared_buffers: `${shared}MB`, wal_buffers: `${Math.floor(shared / 16)}MB` };
}

/** The server that runs on this data directory, by its postmaster.pid; undefined if there is none or it is dead. */
export function findPostmaster(dir: string): Postmaster | undefined {
  const [pid, , , port, sockets] = readPidFile(dir)?.split('\n') ?? [];
  if (!pid || !port || !serves(Number(pid), dir)) return undefined;
  return { pid: Number(pid), port: Number(port), socketDir: sockets ? path.resolve(dir, sockets) : undefined };
}

/**
 * Whether a server that cannot be seen from here accepts connections in this directory: that of another container which shares
 * it. PostgreSQL would not see it either, and start a second one on the same files.
 */
export async function isServedElsewhere(dir: string): Promise<boolean> {
  for (const name of fs.readdirSync(dir).filter((file) => /^\.s\.PGSQL\.\d+$/.test(file))) {
    // One that was just started here has written its pid file before it accepts anybody.
    if (await accepts(path.join(dir, name))) return findPostmaster(dir) === undefined;
  }
  return false;
}

/** Starts a server in its own session, so that Ctrl-C in the terminal does not reach it. It outlives this process. */
export async function spawnPostmaster(
  cluster: Cluster,
  binaries: Binaries,
  settings: Record<string, string>,
  logFile: string,
): Promise<ChildProcess> {
  freePidFile(cluster.dir);
  removeDeadSockets(cluster.dir);
  const all = {
    ...defaults,
    ...buffersIn(memoryBytes()),
    port: String(await freePort()),
    // Its data directory, which is its working directory and closed to all but its user and root.
    unix_socket_directories: (await takesSockets(cluster.dir)) ? '.' : '',
    ...settings,
  };
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
    // A failed spawn has no pid; the caller that waits for the server sees that it never comes.
    child.on('error', (error) => fs.appendFileSync(logFile, `${error.message}\n`));
    child.unref();
    return child;
  } finally {
    fs.closeSync(output);
  }
}

/** Fast shutdown, which ends every session and writes a checkpoint; by force if that takes more than 20 s. */
export async function stopPostmaster(pid: number, dir: string, log: Logger): Promise<void> {
  for (const [signal, seconds] of [
    ['SIGINT', 20],
    ['SIGQUIT', 10],
    ['SIGKILL', 5],
  ] as const) {
    if (!serves(pid, dir)) return;
    if (signal !== 'SIGINT') log.warn({ pid, signal }, 'the embedded PostgreSQL does not stop; killing it');
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

/** The last lines of the server's log, to show if it is lost. */
export const lastLines = (logFile: string): string => linesAfter(logFile, 0).trim().split('\n').slice(-6).join('\n');

/** What the server has logged beyond this size of its log. */
export function linesAfter(logFile: string, size: number): string {
  return fs.existsSync(logFile) ? fs.readFileSync(logFile).subarray(size).toString() : '';
}

/** How large a server's log is by now. */
export const sizeOf = (logFile: string): number => fs.statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;

/**
 * True if the process with this id is a server on this very directory. Ids are reused, right away after a restart of the
 * machine or container, so being alive proves nothing; a server's working directory does.
 */
export function serves(pid: number, dir: string): boolean {
  if (!isAlive(pid)) return false;
  if (!fs.existsSync('/proc/self/cwd'))
    return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout.includes(dir);
  try {
    const [cwd, own] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(dir)];
    return cwd.dev === own.dev && cwd.ino === own.ino;
  } catch (error) {
    // Root in a container may not inspect other users' processes, except for their arguments. A zombie has neither.
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
  }
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(dir);
  } catch {
    return false;
  }
}

const readPidFile = (dir: string) => readIfThere(path.join(dir, 'postmaster.pid'));

function readIfThere(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * PostgreSQL will not start while the process named in postmaster.pid is alive, even if that is another program by now. Only
 * the id is replaced: from the rest, PostgreSQL itself finds out whether anything still uses the old server's memory.
 */
function freePidFile(dir: string): void {
  const text = readPidFile(dir);
  const pid = Number(text?.split('\n', 1)[0]);
  if (text && pid > 0 && isAlive(pid) && !serves(pid, dir)) {
    // In its place, with the longest id that there is: an empty file, which a full disk would leave, is no start for PostgreSQL.
    fs.writeFileSync(path.join(dir, 'postmaster.pid'), text.replace(/^\d+/, String(noProcess)), { flag: 'r+' });
  }
}

/** A killed server leaves its socket behind, and the next one has another port. */
function removeDeadSockets(dir: string): void {
  for (const lock of fs.readdirSync(dir).filter((name) => /^\.s\.PGSQL\.\d+\.lock$/.test(name))) {
    const file = path.join(dir, lock);
    // Another start may be writing the file just now, or have removed it.
    const pid = Number.parseInt(readIfThere(file) ?? '', 10);
    if (Number.isNaN(pid) || serves(pid, dir)) continue;
    for (const dead of [file.replace(/\.lock$/, ''), file]) fs.rmSync(dead, { force: true });
  }
}

/**
 * Whether the folder can hold sockets. Some file systems, such as a folder that a container shares with its host, know none or
 * do not let their permissions be set: PostgreSQL would not start.
 */
async function takesSockets(dir: string): Promise<boolean> {
  const longest = path.join(dir, '.s.PGSQL.65535');
  if (Buffer.byteLength(longest) > longestSocketPath) return false;
  const probe = path.join(dir, `.s.${process.pid}`);
  const server = net.createServer((socket) => socket.destroy());
  try {
    // Left by an earlier process with this id that was killed in this function.
    fs.rmSync(probe, { force: true });
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(probe, resolve));
    fs.chmodSync(probe, 0o777);
    return await accepts(probe);
  } catch {
    return false;
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Whether anybody listens on this socket. */
async function accepts(file: string): Promise<boolean> {
  const socket = net.connect(file);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

function openLog(file: string): number {
  const log = fs.openSync(file, 'a', 0o600);
  if (fs.fstatSync(log).size > mostLogBytes) fs.ftruncateSync(log);
  return log;
}

async function freePort(): Promise<number> {
  const probe = net.createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as net.AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
