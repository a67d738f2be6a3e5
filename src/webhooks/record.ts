import { BatchWriter } from '../batch-writer.ts';
import { type CallOutcome, settle } from '../core/webhook-calls.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';

/** Answers with whether the endpoint is failing. */
export type Recorder = BatchWriter<CallOutcome, boolean>;

/** Writes the outcomes of calls down. */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  return new BatchWriter(log, 'outcomes of webhook calls', async (outcomes) => {
    const failing = new Set(await db.transaction((tx) => settle(tx, queue, outcomes)));
    return (outcome) => failing.has(outcome.claim.webhookId);
  });
}
