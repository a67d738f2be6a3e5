/** What a loop does. */
export interface BatchWork {
  /** Done before the first batch of each run. */
  prepare(): Promise<void>;
  /** @returns whether there may be another batch at once */
  takeBatch(): Promise<boolean>;
  /** Told if one of them fails, which ends the run. */
  onError(error: Error): void;
}

/** Takes one batch after another, never two at a time, for as long as there may be more. */
export class BatchLoop {
  readonly #work: BatchWork;
  #running: Promise<void> | null = null;
  #isWoken = false;
  #isStopped = false;

  constructor(work: BatchWork) {
    this.#work = work;
  }

  /** Takes what there is; if a batch is being taken, looks once more after that. */
  wake(): void {
    this.#isWoken = true;
    if (!this.#isStopped) this.#running ??= this.#run();
  }

  /** Resolves when nothing is taken any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      await this.#work.prepare();
      while (this.#isWoken && !this.#isStopped) {
        this.#isWoken = false;
        if (await this.#work.takeBatch()) this.#isWoken = true;
      }
    } catch (error) {
      this.#work.onError(error as Error);
    } finally {
      // Here and not in a later step of the promise: whoever called `wake` between the two would not be heard.
      this.#running = null;
    }
  }
}
