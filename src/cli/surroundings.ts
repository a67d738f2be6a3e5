import { randomBytes } from 'node:crypto';
import type { Surroundings } from '../core/domains/record-checks.ts';
import { admit } from '../core/secrets/encryption-key.ts';
import { keyRefusals } from '../database.ts';
import { findInternet, type Internet } from '../internet.ts';
import { silentLog } from '../log.ts';
import { resolveWith } from '../smtp/resolver.ts';
import { StartError } from '../start-error.ts';
import { type Stops, stopAll } from '../stops.ts';
import type { Opened } from './database.ts';

/**
 * Looks names up as a node does; in the sandbox its DNS, which knows what the database knows, is started for this. The keys
 * of domains are opened on the way.
 *
 * @param work gets where names are looked up, and what verifying a domain needs to know
 * @throws StartError where ENCRYPTION_KEY is not that of the database
 */
export async function lookedUpFrom<T>(
  { config, db, keyring }: Opened,
  work: (from: { internet: Internet; surroundings: Surroundings }) => Promise<T>,
): Promise<T> {
  const admission = await db.transaction((tx) => admit(tx, keyring));
  if (admission !== 'admitted') throw new StartError(keyRefusals[admission]);
  return lookedUpBeside({ config, db, keyring }, work);
}

/** The same without a look at what the database has. */
export async function lookedUpBeside<T>(
  { config, db, keyring }: Pick<Opened, 'config' | 'db' | 'keyring'>,
  work: (from: { internet: Internet; surroundings: Surroundings }) => Promise<T>,
): Promise<T> {
  const stops: Stops = [];
  try {
    // Nothing is sent from here, so whose the sending addresses are is not asked, and no bounce has to be understood.
    const asking = { ...config, roles: new Set<never>() };
    const returnPath = { key: randomBytes(32), host: config.mailHostname };
    const internet = await findInternet(asking, db, silentLog, returnPath, stops);
    const surroundings = {
      resolve: resolveWith(internet.resolver),
      mailHostname: config.mailHostname,
      sendingIps: internet.knownIps,
      keyring,
    };
    return await work({ internet, surroundings });
  } finally {
    await stopAll(stops);
  }
}
