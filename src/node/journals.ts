import { join } from 'node:path';
import { DatabaseClock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Database } from '../db/client.ts';
import { tellTime } from '../db/clocks.ts';
import { recover } from '../delivery/attempt/recovery.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';

/** Records what killed processes knew, while their claims still stand: afterwards anybody may take those. */
export async function recoverJournals(
  config: Config,
  { alone, log }: { alone: boolean; log: Logger },
  { db, queue }: { db: Database; queue: Queue },
): Promise<void> {
  if (!config.roles.has('mta')) return;
  const clock = new DatabaseClock();
  await tellTime(db, clock);
  await recover({ db, queue, clock, policy: retryPolicy(config), log }, { folder: journalFolder(config), alone });
}

/** Where the processes of this node write down what they are about to do. */
export const journalFolder = ({ dataDir }: Config) => join(dataDir, 'journal');

/** How often, and for how long, mail is tried. */
export const retryPolicy = (config: Config) => ({ scheduleMs: config.retryScheduleMs, forMs: config.retryForMs });
