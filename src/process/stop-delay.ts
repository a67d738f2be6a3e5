import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The time in which a node that is to stop works on as before, while `/readyz` says that it stops: a balancer that asks for that
 * sends its work elsewhere before the ports close.
 */
export class StopDelay {
  readonly ms: number;
  readonly #cut = new AbortController();
  #isStopping = false;

  constructor(ms: number) {
    this.ms = ms;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Aborted once nobody wants to wait any longer. */
  get isCut(): AbortSignal {
    return this.#cut.signal;
  }

  get isAhead(): boolean {
    return this.ms > 0 && !this.#cut.signal.aborted;
  }

  /** Ends it, or leaves it out. */
  cut(): void {
    this.#cut.abort();
  }

  async pass(): Promise<void> {
    this.#isStopping = true;
    if (this.isAhead) await sleep(this.ms, undefined, { signal: this.#cut.signal }).catch(() => undefined);
  }
}
