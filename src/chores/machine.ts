import { examineMachine, type Installation } from '../core/operations/doctor.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';

const dayMs = 24 * 3_600_000;

/**
 * Says in the log what is wrong with this machine: when it is found, once a day while it lasts, and when it is over. Whoever
 * never asks the doctor should not learn it from mail that is refused.
 *
 * @param now in milliseconds; never goes back
 * @returns one look at it
 */
export function watchMachine(
  db: Database,
  installation: Installation,
  log: Logger,
  now: () => number = () => performance.now(),
): () => Promise<void> {
  /** When each problem was last said. */
  const told = new Map<string, number>();
  return async () => {
    for (const { check, subject, health, found, advice } of await examineMachine({ db, installation })) {
      const last = told.get(check);
      if (health === 'problem') {
        if (last !== undefined && now() - last < dayMs) continue;
        told.set(check, now());
        log.warn({ check, subject, found, advice }, 'something is wrong with this machine: see sendwright doctor');
      } else if (health === 'ok' && told.delete(check)) {
        log.info({ check, subject, found }, 'what was wrong with this machine is over');
      }
    }
  };
}
