/** The source of every choice in a run, so that its seed repeats the choices (but not the timing of two processes). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to 1: mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Between the two, in any unit. */
  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  /** From 0 to `below` - 1. */
  integer(below: number): number {
    return Math.floor(this.next() * below);
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.integer(list.length)];
    if (picked === undefined) throw new Error('nothing to pick from');
    return picked;
  }

  /** An independent generator for a part of a run, whose choices do not depend on how many the other parts make. */
  fork(name: string): Random {
    let hash = this.#state ^ 0x9e3779b9;
    for (const character of name) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
    return new Random(hash);
  }
}
