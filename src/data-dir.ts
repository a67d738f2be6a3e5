import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, chmod, link, mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Keyring, keyringOf } from './seal.ts';
import { oneLine, StartError } from './start-error.ts';

/** Generated once into DATA_DIR, readable by its owner alone. */
export interface Secrets {
  databasePassword: string;
  jwtSecret: string;
  /** 32 bytes, base64. */
  encryptionKey: string;
  /** The key that is to take its place, in the same form. */
  nextEncryptionKey?: string;
  /** The API key of the sandbox's first screen: it can send from every domain of the admin's account. */
  sandboxKey?: string;
}

/**
 * Makes the folder, and those above it, where there is none yet.
 *
 * @throws StartError when that cannot be, or nothing could be written there
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await makeFolder(resolve(dataDir));
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    await close(dataDir, writable);
  } catch (error) {
    throw unusableDataDir(dataDir, error as Error);
  }
}

/**
 * Reads the secrets of this folder, and makes the folder and the secrets where there are none yet. Of processes that do
 * so at once, all get the same.
 *
 * @throws StartError when the folder cannot be used, or its secrets are damaged or gone
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
 * Replaces the file in one step: a crash, of the machine too, leaves the old one or the new one.
 *
 * @throws StartError when it cannot be written
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

/** The error of a start for one of the file system. */
export function unusableDataDir(dataDir: string, { message }: Error): StartError {
  return new StartError(`DATA_DIR ${dataDir} cannot be used (${message}): set it to a folder that this user can write`);
}

/** The same for one of starting the embedded server: those that are not the file system's are one line for the operator already. */
export const unusableEmbedded = (dataDir: string, error: NodeJS.ErrnoException): StartError =>
  error.syscall === undefined ? new StartError(oneLine(error.message)) : unusableDataDir(dataDir, error);

/** Rights of group and others. Whoever may write in the folder could put secrets of his own there. */
const [writable, any] = [0o022, 0o077];

/** Only passable: the embedded server's user must get to its own folder in there. */
const passable = 0o711;

/** Takes these rights from a file or folder of ours, however it came by them: a copy from a backup, an open umask. */
async function close(path: string, rights: number): Promise<void> {
  const { mode, uid } = await stat(path);
  if ((mode & rights) !== 0 && uid === process.getuid?.()) await chmod(path, mode & ~rights & 0o7777);
}

/** Longer than any process takes from writing one to renaming it. */
const copyLivesMs = 60_000;

const fileIn = (dataDir: string) => join(dataDir, 'secrets.json');

/** Not with mkdir's own `recursive`: in /proc, where mkdir says ENOENT below a folder that is there, it never ends. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, passable);
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

async function existingSecrets(dataDir: string): Promise<Secrets | null> {
  const text = await readFile(fileIn(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null) return null;
  await close(fileIn(dataDir), any);
  return parse(dataDir, text);
}

function parse(dataDir: string, text: string): Secrets {
  const damaged = (how: string) =>
    new StartError(
      `DATA_DIR ${dataDir} has a damaged secrets.json (${how}): put it back from a backup, or set DATA_DIR to an empty folder`,
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
  if (Buffer.from(secrets.encryptionKey as string, 'base64').length !== 32)
    throw damaged('its encryptionKey is not 32 bytes');
  return secrets as Secrets;
}

/** Removes what processes left that were killed while they wrote: each is a copy of all secrets. */
async function removeCopies(dataDir: string): Promise<void> {
  const copies = (await readdir(dataDir)).filter((name) => /^secrets\.json\.[\da-f]{12}\.writing$/.test(name));
  for (const name of copies) {
    const copy = join(dataDir, name);
    const written = await stat(copy).catch(() => null);
    if (written && Date.now() - written.mtimeMs > copyLivesMs) await unlink(copy).catch(() => undefined);
  }
}

async function makeSecrets(dataDir: string): Promise<Secrets> {
  const database = await readdir(join(dataDir, 'postgres')).catch(() => []);
  if (database.length > 0) {
    throw new StartError(
      `DATA_DIR ${dataDir} has a database but no secrets.json, where its password and the encryption key are: put it back from a backup, or set DATA_DIR to an empty folder`,
    );
  }
  const secrets: Secrets = {
    databasePassword: randomBytes(24).toString('hex'),
    jwtSecret: randomBytes(48).toString('base64url'),
    encryptionKey: randomBytes(32).toString('base64'),
  };
  const written = await writeBeside(dataDir, secrets);
  try {
    // A link, unlike a rename, leaves alone what another first start has put there meanwhile.
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
  // Not by its process alone: those of two containers that share the folder may have the same number.
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
 * What was renamed or linked has its new name on the disk before anything goes by it, where that can be asked for: Windows has no
 * way, nor have some file systems that lie elsewhere.
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
