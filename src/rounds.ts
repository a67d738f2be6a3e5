import type { Logger } from './log.ts';

/** Work that is done again and again, each piece never twice at the same time; a failure is logged and tried next time. */
export class Rounds {
  readonly #log: Logger;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #busy = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Does the work now, and then every `ms`. @param work what can take long ends early when its signal says so */
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
    round();
  }

  /** Begins nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#stop.abort();
    await Promise.all(this.#busy.values());
  }
}
