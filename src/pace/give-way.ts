import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long one piece of work may hold up everything else, in milliseconds. */
const usualMs = 4;

/** Tells when work has gone on for long enough. */
export class Pace {
  readonly #mostMs: number;
  #since = performance.now();

  /** @param mostMs how long the work may go on before it gives way */
  constructor(mostMs = usualMs) {
    this.#mostMs = mostMs;
  }

  get isDue(): boolean {
    return performance.now() - this.#since > this.#mostMs;
  }

  /** Lets other work have its turn. */
  async giveWay(): Promise<void> {
    await nextTurn();
    this.#since = performance.now();
  }
}

/**
 * Does the work for each item in order, and lets other work have its turn every few milliseconds.
 *
 * @param pace the caller's, if this is part of longer work
 */
export async function givingWay<Item, Made>(
  items: readonly Item[],
  work: (item: Item, index: number) => Made,
  pace = new Pace(),
): Promise<Made[]> {
  const made: Made[] = [];
  for (const [index, item] of items.entries()) {
    if (pace.isDue) await pace.giveWay();
    made.push(work(item, index));
  }
  return made;
}
