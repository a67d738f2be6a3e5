import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Generated once into DATA_DIR, readable by its owner alone. */
export interface Secrets {
  databasePassword: string;
  jwtSecret: string;
  /** 32 bytes, base64. */
  encryptionKey: string;
  /** The API key of the sandbox's first screen: it can send from the sandbox's own domain only. */
  sandboxKey?: string;
}

/** Reads the secrets of this folder, and makes the folder and the secrets where there are none yet. */
export async function readSecrets(dataDir: string): Promise<Secrets> {
  await mkdir(dataDir, { recursive: true });
  const existing = await readFile(fileIn(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (existing) return JSON.parse(existing) as Secrets;
  const secrets: Secrets = {
    databasePassword: randomBytes(24).toString('hex'),
    jwtSecret: randomBytes(48).toString('base64url'),
    encryptionKey: randomBytes(32).toString('base64'),
  };
  await writeSecrets(dataDir, secrets);
  return secrets;
}

/** Replaces the file in one step: a crash leaves the old one or the new one. */
export async function writeSecrets(dataDir: string, secrets: Secrets): Promise<void> {
  const next = `${fileIn(dataDir)}.${process.pid}`;
  await writeFile(next, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  await rename(next, fileIn(dataDir));
}

const fileIn = (dataDir: string) => join(dataDir, 'secrets.json');
