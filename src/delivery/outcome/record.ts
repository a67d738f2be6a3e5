import { newAttempts } from '../../core/recipients/attempts.ts';
import { settle } from '../../core/recipients/settlement.ts';
import { settledAtOnce } from '../../core/recipients/settlement-events.ts';
import type { Database } from '../../db/client.ts';
import { isAway } from '../../db/errors.ts';
import type { Logger } from '../../log.ts';
import { BatchWriter } from '../../pace/batch-writer.ts';
import type { Queue } from '../../queue.ts';
import type { AttemptRecord } from './attempt-record.ts';

/** Many endpoints may be told of each recipient, with all addresses of its email: twice as many are four times the work. */
const weigh = ({ settlements: { length } }: AttemptRecord) => length * Math.max(1, length / 10);

export type Recorder = BatchWriter<AttemptRecord, true>;

/**
 * Stores the outcomes of attempts, patiently: what a server has taken must not be sent again for want of a record. What cannot
 * be stored at the end of the node is left to the journal.
 */
export function createRecorder(db: Database, queue: Queue, log: Logger): Recorder {
  const tried = new WeakSet<AttemptRecord>();
  return new BatchWriter(log, {
    what: 'outcomes of deliveries',
    write: async (records) => {
      const settlements = records.flatMap((record) => record.settlements);
      const made = records.flatMap((record) => record.attempts);
      // A write that failed may have been committed, or be about to be, with only the answer lost.
      const choose = records.some((record) => tried.has(record)) ? newAttempts : undefined;
      for (const record of records) tried.add(record);
      const told = await db.transaction((tx) => settle(tx, queue, settlements, made, choose));
      if (told > 0) queue.webhooks.wake();
      return () => true;
    },
    isItsFault: (error) => !isAway(error),
    isForGood: db.isGoneForGood,
    bound: { most: settledAtOnce, weigh, ownerOf: ({ accountId }) => accountId ?? '' },
  });
}
