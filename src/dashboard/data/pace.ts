/** Of the time of a page that is open, this part at most goes by while it waits for an answer that it asks for again and again. */
const mostShare = 1 / 10;

/**
 * How often a question is asked again: as often as wanted while answers are quick, and more rarely once they take the server
 * seconds, as a count of the mail of thousands of accounts does.
 */
export class Pace {
  readonly #leastMs: number;
  #tookMs = 0;

  constructor(leastMs: number) {
    this.#leastMs = leastMs;
  }

  /** Until the next time, in ms. */
  get everyMs(): number {
    return Math.max(this.#leastMs, this.#tookMs / mostShare);
  }

  async ask<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    const begun = performance.now();
    try {
      return await question();
    } finally {
      this.#tookMs = performance.now() - begun;
    }
  }
}
