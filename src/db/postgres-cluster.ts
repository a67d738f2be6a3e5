import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Logger } from '../log.ts';
import { oneLine } from '../process/start-error.ts';
import { type Binaries, identity, makeOpenFolder, runAs, type ServerUser, serverEnv } from './postgres-binaries.ts';

/** The role that owns everything in the embedded database. */
export const owner = 'sendwright';

/** A data directory and its owner, whom the server must run as, or PostgreSQL refuses it. */
export interface Cluster {
  /** Absolute and free of links. */
  dir: string;
  user: ServerUser | undefined;
}

/** The options of a new cluster. */
export interface NewCluster {
  binaries: Binaries;
  user: ServerUser | undefined;
  password: string;
  /** False in tests: nothing is flushed to disk. */
  sync: boolean;
  /** The cluster goes here if the server's user cannot reach DATA_DIR; `DATA_DIR/postgres` is then a link to it. */
  systemDir: string;
  log: Logger;
}

/** The cluster that `DATA_DIR/postgres` is or links to, once initdb has finished; undefined before the first start. */
export function findCluster(dataDir: string, user: ServerUser | undefined): Cluster | undefined {
  const entry = path.join(dataDir, 'postgres');
  const link = fs.lstatSync(entry, { throwIfNoEntry: false });
  if (!link) return undefined;
  if (!fs.existsSync(entry)) {
    throw new Error(
      `${entry} links to ${fs.readlinkSync(entry)}, which does not exist: restore it, or remove the link and the postgres.log beside it to start with an empty database`,
    );
  }
  const dir = fs.realpathSync(entry);
  const { uid, gid } = fs.statSync(dir);
  const self = process.getuid?.();
  if (self !== 0 && uid !== self) {
    throw new Error(
      `${entry} belongs to the user with id ${uid}, but this is ${self}: start Sendwright as the user who created it, or choose another DATA_DIR`,
    );
  }
  if (fs.readdirSync(dir).length === 0) return undefined;
  if (!fs.existsSync(path.join(dir, 'PG_VERSION')))
    throw new Error(`${entry} is not a PostgreSQL data directory: move it away`);
  // As root we serve a cluster as the user who made it: `sudo npm start` in a project used without sudo before.
  return {
    dir,
    user: self === 0 && uid !== 0 ? { name: user?.uid === uid ? user.name : `with id ${uid}`, uid, gid } : user,
  };
}

