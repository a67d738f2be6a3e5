/** How much one run takes, and what is not run. */
export interface BatcherLimits<Item, Result> {
  /** Items at most. */
  most: number;
  /** The weight of an item, and the most that those of one run may weigh together; a heavier one goes alone. */
  weigh?: (item: Item) => number;
  heaviest?: number;
  /** Asked of each item that waits when a run is over: a result that it gets without being run, if any. */
  instead?: (item: Item) => Result | undefined;
}

/**
 * Runs together what is asked for at the same time: the first item at once, and those that come while its run is under
 * way in the next one. So an item that comes alone does not wait, and however many come, only one run is under way.
 */
export class Batcher<Item, Result> {
  readonly #run: (items: Item[]) => Promise<Result[]>;
  readonly #limits: Required<BatcherLimits<Item, Result>>;
  readonly #waiting: { item: Item; done: (result: Result) => void; failed: (error: unknown) => void }[] = [];
  #running = false;

  /** @param run returns one result for each item, in order; if it throws, all of its items fail */
  constructor(run: (items: Item[]) => Promise<Result[]>, limits: BatcherLimits<Item, Result>) {
    this.#run = run;
    this.#limits = { weigh: () => 0, heaviest: 0, instead: () => undefined, ...limits };
  }

  /** True when nothing waits and nothing runs. */
  get idle(): boolean {
    return !this.#running && this.#waiting.length === 0;
  }

  add(item: Item): Promise<Result> {
    return new Promise((done, failed) => {
      this.#waiting.push({ item, done, failed });
      if (!this.#running) void this.#runAll();
    });
  }

  async #runAll(): Promise<void> {
    this.#running = true;
    // Items that arrive in this turn of the event loop go along.
    await new Promise((resume) => setImmediate(resume));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#fitting());
      try {
        const results = await this.#run(batch.map(({ item }) => item));
        for (const [index, { done }] of batch.entries()) done(results[index] as Result);
      } catch (error) {
        for (const { failed } of batch) failed(error);
      }
      this.#answerInstead();
    }
    this.#running = false;
  }

  #answerInstead(): void {
    for (const one of this.#waiting.splice(0)) {
      const result = this.#limits.instead(one.item);
      if (result === undefined) this.#waiting.push(one);
      else one.done(result);
    }
  }

  #fitting(): number {
    const { most, weigh, heaviest } = this.#limits;
    let weight = 0;
    const tooMany = this.#waiting.findIndex(({ item }, index) => {
      weight += weigh(item);
      return index === most || (index > 0 && weight > heaviest);
    });
    return tooMany === -1 ? this.#waiting.length : tooMany;
  }
}
