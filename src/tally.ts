/** How much of each kind there is. What comes to nothing is forgotten, so it is as large as what is under way. */
export class Tally<Kind> {
  readonly #counts = new Map<Kind, number>();

  of(kind: Kind): number {
    return this.#counts.get(kind) ?? 0;
  }

  /** @param change less than nothing takes away; what is taken away had been added */
  add(kind: Kind, change: number): void {
    const count = this.of(kind) + change;
    if (count > 0) this.#counts.set(kind, count);
    else this.#counts.delete(kind);
  }

  /** The kinds of which there are so many at least. */
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
