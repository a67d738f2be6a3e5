import type { Config } from '../config.ts';
import * as hold from '../core/operations/hold.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';

/**
 * Records this start if the service is on hold, puts it on hold if the configuration asks for that, and says in the log that
 * nothing is sent. The first process of a node does this for all.
 */
export async function noteHold(db: Database, { startOnHold }: Config, log: Logger): Promise<void> {
  await hold.noteStart(db, startOnHold);
  if (await hold.find(db)) log.warn('the service is on hold, so nothing is sent: see sendwright release --help');
}
