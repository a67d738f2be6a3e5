import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

const batchSize = 200;
const fewItems = 50;
const gatherMs = 5;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

interface Waiting<Item, Result> {
  item: Item;
  done: (result: Result | undefined) => void;
}

/**
 * Writes things down, those that come in together in one go. While that fails, as when the database is away, they wait in
 * memory and are tried again for as long as the process lives; one that is refused for what it holds holds up no other.
 */
export class BatchWriter<Item, Result> {
  readonly #write: (items: Item[]) => Promise<(item: Item) => Result>;
  readonly #log: Logger;
  readonly #what: string;
  #waiting: Waiting<Item, Result>[] = [];
  #writing = false;
  readonly #isItsFault: (error: unknown) => boolean;
  #giveUpAt = Number.POSITIVE_INFINITY;

  /**
   * @param what is written, for the log
   * @param write commits all of the items or none, and gives back what each of them came to
   * @param isItsFault whether this error is about what an item holds
   */
  constructor(
    log: Logger,
    what: string,
    write: (items: Item[]) => Promise<(item: Item) => Result>,
    isItsFault: (error: unknown) => boolean,
  ) {
    this.#log = log;
    this.#what = what;
    this.#write = write;
    this.#isItsFault = isItsFault;
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
    this.#giveUpAt = performance.now() + ms;
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
      await this.#persist(this.#waiting.splice(0, batchSize));
    }
    this.#writing = false;
  }

  /** @param aside nobody waits for this one: it is tried until it is written, or there is no more time */
  async #persist(batch: Waiting<Item, Result>[], aside = false): Promise<void> {
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        const resultOf = await this.#write(batch.map(({ item }) => item));
        for (const { item, done } of batch) done(resultOf(item));
        return;
      } catch (error) {
        const fields = { error: (error as Error).message, what: this.#what, items: batch.length };
        this.#log.error(fields, 'could not be written down; trying again');
        if (performance.now() > this.#giveUpAt) {
          for (const { done } of batch) done(undefined);
          return;
        }
        if (!aside && this.#isItsFault(error)) return this.#apart(batch);
        await sleep(pause);
      }
    }
  }

  /** Halves what holds something that is refused until that is alone, and goes on without it. */
  async #apart(batch: Waiting<Item, Result>[]): Promise<void> {
    const middle = batch.length >> 1;
    if (middle === 0) {
      void this.#persist(batch, true);
      return;
    }
    await this.#persist(batch.slice(0, middle));
    await this.#persist(batch.slice(middle));
  }
}
