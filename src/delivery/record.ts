import { BatchWriter } from '../batch-writer.ts';
import { newAttempts } from '../core/attempts.ts';
import { settle } from '../core/settlement.ts';
import { type Database, isAway } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';
import type { AttemptRecord } from './attempt-record.ts';

const recipientsAtOnce = 400;

/** Each recipient may be told of to many endpoints, with all the addresses of its email: with twice as many, the same is four times as much. */
const weigh = ({ settlements: { length } }: AttemptRecord) => length * Math.max(1, length / 10);

export type Recorder = BatchWriter<AttemptRecord, true>;

/** Writes the outcomes of attempts down, patiently: what a server has taken must not be sent again for want of a note. */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  const tried = new WeakSet<AttemptRecord>();
  return new BatchWriter(
    log,
    'outcomes of deliveries',
    async (records) => {
      const settlements = records.flatMap((record) => record.settlements);
      const made = records.flatMap((record) => record.attempts);
      // What failed may have been committed, or be about to be, and only the answer lost.
      const choose = records.some((record) => tried.has(record)) ? newAttempts : undefined;
      for (const record of records) tried.add(record);
      const told = await db.transaction((tx) => settle(tx, queue, settlements, made, choose));
      if (told > 0) queue.webhooks.wake();
      return () => true;
    },
    (error) => !isAway(error),
    { most: recipientsAtOnce, weigh, ownerOf: ({ accountId }) => accountId ?? '' },
  );
}
