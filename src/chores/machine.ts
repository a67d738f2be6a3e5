import { examineMachine, type Machine } from '../core/operations/doctor.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Rounds } from '../pace/rounds.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/**
 * Looks at this machine once an hour. Of workers the first process does it for all: each of them would say the same.
 *
 * @param machine as the doctor gets it
 */
export function watchMachine(rounds: Rounds, db: Database, machine: Machine, log: Logger): void {
  rounds.every(hourMs, 'the machine', lookingAtMachine(db, machine, log));
}

/**
 * Says in the log what is wrong with this machine: when it is found, once a day while it lasts, and when it is over. Whoever
 * never asks the doctor should not learn it from mail that is refused.
 *
 * @param now in milliseconds; never goes back
 * @returns one look at it
 */
export function lookingAtMachine(
  db: Database,
  machine: Machine,
  log: Logger,
  now: () => number = () => performance.now(),
): () => Promise<void> {
  /** When each problem was last said. */
  const told = new Map<string, number>();
  return async () => {
    for (const { check, subject, health, found, advice } of await examineMachine(db, machine)) {
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
