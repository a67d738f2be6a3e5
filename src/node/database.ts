import type { Config } from '../config.ts';
import { hold } from '../core/operations/encryption-key-holders.ts';
import type { Keyring } from '../crypto/seal.ts';
import { refuseDatabase } from '../db/check.ts';
import { connect, type Database, poolSize, startTimeoutMs } from '../db/client.ts';
import { startErrorOf } from '../db/failure.ts';
import { migrate } from '../db/migrate.ts';
import type { Logger } from '../log.ts';
import { StartError } from '../process/start-error.ts';
import { keep, type Lifetime } from '../process/stops.ts';
import { createQueue, ownConnections, type Queue } from '../queue.ts';

/** The pool's, and two of pg-boss's own. Migrating takes one more, while the pool has only one. */
export const connectionsOfNode = poolSize + ownConnections;

/** The pool of the process that starts the workers of a node, which needs a few then, when a worker has died, and once an hour. */
export const poolOfFirst = 2;

/** The connections of a node with this many processes. */
export const connectionsOf = (workers: number) =>
  workers === 1 ? connectionsOfNode : workers * connectionsOfNode + poolOfFirst + ownConnections;

/** What an operator does about a key that this database is not used with. */
export const keyRefusals = {
  'another key':
    'ENCRYPTION_KEY is not the key of this database, so its DKIM keys cannot be decrypted: set the right key (if it was generated, restore secrets.json in DATA_DIR)',
  'two keys are in use':
    'ENCRYPTION_KEY is one of two keys of this database, which is being re-encrypted: set the other one as ENCRYPTION_KEY_NEXT, or finish with sendwright keys rotate-encryption',
};

/**
 * Opens the database of a node: refuses one that cannot be worked with, brings its schema up to date, and starts the
 * queue. The steps that close it again are added to `life`, even if this fails. The caller is to `hurry` it when it is up.
 *
 * @param connections those of this process's pool, and those that the database must allow the whole node
 * @throws StartError, or Error if the life ended meanwhile
 */
export async function openDatabase(
  config: Config,
  foundation: { databaseUrl: string; keyring: Keyring; log: Logger; onProgress?: (sentence: string) => void },
  life: Lifetime,
  connections = { pool: poolSize, needed: connectionsOfNode },
): Promise<{ db: Database; queue: Queue }> {
  const { databaseUrl, keyring, log, onProgress } = foundation;
  const db = connect(databaseUrl, log, connections.pool, {
    acquireMs: startTimeoutMs,
    embedded: config.databaseUrl === null,
  });
  life.stops.push(() => db.close());
  const demands = { connections: connections.needed, allowUnsafe: config.allowUnsafeDatabase };
  const refusal = await refuseDatabase(db, demands).catch((error: Error) => {
    throw startErrorOf(error, true);
  });
  if (refusal) throw new StartError(refusal);
  life.goOn();
  onProgress?.('Preparing the schema');
  await migrate(databaseUrl);
  life.goOn();
  const { admission } = await keep(life.stops, hold(db, keyring, log), (holding) => holding.stop());
  if (admission !== 'admitted') throw new StartError(keyRefusals[admission]);
  life.goOn();
  const queue = createQueue(databaseUrl, log);
  life.stops.push(() => queue.stop());
  await queue.start();
  life.goOn();
  return { db, queue };
}
