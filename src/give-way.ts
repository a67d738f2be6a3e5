import { setImmediate as nextTurn } from 'node:timers/promises';

/** As long as one piece of work may hold everything else up, in milliseconds. */
const mostMs = 4;

/** Tells when work has gone on for long enough. */
export class Pace {
  #since = performance.now();

  get isDue(): boolean {
    return performance.now() - this.#since > mostMs;
  }

  /** Lets others have their turn. */
  async giveWay(): Promise<void> {
    await nextTurn();
    this.#since = performance.now();
  }
}

/**
 * Does the work for each of these, one after the other, and after every few milliseconds lets others have their turn.
 *
 * @param pace where this is a part of more
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
