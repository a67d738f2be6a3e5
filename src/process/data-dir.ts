import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, chmod, link, mkdir, open, readdir, readFile, readlink, rename, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Keyring, keyringOf } from '../crypto/seal.ts';
import { oneLine, outOfFiles, StartError } from './start-error.ts';

/** Generated once into DATA_DIR, readable by its owner alone. */
export interface Secrets {
  databasePassword: string;
  jwtSecret: string;
  /** 32 bytes, base64. */
  encryptionKey: string;
  /** The key that will replace it, in the same form. */
  nextEncryptionKey?: string;
  /** The API key of the sandbox's first screen: it can send from every domain of the admin's account. */
  sandboxKey?: string;
}

/**
 * Creates the folder, and those above it, if they do not exist.
 *
 * @throws StartError if that is not possible, or nothing can be written there
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await makeFolder(resolve(dataDir));
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    await takeRights(dataDir, writeOfOthers);
  } catch (error) {
    throw unusableDataDir(dataDir, error as Error);
  }
}

/**
 * Reads the secrets of this folder, and creates the folder and the secrets if there are none yet. Processes that do so at
 * once all get the same ones.
 *
 * @throws StartError if the folder cannot be used, or its secrets are damaged or gone
 */
export async function readSecrets(dataDir: string): Promise<Secrets> {
  await makeDataDir(dataDir);
  try {
    await removeCopies(dataDir);
    return (await existingSecrets(dataDir)) ?? (await makeSecrets(dataDir));
  } catch (error) {
    throw error instanceof StartError ? error : unusableDataDir(dataDir, error as Error);
  }
}

/**
 * Replaces the file in one step: a crash, even of the machine, leaves the old one or the new one.
 *
 * @throws StartError if it cannot be written
 */
export async function writeSecrets(dataDir: string, secrets: Secrets): Promise<void> {
  try {
    const written = await writeBeside(dataDir, secrets);
    await rename(written, fileIn(dataDir)).catch(async (error: Error) => {
      await unlink(written).catch(() => undefined);
      throw error;
    });
    await syncFolder(dataDir);
  } catch (error) {
    throw unusableDataDir(dataDir, error as Error);
  }
}

/** The encryption keys of this folder. */
export function keyringIn({ encryptionKey, nextEncryptionKey }: Secrets): Keyring {
  const next = nextEncryptionKey === undefined ? null : Buffer.from(nextEncryptionKey, 'base64');
  return keyringOf(Buffer.from(encryptionKey, 'base64'), next);
}

/** The start error for an error of the file system. */
export function unusableDataDir(dataDir: string, error: NodeJS.ErrnoException): StartError {
  const { message, code } = error;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new StartError(
      `the disk of DATA_DIR ${dataDir} is full (${message}): free some space, or set it to another folder`,
    );
  return (
    outOfFiles(error) ??
    new StartError(`DATA_DIR ${dataDir} cannot be used (${message}): set it to a folder that this user can write`)
  );
}

/** The start error for one of the embedded server; its message already suits the operator, unless the file system made it. */
export const unusableEmbedded = (dataDir: string, error: NodeJS.ErrnoException): StartError =>
  error.syscall === undefined ? new StartError(oneLine(error.message)) : unusableDataDir(dataDir, error);

/** Whoever may write in the folder could put secrets of their own there. */
const writeOfOthers = 0o022;
const allOfOthers = 0o077;

/** Others may only pass through it: the embedded server's user must get to its own folder in there. */
const folderMode = 0o711;

/** Takes these rights from a file or folder of ours, however it got them: a copy from a backup, an open umask. */
async function takeRights(path: string, rights: number): Promise<void> {
  const { mode, uid } = await stat(path);
  if ((mode & rights) !== 0 && uid === process.getuid?.()) await chmod(path, mode & ~rights & 0o7777);
}

/** Longer than any process takes from writing a copy to renaming it. */
const copyLivesMs = 60_000;

const fileIn = (dataDir: string) => join(dataDir, 'secrets.json');

