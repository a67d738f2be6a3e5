import { lstatSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '../config/environment.ts';
import { type Config, readConfig } from '../config.ts';
import { admit } from '../core/secrets/encryption-key.ts';
import { type Keyring, keyringOf } from '../crypto/seal.ts';
import { connect, type Database } from '../db/client.ts';
import { type EmbeddedPostgres, findRunning, startEmbedded } from '../db/embedded.ts';
import { embeddedFailureOf, startErrorOf } from '../db/failure.ts';
import { migrate, type Schema, schemaOf } from '../db/migrate.ts';
import { silentLog } from '../log.ts';
import { keyRefusals } from '../node/database.ts';
import { keyringIn, readSecrets, type Secrets, unusableEmbedded } from '../process/data-dir.ts';
import { StartError } from '../process/start-error.ts';
import { createQueue, type Queue } from '../queue.ts';
import type { Env, Say } from './command.ts';

/** The database of the service, which running nodes may be using too. */
export interface Opened {
  config: Config;
  url: string;
  db: Database;
  keyring: Keyring;
  /** Its server was already running. Otherwise it is ours: a signal stops it, and then ends the process. */
  joined: boolean;
}

const connections = 5;

/** A newer database can be that of nodes which went back a release: then this release's `migrate` and start change nothing. */
const otherVersions: Record<Exclude<Schema, 'none' | 'ours'>, string> = {
  newer:
    'the database belongs to a newer version of Sendwright: use the commands of that version, even if the nodes have gone back to this one',
  older:
    'the database belongs to an older version of Sendwright: run sendwright migrate, or start this version on it once',
};

/**
 * Opens the database of the service for `work`: the one that DATABASE_URL names, or the embedded one. The server of the latter
 * is that of a running Sendwright, or is started for this.
 *
 * @param withoutTables runs instead if the database has no tables yet; by default it is refused
 * @throws ConfigError or StartError if there is no database, or it belongs to another version of Sendwright
 */
export async function withDatabase<T>(
  env: Env,
  say: Say,
  work: (opened: Opened) => Promise<T>,
  withoutTables: (opened: Opened) => Promise<T> = refuseUnprepared,
): Promise<T> {
  return withServer(env, say, async ({ config, url, keyring, joined }) => {
    if (!joined) await migrate(url);
    const db = connect(url, silentLog, connections);
    try {
      const opened = { config, url, db, keyring, joined };
      const schema = joined ? await schemaOf(db).catch(throwFirst(config)) : 'ours';
      if (schema === 'none') return await withoutTables(opened);
      if (schema !== 'ours') throw new StartError(otherVersions[schema]);
      return await work(opened);
    } finally {
      await db.close();
    }
  });
}

/** Opens the queue in this database for `work`. */
export async function withQueue<T>(url: string, work: (queue: Queue) => Promise<T>): Promise<T> {
  const queue = createQueue(url, silentLog);
  await queue.start();
  try {
    return await work(queue);
  } finally {
    await queue.stop();
  }
}

/** @throws StartError if ENCRYPTION_KEY is not that of the database */
export async function demandEncryptionKey({ db, keyring }: Opened): Promise<void> {
  const admission = await db.transaction((tx) => admit(tx, keyring));
  if (admission !== 'admitted') throw new StartError(keyRefusals[admission]);
}

/** For the first statement on a database: whatever it fails with is about reaching the one that DATABASE_URL names. */
export const throwFirst =
  ({ databaseUrl }: Config) =>
  (error: Error): never => {
    throw databaseUrl === null ? error : startErrorOf(error, true);
  };

/** @throws StartError always */
export async function refuseUnprepared(): Promise<never> {
  throw new StartError('the database has no Sendwright tables yet: run npm start or sendwright migrate to create them');
}

/**
 * Whether this folder already has an embedded database, or a link to one, even a broken link.
 *
 * @throws StartError if the folder cannot be read
 */
export function hasEmbedded(dataDir: string): boolean {
  try {
    return lstatSync(join(dataDir, 'postgres'), { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    throw unusableEmbedded(dataDir, error as Error);
  }
}

/** Where the database is. */
export interface Server {
  config: Config;
  url: string;
  keyring: Keyring;
  /** Its server was already running, so nodes may be using it. */
  joined: boolean;
}

/** Like `withDatabase`, but does not look at what the database contains. */
export async function withServer<T>(env: Env, say: Say, work: (server: Server) => Promise<T>): Promise<T> {
  const config = readConfig(env);
  const { databaseUrl: url, encryptionKey: key, nextEncryptionKey: next } = config;
  if (url && key) return work({ config, url, keyring: keyringOf(key, next), joined: true });
  const secrets = await existingSecrets(config);
  const keyring = key ? keyringOf(key, next) : keyringIn(secrets);
  return onEmbedded(config, secrets, say, (url, joined) => work({ config, url, keyring, joined }));
}

/** @throws ConfigError if the folder has no database, StartError if it cannot be used */
export async function existingSecrets({ dataDir }: Config): Promise<Secrets> {
  if (!hasEmbedded(dataDir))
    throw new ConfigError(
      `DATA_DIR ${dataDir} has no database: run npm start to create one there, set DATA_DIR to the folder of the service, or set DATABASE_URL`,
    );
  return readSecrets(dataDir);
}

/**
 * Runs `work` on the embedded server of a running Sendwright or, if none runs, on one that is started for this.
 *
 * @param work gets the address of the database, and whether the server was already running
 * @throws StartError if the server does not start
 */
export async function onEmbedded<T>(
  { dataDir }: Config,
  { databasePassword: password }: Secrets,
  say: Say,
  work: (url: string, joined: boolean) => Promise<T>,
): Promise<T> {
  const running = runningIn(dataDir, password);
  if (running) {
    return work(running.url, true).catch((error: Error) => {
      throw embeddedFailureOf(error, dataDir, running.pid) ?? error;
    });
  }
  const starting = startEmbedded({ dataDir, password, log: silentLog, onProgress: say }).catch((error: Error) => {
    throw unusableEmbedded(dataDir, error);
  });
  return onOwnServer(starting, (url) => work(url, false));
}

/** Stops the server after the work, or if the command is interrupted, even while the server starts. */
async function onOwnServer<T>(starting: Promise<EmbeddedPostgres>, work: (url: string) => Promise<T>): Promise<T> {
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
    return await work(postgres.url).finally(() => postgres.stop());
  } catch (error) {
    // After an interruption the work fails because its database stops; the exit code is that of the signal.
    if (isInterrupted) await new Promise(() => undefined);
    throw error;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}

function runningIn(dataDir: string, password: string): ReturnType<typeof findRunning> {
  try {
    return findRunning(dataDir, password);
  } catch (error) {
    throw unusableEmbedded(dataDir, error as Error);
  }
}
