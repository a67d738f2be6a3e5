import { randomBytes } from 'node:crypto';
import type { Surroundings } from '../core/domains/record-checks.ts';
import { silentLog } from '../log.ts';
import { findInternet, type Internet, surroundingsOf } from '../node/internet.ts';
import { type Stops, stopAll } from '../process/stops.ts';
import type { Opened } from './database.ts';

/** Where names are looked up, and what verifying a domain needs besides. */
interface Lookups {
  internet: Internet;
  surroundings: Surroundings;
}

/** Looks names up as a node does. In the sandbox this starts its DNS server, which knows the domains in the database. */
export async function withLookups<T>(
  { config, db, keyring }: Pick<Opened, 'config' | 'db' | 'keyring'>,
  work: (lookups: Lookups) => Promise<T>,
): Promise<T> {
  const stops: Stops = [];
  try {
    // Nothing is sent from here: without roles, nobody asks whose the sending addresses are, and no bounce comes in.
    const withoutRoles = { ...config, roles: new Set<never>() };
    const returnPath = { key: randomBytes(32), host: config.mailHostname };
    const internet = await findInternet(withoutRoles, db, silentLog, returnPath, stops);
    return await work({ internet, surroundings: surroundingsOf(config, internet, keyring) });
  } finally {
    await stopAll(stops);
  }
}
