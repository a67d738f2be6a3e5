import { setTimeout as sleep } from 'node:timers/promises';

const dayMs = 86_400_000;

/** Waits for the next day (UTC) where it begins within this time (ms): for what counts by days, and takes no longer than that. */
export async function dayLasting(ms: number): Promise<void> {
  const leftMs = dayMs - (Date.now() % dayMs);
  // A little beyond it, as the database's clock may be another one.
  if (leftMs < ms) await sleep(leftMs + 1_000);
}
