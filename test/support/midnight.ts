import { setTimeout as sleep } from 'node:timers/promises';

const dayMs = 86_400_000;

/**
 * Waits for the next day (UTC) if it begins within this time (ms): for tests that count by day and take no longer than
 * that.
 */
export async function dayLasting(ms: number): Promise<void> {
  const leftMs = dayMs - (Date.now() % dayMs);
  // A little beyond it, because the database's clock may differ.
  if (leftMs < ms) await sleep(leftMs + 1_000);
}
