/**
 * When to look for jobs that go before what waits in this process: at once for what this process has added itself, of which it
 * is told, and every so often for what others have.
 */
export class DuePriorities {
  readonly #priorities: readonly number[];
  readonly #everyMs: number;
  #lookedAt = Number.NEGATIVE_INFINITY;
  readonly #came = new Set<number>();

  constructor(priorities: readonly number[], everyMs: number) {
    this.#priorities = priorities;
    this.#everyMs = everyMs;
  }

  /** Jobs of this priority, which may be another one, were added here; undefined: of an unknown one. */
  came(priority: number | undefined): void {
    if (priority !== undefined) this.#came.add(priority);
  }

  /** @returns the priorities to look for now, which count as looked for from then on */
  take(): number[] {
    const now = performance.now();
    const isTime = now - this.#lookedAt >= this.#everyMs;
    if (isTime) this.#lookedAt = now;
    const due = this.#priorities.filter((priority) => isTime || this.#came.has(priority));
    this.#came.clear();
    return due;
  }
}
