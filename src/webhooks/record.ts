import { setTimeout as sleep } from 'node:timers/promises';
import { BatchWriter } from '../batch-writer.ts';
import { type CallOutcome, settle } from '../core/webhook-calls.ts';
import { wakeDue } from '../core/webhook-lines.ts';
import { type Database, isAway } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';

export interface Recorder {
  /** Resolves when it is written down, with whether the endpoint is failing; with undefined when it was let go after `giveUpAfter`. */
  add(outcome: CallOutcome): Promise<boolean | undefined>;
  /** Ends the patience with what fails, in ms. */
  giveUpAfter(ms: number): void;
}

/** Failures are written down at multiples of this. */
const failuresEveryMs = 100;

/**
 * Writes the outcomes of calls down: successes at once, as a call that nobody knows of is made again, and failures a few times a
 * second, so that a crowd of endpoints that hang costs a few commits and not one for each.
 */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  const writer = new BatchWriter<CallOutcome, boolean>(
    log,
    'outcomes of webhook calls',
    async (outcomes) => {
      const judgement = await db.transaction((tx) => settle(tx, outcomes));
      const failing = new Set(judgement.failing);
      // What waits for an endpoint that has just answered need not wait for the next round, which does it otherwise.
      if (judgement.answering) await wakeDue(db, queue).catch(() => undefined);
      return (outcome) => failing.has(outcome.claim.webhookId);
    },
    (error) => !isAway(error),
  );
  return {
    async add(outcome) {
      if (outcome.endpoint === 'fails') await sleep(failuresEveryMs - (performance.now() % failuresEveryMs));
      return writer.add(outcome);
    },
    giveUpAfter: (ms) => writer.giveUpAfter(ms),
  };
}
