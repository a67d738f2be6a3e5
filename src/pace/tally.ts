/** How much there is of each kind. A kind that comes down to zero is forgotten, so the size follows what is under way. */
export class Tally<Kind> {
  readonly #counts = new Map<Kind, number>();

  of(kind: Kind): number {
    return this.#counts.get(kind) ?? 0;
  }

  /** @param change a negative one takes away what had been added */
  add(kind: Kind, change: number): void {
    const count = this.of(kind) + change;
    if (count > 0) this.#counts.set(kind, count);
    else this.#counts.delete(kind);
  }

  /** The kinds of which there are at least this many. */
  having(least: number): Kind[] {
    return [...this.#counts].filter(([, count]) => count >= least).map(([kind]) => kind);
  }

  /** All kinds of which there is anything. */
  kinds(): Iterable<Kind> {
    return this.#counts.keys();
  }

  clear(): void {
    this.#counts.clear();
  }
}
