/**
 * Splits items into groups of at most this weight, in their order; an item that is heavier is a group by itself.
 *
 * @param weigh in the unit of `most`
 */
export function byWeight<Item>(items: readonly Item[], most: number, weigh: (item: Item) => number): Item[][] {
  const groups: Item[][] = [];
  let room = 0;
  for (const item of items) {
    const weight = weigh(item);
    if (weight > room || groups.length === 0) {
      groups.push([]);
      room = most;
    }
    groups.at(-1)?.push(item);
    room -= weight;
  }
  return groups;
}
