import { setTimeout as sleep } from 'node:timers/promises';
import { type CallOutcome, settle } from '../core/webhook-calls.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';

const batchSize = 200;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * Writes outcomes down, those that come in together in one transaction. While the database is away they wait here and
 * are tried again for as long as the process lives.
 */
export class Recorder {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #log: Logger;
  #waiting: { outcome: CallOutcome; done: (failing: boolean) => void }[] = [];
  #writing = false;
  #giveUpAt = Number.POSITIVE_INFINITY;

  constructor(db: Database, queue: Queue, log: Logger) {
    this.#db = db;
    this.#queue = queue;
    this.#log = log;
  }

  /** Resolves when the outcome is committed, with whether the endpoint is failing. */
  add(outcome: CallOutcome): Promise<boolean> {
    return new Promise((done) => {
      this.#waiting.push({ outcome, done });
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
      const failing = new Set(await this.#write(batch.map((entry) => entry.outcome)));
      for (const { outcome, done } of batch) done(failing.has(outcome.claim.webhookId));
    }
    this.#writing = false;
  }

  async #write(outcomes: CallOutcome[]): Promise<string[]> {
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        return await this.#db.transaction((tx) => settle(tx, this.#queue, outcomes));
      } catch (error) {
        this.#log.error(
          { error: (error as Error).message, outcomes: outcomes.length },
          'outcomes of webhook calls could not be written down; trying again',
        );
        if (Date.now() > this.#giveUpAt) return [];
        await sleep(pause);
      }
    }
  }
}
