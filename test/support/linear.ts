import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';

/** How long something may take, in ms of processor. */
const most = 50;
/** Below that growth is not measured: it would be noise. */
const enough = 10;
const rounds = 12;
/** A machine that is shared may be several times slower for a minute: then it is asked again later. So long in all, whatever asks. */
let patienceMs = 120_000;
const pauseMs = 300;
/** What is linear takes eight times as long for eight times the text, and what is quadratic 64 times. */
const growth = 24;

/**
 * Holds a parser of foreign text to what is promised of all: as much as it may be given takes less than 50 ms, and twice
 * the text about twice as long, measured over three doublings, where noise is small beside the growth. Time is the processor's, without what
 * the machine takes for new memory, and the least of a few runs: whatever else this machine does only adds to it.
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
    // Twice, as one that is too long by chance would excuse anything.
    if (whole > enough) part = Math.min(part, await least(() => parse(eighth), 0, 2));
    if (round >= rounds) patienceMs -= performance.now() - began;
  }
  if (!isFine()) t.fail(`${name}: ${whole} ms, and ${part} ms for an eighth of it`);
}

/** Of some runs the one that took the least, in ms of processor; one that took no more than `until` is enough. */
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

/**
 * What a page of new memory takes, in ms of processor. With some virtual machines that is a hundred times what is usual, and a text
 * that needs new memory takes 60 times as long as one that finds place in what is there.
 */
export function pageMs(): number {
  page ??= Math.min(mostOfPage, ...Array.from({ length: 5 }, timeOfPage));
  return page;
}
let page: number | undefined;
const mostOfPage = 0.03;

function timeOfPage(): number {
  const before = process.resourceUsage();
  // Less than a large page, which is filled in one go.
  Buffer.alloc(1024 * 1024, 1);
  const { ms, pages } = since(before);
  return ms / Math.max(pages, 1);
}

function since(before: NodeJS.ResourceUsage): { ms: number; pages: number } {
  const now = process.resourceUsage();
  const us = now.userCPUTime + now.systemCPUTime - before.userCPUTime - before.systemCPUTime;
  return { ms: us / 1000, pages: now.minorPageFault - before.minorPageFault };
}
