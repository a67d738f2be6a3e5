import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits for the work for at most this many ms; what it does goes on afterwards. No timer outlives the wait, or keeps a process
 * alive.
 *
 * @returns what the work gives, or `late` if that takes longer
 */
export async function within<Given, Late>(ms: number, work: Promise<Given>, late: Late): Promise<Given | Late> {
  const over = new AbortController();
  const end = sleep(ms, late, { ref: false, signal: over.signal }).catch(() => late);
  return Promise.race([work, end]).finally(() => over.abort());
}
