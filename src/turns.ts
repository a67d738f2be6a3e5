import { unavailable } from './errors.ts';

/** Lets so much of one kind of work run at once; as much as is told waits for its turn, and more is refused. */
export class Turns {
  readonly #atOnce: number;
  readonly #mostWaiting: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnce: number, mostWaiting: number) {
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
  }

  /** @throws ApiError 503 when too much waits already */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#waiting.length >= this.#mostWaiting) throw unavailable();
    if (this.#running >= this.#atOnce) await new Promise<void>((resume) => this.#waiting.push(resume));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // Whoever comes next takes the place over.
      if (next) next();
      else this.#running -= 1;
    }
  }
}
