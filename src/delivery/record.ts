import { setTimeout as sleep } from 'node:timers/promises';
import { settle } from '../core/settlement.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';
import type { AttemptRecord } from './attempt.ts';

const batchSize = 200;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * Writes outcomes down, those that come in together in one transaction. While the database is away they wait here and
 * are tried again for as long as the process lives: what a server has taken must not be sent again for want of a note.
 */
export class Recorder {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #log: Logger;
  #waiting: { record: AttemptRecord; done: () => void }[] = [];
  #writing = false;
  #giveUpAt = Number.POSITIVE_INFINITY;

  constructor(db: Database, queue: Queue, log: Logger) {
    this.#db = db;
    this.#queue = queue;
    this.#log = log;
  }

  /** Resolves when the record is committed. */
  add(record: AttemptRecord): Promise<void> {
    return new Promise((done) => {
      this.#waiting.push({ record, done });
      if (!this.#writing) void this.#writeAll();
    });
  }

  /** Ends the patience with a database that is away: after so many ms, what cannot be written is let go. */
  giveUpAfter(ms: number): void {
    this.#giveUpAt = Date.now() + ms;
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    // One turn of the event loop lets the outcomes that were read in this one join the batch.
    await new Promise((resume) => setImmediate(resume));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, batchSize);
      await this.#write(batch.map((entry) => entry.record));
      for (const entry of batch) entry.done();
    }
    this.#writing = false;
  }

  async #write(records: AttemptRecord[]): Promise<void> {
    const settlements = records.flatMap((record) => record.settlements);
    const attempts = records.flatMap((record) => record.attempts);
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        const told = await this.#db.transaction((tx) => settle(tx, this.#queue, settlements, attempts));
        if (told > 0) this.#queue.webhooks.wake();
        return;
      } catch (error) {
        this.#log.error(
          { error: (error as Error).message, outcomes: settlements.length },
          'outcomes could not be written down; trying again',
        );
        if (Date.now() > this.#giveUpAt) return;
        await sleep(pause);
      }
    }
  }
}
