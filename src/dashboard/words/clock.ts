/** By less than this, in ms, clocks differ everywhere, and what a proxy has delayed may seem to. */
const leastMs = 5 * 60_000;

/** How far the clock of this machine is behind the server's, in ms; 0 if it is about right. */
let behindMs = 0;

/** Compares this machine's clock with the server's, which has just written this answer. */
export function noteServerClock(headers: Headers): void {
  const apart = Date.parse(headers.get('Date') ?? '') - Date.now();
  if (!Number.isNaN(apart)) behindMs = Math.abs(apart) < leastMs ? 0 : apart;
}

/**
 * What time it is, in ms. By the server's clock, which all its times are of: a machine whose clock is hours off, as where its
 * time was set by hand in the wrong zone, would show mail of just now as hours old, charts without their end, and alarms.
 */
export const now = (): number => Date.now() + behindMs;
