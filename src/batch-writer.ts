import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

const batchSize = 200;
const fewItems = 50;
const gatherMs = 5;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * Writes things down, those that come in together in one go. While that fails, as when the database is away, they wait in
 * memory and are tried again for as long as the process lives.
 */
export class BatchWriter<Item, Result> {
  readonly #write: (items: Item[]) => Promise<(item: Item) => Result>;
  readonly #log: Logger;
  readonly #what: string;
  #waiting: { item: Item; done: (result: Result | undefined) => void }[] = [];
  #writing = false;
  #giveUpAt = Number.POSITIVE_INFINITY;

  /**
   * @param what is written, for the log
   * @param write commits all of the items or none, and gives back what each of them came to
   */
  constructor(log: Logger, what: string, write: (items: Item[]) => Promise<(item: Item) => Result>) {
    this.#log = log;
    this.#what = what;
    this.#write = write;
  }

  /** Resolves when the item is committed; with undefined when it was let go after `giveUpAfter`. */
  add(item: Item): Promise<Result | undefined> {
    return new Promise((done) => {
      this.#waiting.push({ item, done });
      if (!this.#writing) void this.#writeAll();
    });
  }

  /** Ends the patience with what fails: after so many ms, what cannot be written is let go. */
  giveUpAfter(ms: number): void {
    this.#giveUpAt = Date.now() + ms;
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    // One turn of the event loop lets the items that were made in this one join the batch.
    await new Promise((resume) => setImmediate(resume));
    let wrote = false;
    while (this.#waiting.length > 0) {
      // Where items keep coming one by one, a few milliseconds make a write of many from many writes of a few.
      if (wrote && this.#waiting.length < fewItems) await sleep(gatherMs);
      wrote = true;
      const batch = this.#waiting.splice(0, batchSize);
      const resultOf = await this.#persist(batch.map((entry) => entry.item));
      for (const { item, done } of batch) done(resultOf?.(item));
    }
    this.#writing = false;
  }

  async #persist(items: Item[]): Promise<((item: Item) => Result) | undefined> {
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        return await this.#write(items);
      } catch (error) {
        const fields = { error: (error as Error).message, what: this.#what, items: items.length };
        this.#log.error(fields, 'could not be written down; trying again');
        if (Date.now() > this.#giveUpAt) return undefined;
        await sleep(pause);
      }
    }
  }
}
