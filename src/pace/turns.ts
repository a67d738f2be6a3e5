import { unavailable } from '../errors.ts';

/** Lets some work of one kind run at once; a given number of others wait for their turn, and more are refused. */
export class Turns {
  readonly #works: string;
  readonly #atOnce: number;
  readonly #mostWaiting: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** @param works what takes turns, for the log: a plural */
  constructor(atOnce: number, mostWaiting: number, works: string) {
    this.#works = works;
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
  }

  /** @throws ApiError 503 if too much waits already */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#waiting.length >= this.#mostWaiting)
      throw unavailable(`${this.#mostWaiting} ${this.#works} wait already`);
    if (this.#running >= this.#atOnce) await new Promise<void>((resume) => this.#waiting.push(resume));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // The next one takes over the place.
      if (next) next();
      else this.#running -= 1;
    }
  }
}