/** Makes the cluster. A kill at any moment leaves none or a whole one: initdb works in a folder beside it, a rename commits. */
export async function createCluster(dataDir: string, made: NewCluster): Promise<Cluster> {
  const entry = path.join(dataDir, 'postgres');
  const beside = await initialize(entry, made);
  if (beside) return { dir: fs.realpathSync(entry), user: made.user };

  makeOpenFolder(made.systemDir);
  const far = path.join(made.systemDir, `database-${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`);
  if (!(await initialize(far, made))) {
    throw new Error(
      `the user ${made.user?.name}, as whom PostgreSQL runs, can reach neither ${dataDir} nor ${made.systemDir}: choose another DATA_DIR`,
    );
  }
  // An empty folder may be in the place of the link; a non-empty one is another process's and wins.
  if (fs.lstatSync(entry, { throwIfNoEntry: false })?.isDirectory()) fs.rmdirSync(entry);
  try {
    fs.symlinkSync(far, entry);
    made.log.info({ dir: far, link: entry }, 'the database lies outside DATA_DIR, which its user cannot enter');
  } catch (error) {
    fs.rmSync(far, { recursive: true, force: true });
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return { dir: fs.realpathSync(entry), user: made.user };
}

/** @throws Error if the data directory came back from a copy that did not keep its owner or mode: PostgreSQL refuses both */
export function refuseUnfit({ dir, user }: Cluster): void {
  const { uid, mode } = fs.statSync(dir);
  if (user && uid === 0) {
    throw new Error(
      `${dir} belongs to root, as after a copy without its owners, but PostgreSQL runs as the user ${user.name}: give it back with chown -R ${user.uid}:${user.gid} '${dir}'`,
    );
  }
  if (mode & 0o027) {
    throw new Error(
      `${dir} is open to other users, as after a copy without its modes, which PostgreSQL refuses: close it with chmod 700 '${dir}'`,
    );
  }
}

/** @throws Error if the data directory was made by another major version, which this one cannot read */
export function refuseOtherMajor(cluster: Cluster, binaries: Binaries, dataDir: string): void {
  const major = fs.readFileSync(path.join(cluster.dir, 'PG_VERSION'), 'utf8').trim();
  if (major === binaries.major) return;
  throw new Error(
    `${path.join(dataDir, 'postgres')} was created by PostgreSQL ${major}, but this release has ${binaries.major}: dump it with the release of Sendwright that created it (or any PostgreSQL ${major}), or choose another DATA_DIR`,
  );
}

/** Runs initdb next to `target` and moves the result there. False if the server's user cannot reach that place. */
async function initialize(target: string, made: NewCluster): Promise<boolean> {
  removeAbandoned(path.dirname(target));
  const work = `${target}.initdb-${process.pid}`;
  fs.mkdirSync(work, { mode: 0o700 });
  try {
    if (made.user) fs.chownSync(work, made.user.uid, made.user.gid);
    if (!runAs(made.user, 'cd "$1" && : > "$1/probe" && rm "$1/probe"', [work]).ok) return false;
    const pwfile = path.join(work, 'password');
    fs.writeFileSync(pwfile, `${made.password}\n`, { mode: 0o600 });
    if (made.user) fs.chownSync(pwfile, made.user.uid, made.user.gid);
    await initdb(path.join(work, 'cluster'), pwfile, made);
    fs.renameSync(path.join(work, 'cluster'), target);
  } catch (error) {
    // Two first starts at once: the other one's cluster stays, and the lock on it decides who may use it.
    if (!['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
  return true;
}

/** Removes what an earlier start left behind when it was killed during initdb. */
function removeAbandoned(folder: string): void {
  for (const name of fs.readdirSync(folder)) {
    const pid = Number(/\.initdb-(\d+)$/.exec(name)?.[1]);
    if (pid && (pid === process.pid || !isAlive(pid))) {
      // Its initdb may go on writing for a moment, hence the retries.
      fs.rmSync(path.join(folder, name), { recursive: true, force: true, maxRetries: 10 });
    }
  }
}

function initdb(dir: string, pwfile: string, made: NewCluster): Promise<void> {
  const args = [
    `--pgdata=${dir}`,
    `--username=${owner}`,
    `--pwfile=${pwfile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--no-instructions',
  ];
  // The built-in provider sorts and folds the same on every machine, whatever locales its system has.
  args.push('--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8');
  if (!made.sync) args.push('--no-sync');
  return new Promise((resolve, reject) => {
    const child = spawn(made.binaries.initdb, args, {
      cwd: '/',
      env: serverEnv,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...identity(made.user),
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(initdbFailure(output, `${signal ?? `exit code ${code}`}`)));
    });
  });
}

/** A failure of initdb in one line, which has of its output only the lines that say what went wrong. */
export function initdbFailure(output: string, end: string): string {
  const lines = output.trim().split('\n');
  const faults = lines.filter((line) => faultWords.test(line)).map((line) => line.replace(beforeFault, ''));
  const full = faults.find((line) => fullWords.test(line));
  if (full)
    return `the disk is full, so the database could not be created (${oneLine(full)}): free some space, or set another DATA_DIR`;
  const said = (faults.length > 0 ? faults : lines.slice(-8)).map(oneLine).filter(Boolean);
  return `the database could not be created (initdb: ${said.join('; ') || end}): fix this, or set another DATA_DIR`;
}

/**
 * Why the server could not be reached, in one line.
 *
 * @param log what it has logged since the start began; this is in this file
 */
export function serverFailure(reason: string, log: string, file: string): string {
  const lines = log.trim().split('\n');
  const faults = lines.filter((line) => faultWords.test(line)).map((line) => oneLine(line.replace(beforeFault, '')));
  const full = faults.find((line) => fullWords.test(line));
  if (full)
    return `the disk is full, so the embedded PostgreSQL cannot start (${full}): free some space, and start again`;
  const said = oneLine((faults.length > 0 ? faults : lines).slice(-shownLines).join('\n'));
  return `the embedded PostgreSQL cannot be reached (${reason}): fix the error at the end of ${file}: ${said}`;
}

const shownLines = 6;
const faultWords = /\b(FATAL|ERROR|PANIC):|\berror: |\bcould not /;
const beforeFault = /^.*?(?=(FATAL|ERROR|PANIC):|\berror: )/;
const fullWords = /No space left on device|Disk quota exceeded/i;

/** True while a process with this id exists, whoever owns it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
