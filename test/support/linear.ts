import type { Test } from 'tap';

/** How long something may take, in ms of processor. */
const most = 50;
/** Below that growth is not measured: it would be noise. */
const enough = 10;
const rounds = 8;

/**
 * Holds a parser of foreign text to what is promised of all: as much as it may be given takes less than 50 ms, and twice
 * the text no more than 2.5 times as long. Time is the processor's, and the least of a few runs: whatever else this
 * machine does only adds to it.
 */
export async function isLinear(
  t: Test,
  name: string,
  text: string,
  parse: (text: string) => unknown,
  shorter = text.slice(0, text.length / 2),
): Promise<void> {
  let whole = Number.POSITIVE_INFINITY;
  let half = Number.POSITIVE_INFINITY;
  const isFine = () => whole <= enough || (whole < most && whole <= 2.5 * half);
  for (let round = 0; round < rounds && !isFine(); round += 1) {
    whole = Math.min(whole, await least(() => parse(text), 0, 1));
    // Twice, as one that is too long by chance would excuse anything.
    if (whole > enough) half = Math.min(half, await least(() => parse(shorter), 0, 2));
  }
  if (!isFine()) t.fail(`${name}: ${whole} ms, and ${half} ms for half of it`);
}

/** Of some runs the one that took the least, in ms of processor; one that took no more than `until` is enough. */
export async function least(work: () => unknown, until: number, runs = 20): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs && best > until; run += 1) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1000);
  }
  return best;
}