/** Without mkdir's own `recursive`: in /proc, where mkdir says ENOENT below a folder that exists, it never ends. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, folderMode);
    // A narrow umask, as on hardened machines, would take the way from the embedded server's user.
    const { mode } = await stat(folder);
    if ((mode & folderMode) !== folderMode) await chmod(folder, (mode & 0o7777) | folderMode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') {
      if (!(await stat(folder)).isDirectory()) throw new Error(`${folder} is not a folder`);
      return;
    }
    const above = dirname(folder);
    if (code !== 'ENOENT' || (await isThere(above))) throw error;
    await makeFolder(above);
    await makeFolder(folder);
  }
}

const isThere = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );

/** Null if there is no such file or folder; one that cannot be read is an error. */
function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

async function existingSecrets(dataDir: string): Promise<Secrets | null> {
  const text = await readFile(fileIn(dataDir), 'utf8').catch(nullIfMissing);
  if (text === null) {
    // No link: nothing is there, or another first start has put its secrets there since.
    const target = await readlink(fileIn(dataDir)).catch(() => null);
    if (target === null) return null;
    throw new StartError(
      `DATA_DIR ${dataDir} has a secrets.json that links to ${target}, which does not exist: restore that file, or set DATA_DIR to an empty folder`,
    );
  }
  await takeRights(fileIn(dataDir), allOfOthers);
  return parse(dataDir, text);
}

function parse(dataDir: string, text: string): Secrets {
  const damaged = (how: string) =>
    new StartError(
      `DATA_DIR ${dataDir} has a damaged secrets.json (${how}): restore it from a backup, or set DATA_DIR to an empty folder`,
    );
  let secrets: Partial<Record<keyof Secrets, unknown>>;
  try {
    secrets = { ...JSON.parse(text) };
  } catch {
    throw damaged('it is not JSON');
  }
  for (const name of ['databasePassword', 'jwtSecret', 'encryptionKey'] as const) {
    if (typeof secrets[name] !== 'string' || secrets[name] === '') throw damaged(`it has no ${name}`);
  }
  for (const name of ['encryptionKey', 'nextEncryptionKey'] as const) {
    const key = secrets[name];
    if (key !== undefined && (typeof key !== 'string' || Buffer.from(key, 'base64').length !== 32))
      throw damaged(`its ${name} is not 32 bytes`);
  }
  return secrets as Secrets;
}

/** Removes what processes left behind that were killed while they wrote: each file is a copy of all secrets. */
async function removeCopies(dataDir: string): Promise<void> {
  const copies = (await readdir(dataDir)).filter((name) => /^secrets\.json\.[\da-f]{12}\.writing$/.test(name));
  for (const name of copies) {
    const copy = join(dataDir, name);
    const written = await stat(copy).catch(() => null);
    if (written && Date.now() - written.mtimeMs > copyLivesMs) await unlink(copy).catch(() => undefined);
  }
}

async function makeSecrets(dataDir: string): Promise<Secrets> {
  const database = await readdir(join(dataDir, 'postgres')).catch(nullIfMissing);
  if (database && database.length > 0) {
    throw new StartError(
      `DATA_DIR ${dataDir} has a database but no secrets.json, which holds its password and the encryption key: restore it from a backup, or set DATA_DIR to an empty folder`,
    );
  }
  const secrets: Secrets = {
    databasePassword: randomBytes(24).toString('hex'),
    jwtSecret: randomBytes(48).toString('base64url'),
    encryptionKey: randomBytes(32).toString('base64'),
  };
  const written = await writeBeside(dataDir, secrets);
  try {
    // A link, unlike a rename, does not replace what another first start has put there meanwhile.
    await link(written, fileIn(dataDir));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return (await existingSecrets(dataDir)) ?? secrets;
    // A file system without links.
    await rename(written, fileIn(dataDir));
  } finally {
    await unlink(written).catch(() => undefined);
  }
  await syncFolder(dataDir);
  return secrets;
}

async function writeBeside(dataDir: string, secrets: Secrets): Promise<string> {
  // Not named by the process id alone: processes of two containers that share the folder may have the same.
  const file = `${fileIn(dataDir)}.${randomBytes(6).toString('hex')}.writing`;
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(`${JSON.stringify(secrets, null, 2)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return file;
}

/**
 * Puts a rename or link on the disk before anything relies on it, if the system can: Windows has no way, nor have some
 * network file systems.
 */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } catch (error) {
    if (!['EINVAL', 'EBADF', 'EPERM', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await handle.close();
  }
}
