import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';

/** How long something may take, in ms of processor. */
const most = 50;
/** Below that growth is not measured: it would be noise. */
const enough = 10;
const rounds = 12;
/** A machine that is shared may be several times slower for a minute: then it is asked again later. */
const lateMs = 120_000;
const pauseMs = 300;
/** What is linear takes eight times as long for eight times the text, and what is quadratic 64 times. */
const growth = 24;

/**
 * Holds a parser of foreign text to what is promised of all: as much as it may be given takes less than 50 ms, and twice
 * the text about twice as long, measured over three doublings, where noise is small beside the growth. Time is the processor's, and the least of a few
 * runs: whatever else this machine does only adds to it.
 */
export async function isLinear(
  t: Test,
  name: string,
  text: string,
  parse: (text: string) => unknown,
  eighth = text.slice(0, text.length / 8),
): Promise<void> {
  let whole = Number.POSITIVE_INFINITY;
  let part = Number.POSITIVE_INFINITY;
  const isFine = () => whole <= enough || (whole < most && whole <= growth * part);
  const end = performance.now() + lateMs;
  for (let round = 0; (round < rounds || performance.now() < end) && !isFine(); round += 1) {
    if (round >= rounds) await sleep(pauseMs);
    whole = Math.min(whole, await least(() => parse(text), 0, 1));
    // Twice, as one that is too long by chance would excuse anything.
    if (whole > enough) part = Math.min(part, await least(() => parse(eighth), 0, 2));
  }
  if (!isFine()) t.fail(`${name}: ${whole} ms, and ${part} ms for an eighth of it`);
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
