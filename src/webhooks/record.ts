import { BatchWriter } from '../batch-writer.ts';
import { type CallOutcome, settle } from '../core/webhook-calls.ts';
import { wakeDue } from '../core/webhook-lines.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';

/** Answers with whether the endpoint is failing. */
export type Recorder = BatchWriter<CallOutcome, boolean>;

/** Writes the outcomes of calls down. */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  return new BatchWriter(log, 'outcomes of webhook calls', async (outcomes) => {
    const judgement = await db.transaction((tx) => settle(tx, queue, outcomes));
    const failing = new Set(judgement.failing);
    // What waits for an endpoint that has just answered need not wait for the next round, which does it otherwise.
    if (judgement.answering) await wakeDue(db, queue).catch(() => undefined);
    return (outcome) => failing.has(outcome.claim.webhookId);
  });
}
