import { lstatSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { type Config, ConfigError, readConfig } from '../config.ts';
import { keyringIn, readSecrets, type Secrets, unusableEmbedded } from '../data-dir.ts';
import { connect, type Database } from '../db/client.ts';
import { runningUrl, startEmbedded } from '../db/embedded.ts';
import { migrate, schemaOf } from '../db/migrate.ts';
import { silentLog } from '../log.ts';
import { type Keyring, keyringOf } from '../seal.ts';
import { StartError } from '../start-error.ts';

type Env = Record<string, string | undefined>;
type Say = (sentence: string) => void;

/** The database of the service, beside nodes that may be running. */
export interface Opened {
  config: Config;
  url: string;
  db: Database;
  keyring: Keyring;
}

const connections = 5;

/**
 * Does something with the database of the service: the one that DATABASE_URL names, or the embedded one, on the server
 * that a running Sendwright keeps or on one that is started for this.
 *
 * @param before what is done instead where it has no tables yet
 * @throws ConfigError or StartError where there is none, it is that of another Sendwright, or it has no tables yet
 */
export async function withDatabase<T>(
  env: Env,
  say: Say,
  work: (opened: Opened) => Promise<T>,
  before: (opened: Opened) => Promise<T> = refuseUnprepared,
): Promise<T> {
  return withServer(env, say, async ({ config, url, keyring, joined }) => {
    if (!joined) await migrate(url);
    const db = connect(url, silentLog, connections);
    try {
      const opened = { config, url, db, keyring };
      const schema = joined ? await schemaOf(db) : 'ours';
      if (schema === 'none') return await before(opened);
      if (schema === 'other')
        throw new StartError(
          'the database belongs to another version of Sendwright: run sendwright migrate, or start this version on it once',
        );
      return await work(opened);
    } finally {
      await db.close();
    }
  });
}

/** @throws StartError */
export async function refuseUnprepared(): Promise<never> {
  throw new StartError('the database has no Sendwright tables yet: run npm start or sendwright migrate to create them');
}

/**
 * Whether there is an embedded database in this folder already, or a link to one, be it gone.
 *
 * @throws StartError where that cannot be seen
 */
export function hasEmbedded(dataDir: string): boolean {
  try {
    return lstatSync(join(dataDir, 'postgres'), { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    throw unusableEmbedded(dataDir, error as Error);
  }
}

/** Where the database is, and whether others may be using it. */
export interface Server {
  config: Config;
  url: string;
  keyring: Keyring;
  joined: boolean;
}

/** The same before anything is known about what is in the database. */
export async function withServer<T>(env: Env, say: Say, work: (server: Server) => Promise<T>): Promise<T> {
  const config = readConfig(env);
  const { databaseUrl: url, encryptionKey: key, nextEncryptionKey: next } = config;
  if (url && key) return work({ config, url, keyring: keyringOf(key, next), joined: true });
  const secrets = await existingSecrets(config);
  const keyring = key ? keyringOf(key, next) : keyringIn(secrets);
  return onEmbedded(config, secrets, say, (url, joined) => work({ config, url, keyring, joined }));
}

/** @throws ConfigError when the folder has no database, StartError when it cannot be used */
export async function existingSecrets({ dataDir }: Config): Promise<Secrets> {
  if (!hasEmbedded(dataDir))
    throw new ConfigError(
      `DATA_DIR ${dataDir} has no database: run npm start to create one there, set DATA_DIR to the folder of the service, or set DATABASE_URL`,
    );
  return readSecrets(dataDir);
}

/**
 * On the server that a running Sendwright keeps or, where none runs, on one that is started for this.
 *
 * @param work gets the address of the database, and whether the server was running
 * @throws StartError where the server does not start
 */
export async function onEmbedded<T>(
  { dataDir }: Config,
  { databasePassword: password }: Secrets,
  say: Say,
  work: (url: string, joined: boolean) => Promise<T>,
): Promise<T> {
  const running = runningIn(dataDir, password);
  if (running) return work(running, true);
  const starting = startEmbedded({ dataDir, password, log: silentLog, onProgress: say }).catch((error: Error) => {
    throw unusableEmbedded(dataDir, error);
  });
  // A server of its own must not outlive a command that is interrupted, not even while it starts.
  let isInterrupted = false;
  const interrupt = (signal: NodeJS.Signals) => {
    isInterrupted = true;
    void starting
      .then((postgres) => postgres.stop())
      .catch(() => undefined)
      .finally(() => process.exit(128 + constants.signals[signal]));
  };
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    const postgres = await starting;
    return await work(postgres.url, false).finally(() => postgres.stop());
  } catch (error) {
    // What fails now does so as its database was stopped; the exit code is that of the signal.
    if (isInterrupted) await new Promise(() => undefined);
    throw error;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}

function runningIn(dataDir: string, password: string): string | undefined {
  try {
    return runningUrl(dataDir, password);
  } catch (error) {
    throw unusableEmbedded(dataDir, error as Error);
  }
}
