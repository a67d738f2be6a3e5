import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';

/** How long something may take, in ms of processor time. */
const most = 50;
/** Growth is not measured below that: it would be noise. */
const enough = 10;
const rounds = 12;
/**
 * A shared machine may be several times slower for a minute; then it is measured again later. This is the total time
 * for that, for all callers together.
 */
let patienceMs = 120_000;
const pauseMs = 300;
/** Eight times the text takes a linear parser eight times as long, and a quadratic one 64 times. */
const growth = 24;

/**
 * Checks the promise for all parsers of foreign text: the longest permitted input takes less than 50 ms, and twice the
 * text about twice as long, measured over three doublings, where noise is small compared to the growth. The time is
 * processor time, without what the machine needs for new memory, and the least of a few runs, because whatever else
 * this machine does only adds to it.
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
  for (let round = 0; (round < rounds || patienceMs > 0) && !isFine(); round += 1) {
    const began = performance.now();
    if (round >= rounds) await sleep(pauseMs);
    whole = Math.min(whole, await least(() => parse(text), 0, 1));
    // Twice, because one measurement that is too long by chance would excuse anything.
    if (whole > enough) part = Math.min(part, await least(() => parse(eighth), 0, 2));
    if (round >= rounds) patienceMs -= performance.now() - began;
  }
  if (!isFine()) t.fail(`${name}: ${whole} ms, and ${part} ms for an eighth of it`);
}

/** The shortest of some runs, in ms of processor time; one of at most `until` is enough. */
export async function least(work: () => unknown, until: number, runs = 20): Promise<number> {
  const perPage = pageMs();
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs && best > until; run += 1) {
    const before = process.resourceUsage();
    await work();
    const { ms, pages } = since(before);
    best = Math.min(best, Math.max(0, ms - pages * perPage));
  }
  return best;
}

/** How long other work waits at most for a turn while this goes on, in ms of processor time, without that for new memory. */
export async function longestTurn<T>(work: () => Promise<T>): Promise<{ ms: number; result: T }> {
  const perPage = pageMs();
  let longest = 0;
  let last = process.resourceUsage();
  const look = () => {
    const { ms, pages } = since(last);
    longest = Math.max(longest, ms - pages * perPage);
    last = process.resourceUsage();
  };
  const watch = setInterval(look, 1);
  const result = await work();
  look();
  clearInterval(watch);
  return { ms: longest, result };
}

/**
 * The cost of a page of new memory, in ms of processor time. On some virtual machines it is a hundred times the usual,
 * and a text that needs new memory takes 60 times as long as one that fits into existing memory.
 */
export function pageMs(): number {
  page ??= Math.min(mostOfPage, ...Array.from({ length: 5 }, timeOfPage));
  return page;
}
let page: number | undefined;
const mostOfPage = 0.03;

function timeOfPage(): number {
  const before = process.resourceUsage();
  // Less than a large page, which is filled at once.
  Buffer.alloc(1024 * 1024, 1);
  const { ms, pages } = since(before);
  return ms / Math.max(pages, 1);
}

function since(before: NodeJS.ResourceUsage): { ms: number; pages: number } {
  const now = process.resourceUsage();
  const us = now.userCPUTime + now.systemCPUTime - before.userCPUTime - before.systemCPUTime;
  return { ms: us / 1000, pages: now.minorPageFault - before.minorPageFault };
}
