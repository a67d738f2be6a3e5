import type { Logger } from '../log.ts';

/** Steps that each end something, in the order in which that was begun: `stopAll` takes the last one first. */
export type Stops = (() => Promise<unknown>)[];

/**
 * Ends first what was begun last, as it may need what was there before it.
 *
 * @throws the first error, with the rest left as it is
 */
export async function stopAll(stops: Stops): Promise<void> {
  for (const stop of stops.toReversed()) await stop();
}

/**
 * Adds the step for what is only beginning now: an end that comes meanwhile waits for it, and ends it too. What does not begin
 * needs no end.
 */
export function keep<Begun>(
  stops: Stops,
  beginning: Promise<Begun>,
  end: (begun: Begun) => Promise<unknown>,
): Promise<Begun> {
  stops.push(() => beginning.then(end, () => undefined));
  return beginning;
}

/** Something that begins step by step and can be ended at any moment, also while it begins. */
export class Lifetime {
  /** What ends each step that has begun. */
  readonly stops: Stops = [];
  readonly #log: Logger;
  readonly #endWithinMs: number;
  #endsBy: number | null = null;
  #ending = Promise.resolve();

  constructor(log: Logger, endWithinMs: number) {
    this.#log = log;
    this.#endWithinMs = endWithinMs;
  }

  /** How long its end may take, from now on if it has begun, in ms. */
  get leftMs(): number {
    return this.#endsBy === null ? this.#endWithinMs : Math.max(0, this.#endsBy - performance.now());
  }

  /**
   * To be called after each step that took a while.
   *
   * @throws Error if it was ended meanwhile
   */
  goOn(): void {
    if (this.#endsBy !== null) throw new Error('the node was ended during its start');
  }

  /**
   * Ends what was begun last first; a failure is logged. What has not ended in time is not waited for: a database that accepts
   * everything and answers nothing takes ten seconds and more for each goodbye. A later call ends what has begun since.
   */
  end(): Promise<void> {
    const endsBy = this.#endsBy ?? performance.now() + this.#endWithinMs;
    this.#endsBy = endsBy;
    this.#ending = this.#ending.then(() => this.#endAll(endsBy));
    return this.#ending;
  }

  async #endAll(endsBy: number): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#log.warn('stopping takes too long: what has not ended is left as it is');
      late.resolve();
    }, endsBy - performance.now());
    // Each step is taken off the list: a beginning that goes on a little after the end may add more.
    for (let stop = this.stops.pop(); stop; stop = this.stops.pop()) {
      const ended = stop().catch((error: Error) =>
        this.#log.warn({ error: error.message }, 'a component did not stop cleanly'),
      );
      await Promise.race([ended, late.promise]);
    }
    clearTimeout(timer);
  }
}
