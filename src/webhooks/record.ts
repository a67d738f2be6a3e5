import { setTimeout as sleep } from 'node:timers/promises';
import { type CallOutcome, settle } from '../core/webhooks/webhook-calls.ts';
import { wakeDue } from '../core/webhooks/webhook-lines.ts';
import type { Database } from '../db/client.ts';
import { isAway } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import { BatchWriter } from '../pace/batch-writer.ts';
import type { Queue } from '../queue.ts';

export interface Recorder {
  /** Resolves once it is stored, with whether the endpoint is failing; with undefined if it was given up after `giveUpAfter`. */
  add(outcome: CallOutcome): Promise<boolean | undefined>;
  /** Gives up what still fails after `ms`. */
  giveUpAfter(ms: number): void;
}

/** Failures are stored at multiples of this time. */
const failuresEveryMs = 100;

/**
 * Stores the outcomes of calls: successes at once, because a call without a record is made again; failures a few times a
 * second, so that a crowd of hanging endpoints costs a few commits instead of one each. Calls whose outcome cannot be stored at
 * the end of the node are made again.
 */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  const writer = new BatchWriter<CallOutcome, boolean>(log, {
    what: 'outcomes of webhook calls',
    write: async (outcomes) => {
      const news = await db.transaction((tx) => settle(tx, outcomes));
      // Deliveries to an endpoint that has just answered need not wait for the next round; if this fails, that wakes them.
      if (news.answering) await wakeDue(db, queue).catch(() => undefined);
      const failing = new Set(news.failing);
      return (outcome) => failing.has(outcome.claim.webhookId);
    },
    isItsFault: (error) => !isAway(error),
    isForGood: db.isGoneForGood,
  });
  return {
    async add(outcome) {
      if (outcome.made?.endpoint === 'fails') await sleep(failuresEveryMs - (performance.now() % failuresEveryMs));
      return writer.add(outcome);
    },
    giveUpAfter: (ms) => writer.giveUpAfter(ms),
  };
}
