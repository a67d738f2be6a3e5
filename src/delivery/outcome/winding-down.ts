/** How long attempts under way may take to end by themselves on shutdown, in ms; then they are aborted. */
const drainMs = 20_000;

/** How long before the cut-off the last dot may be sent, in ms: a message whose answer is cut off is sent again, as uncertain. */
const answerMs = 10_000;

/** How far this node's shutdown has come, as attempts see it. */
export interface Ending {
  /** True once nothing more may begin, not even a copy for another reader. */
  readonly begun: boolean;
  /** True once no final dot may be sent, as its answer could come too late to be read. */
  readonly late: boolean;
  /** Aborts what is still under way. */
  readonly signal: AbortSignal;
}

/** The shutdown of a node's deliveries: at most `drainMs` from `begin` on. */
export class WindingDown implements Ending {
  readonly #abort = new AbortController();
  #drainMs: number;
  #answerMs: number;
  #begunAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(times = { drainMs, answerMs }) {
    this.#drainMs = times.drainMs;
    this.#answerMs = times.answerMs;
  }

  get drainMs(): number {
    return this.#drainMs;
  }

  get begun(): boolean {
    return this.#begunAt !== null;
  }

  get late(): boolean {
    return this.#begunAt !== null && performance.now() > this.#begunAt + this.#drainMs - this.#answerMs;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** @param withinMs the time that is left for it, which may be less than `drainMs`; then answers are awaited for less, too */
  begin(withinMs = Number.POSITIVE_INFINITY): void {
    const missingMs = Math.max(0, this.#drainMs - withinMs);
    this.#drainMs -= missingMs;
    this.#answerMs -= missingMs / 2;
    this.#begunAt = performance.now();
    this.#timer = setTimeout(() => this.#abort.abort(), this.#drainMs);
  }

  /** Everything has ended by itself. */
  done(): void {
    clearTimeout(this.#timer);
  }
}
