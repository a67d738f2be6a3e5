/** How evenly cells are loaded, depending on how accounts are assigned to them. */
export interface Placement {
  cells: number;
  /** Of the largest account, in cells. */
  largest: number;
  /**
   * The fullest cell relative to the mean: by a hash of the account, and by assigning each to the emptiest cell, the
   * largest first.
   */
  hashed: number;
  placed: number;
  /** The same a year later, when accounts have grown or shrunk by a factor and nobody was moved. */
  aged: number;
  /** And after moving as many accounts as needed; how many, of how many. */
  moved: { accounts: number; of: number; fullest: number };
}

/**
 * Accounts whose sizes follow a power law, like real senders: the n-th has 1/n^exponent of the first.
 *
 * ¶ @param draw numbers from 0 to 1, so that a run can be repeated
 */
export function simulate(cells: number, accounts: number, exponent: number, draw: () => number): Placement {
  const raw = Array.from({ length: accounts }, (_, index) => (index + 1) ** -exponent);
  const total = raw.reduce((sum, size) => sum + size, 0);
  // In cells: together they fill all of them.
  const sizes = raw.map((size) => (size / total) * cells);
  const hashed = sizes.map(() => Math.floor(draw() * cells));
  const placed = placeAll(sizes, cells);
  const grown = sizes.map((size) => size * Math.exp(normal(draw) * 0.7));
  const scale = cells / grown.reduce((sum, size) => sum + size, 0);
  const later = grown.map((size) => size * scale);
  const aged = loadsOf(later, placed, cells);
  const moved = rebalance(later, [...placed], cells);
  return {
    cells,
    largest: sizes[0] ?? 0,
    hashed: Math.max(...loadsOf(sizes, hashed, cells)),
    placed: Math.max(...loadsOf(sizes, placed, cells)),
    aged: Math.max(...aged),
    moved: { ...moved, of: accounts },
  };
}

function loadsOf(sizes: number[], cellOf: number[], cells: number): number[] {
  const loads = Array.from({ length: cells }, () => 0);
  for (const [account, size] of sizes.entries()) {
    const cell = cellOf[account] ?? 0;
    loads[cell] = (loads[cell] ?? 0) + size;
  }
  return loads;
}

const emptiest = (loads: number[]) => loads.indexOf(Math.min(...loads));

function placeAll(sizes: number[], cells: number): number[] {
  const loads = Array.from({ length: cells }, () => 0);
  return sizes.map((size) => {
    const cell = emptiest(loads);
    loads[cell] = (loads[cell] ?? 0) + size;
    return cell;
  });
}

const wanted = 1.1;

/** Moves accounts from the fullest cell to the emptiest, those that fit best, until none is a tenth above the mean. */
function rebalance(sizes: number[], cellOf: number[], cells: number): { accounts: number; fullest: number } {
  const loads = loadsOf(sizes, cellOf, cells);
  let accounts = 0;
  for (; accounts < 1_000; accounts += 1) {
    const from = loads.indexOf(Math.max(...loads));
    const to = emptiest(loads);
    const excess = (loads[from] ?? 0) - 1;
    const room = 1 - (loads[to] ?? 0);
    if ((loads[from] ?? 0) <= wanted) break;
    const best = sizes
      .map((size, account) => ({ size, account }))
      .filter(({ size, account }) => cellOf[account] === from && size <= Math.max(room, excess))
      .reduce<{ size: number; account: number } | null>((a, b) => (a && a.size >= b.size ? a : b), null);
    // A single account is too much for a cell: a person must handle that.
    if (!best) break;
    cellOf[best.account] = to;
    loads[from] = (loads[from] ?? 0) - best.size;
    loads[to] = (loads[to] ?? 0) + best.size;
  }
  return { accounts, fullest: Math.max(...loads) };
}

const normal = (draw: () => number) => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
