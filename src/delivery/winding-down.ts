/** In ms, for attempts under way to end by themselves on shutdown; then they are ended. */
const drainMs = 20_000;

/** In ms, for a server to answer a message before it would be cut off, and sent again as nobody knows whether it arrived. */
const answerMs = 10_000;

/** How far this node has come with its end, as attempts see it. */
export interface Ending {
  /** True once nothing more is begun: no copy for another reader. */
  readonly begun: boolean;
  /** True once no message is ended any more, as its answer could come too late to be read. */
  readonly late: boolean;
  /** Ends what is still under way. */
  readonly signal: AbortSignal;
}

/** The end of a node's deliveries: at most `drainMs` from `begin` on. */
export class WindingDown implements Ending {
  readonly #abort = new AbortController();
  readonly #drainMs: number;
  readonly #answerMs: number;
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

  begin(): void {
    this.#begunAt = performance.now();
    this.#timer = setTimeout(() => this.#abort.abort(), this.#drainMs);
  }

  /** All has ended by itself. */
  done(): void {
    clearTimeout(this.#timer);
  }
}
