import type { Logger } from '../log.ts';
import { Trouble } from '../trouble.ts';
import { within } from './within.ts';

/** The first round of a piece of work waits this long at most for that of the one before it. */
const firstTurnMs = 200;

/** Work that is repeated, each piece never twice at the same time; a failure is logged, and retried in the next round. */
export class Rounds {
  readonly #log: Logger;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #busy = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();
  readonly #now: () => number;
  #firstTurns: Promise<unknown> = Promise.resolve();

  /** @param now in milliseconds; never goes back */
  constructor(log: Logger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /**
   * Does the work soon, and then every `ms`. First rounds begin one after the other: all at once they would have the database
   * open a connection for each, most of which nobody needs afterwards.
   *
   * @param work if it can take long, it ends early when its signal says so
   */
  every(ms: number, name: string, work: (stop: AbortSignal) => Promise<void>): void {
    const trouble = new Trouble(this.#log, { failing: 'a periodic task failed; it is tried again' }, this.#now);
    const round = () => {
      if (this.#busy.has(name)) return;
      const running = work(this.#stop.signal)
        .then(
          () => trouble.worked(),
          (error: Error) => trouble.failed(error, { round: name }),
        )
        .finally(() => this.#busy.delete(name));
      this.#busy.set(name, running);
    };
    this.#timers.push(setInterval(round, ms));
    this.#firstTurns = this.#firstTurns.then(() => this.#firstTurn(name, round));
  }

  async #firstTurn(name: string, round: () => void): Promise<void> {
    if (this.#stop.signal.aborted) return;
    round();
    await within(firstTurnMs, Promise.resolve(this.#busy.get(name)), undefined);
  }

  /** Begins no more rounds, and waits for those under way. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#stop.abort();
    await Promise.all(this.#busy.values());
  }
}
