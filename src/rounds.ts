import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

/** How long the first round of one piece of work holds up that of the next. */
const firstTurnMs = 200;

/** Work that is done again and again, each piece never twice at the same time; a failure is logged and tried next time. */
export class Rounds {
  readonly #log: Logger;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #busy = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();
  #firstTurns: Promise<unknown> = Promise.resolve();

  constructor(log: Logger) {
    this.#log = log;
  }

  /**
   * Does the work soon, and then every `ms`. What a start brings along is begun one after the other: all at once it would have
   * the database make a connection for each, most of which nobody needs afterwards.
   *
   * @param work what can take long ends early when its signal says so
   */
  every(ms: number, name: string, work: (stop: AbortSignal) => Promise<void>): void {
    const round = () => {
      if (this.#busy.has(name)) return;
      const running = work(this.#stop.signal)
        .catch((error: Error) =>
          this.#log.warn({ error: error.message, round: name }, 'regular work failed; it is tried again'),
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
    const over = new AbortController();
    await Promise.race([
      this.#busy.get(name),
      sleep(firstTurnMs, undefined, { ref: false, signal: over.signal }).catch(() => undefined),
    ]);
    over.abort();
  }

  /** Begins nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#stop.abort();
    await this.#firstTurns;
    await Promise.all(this.#busy.values());
  }
}
