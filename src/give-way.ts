import { setImmediate as nextTurn } from 'node:timers/promises';

/** As long as this one piece of work may hold everything else up, in milliseconds. */
const mostMs = 4;

/** Does the work for each of these, one after the other, and after every few milliseconds lets others have their turn. */
export async function givingWay<Item, Made>(
  items: readonly Item[],
  work: (item: Item, index: number) => Made,
): Promise<Made[]> {
  const made: Made[] = [];
  let since = performance.now();
  for (const [index, item] of items.entries()) {
    if (performance.now() - since > mostMs) {
      await nextTurn();
      since = performance.now();
    }
    made.push(work(item, index));
  }
  return made;
}
