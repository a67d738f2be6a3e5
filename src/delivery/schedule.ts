/** When to try again, and for how long. */
export interface RetryPolicy {
  /** Delay in ms after the first, second, … attempt; the last one repeats. */
  scheduleMs: number[];
  /** From the moment the email was due; what is still deferred after it has failed. */
  forMs: number;
}

/** What has been tried, and what the server asked for at last. */
export interface History {
  attempts: number;
  dueAt: Date;
  /** For how long it asked to wait, in ms; null when it did not say. */
  askedMs?: number | null;
  /** When the attempt was begun that has just ended; null: no server was asked. */
  begunAt?: Date | null;
}

const spread = 0.1;
/** Where no schedule says it. */
const unsaidMs = 60_000;
/** After so many attempts a server cannot have the next one sooner than the schedule, however short a time it names. */
const attemptsSooner = 3;

/**
 * When to try next, or null when it is time to give up. Each delay is spread by a tenth, so that mail deferred together
 * does not come back together, and none comes before the time that was asked for; the last attempt is at the very end of
 * the time. What was kept back for all of it, by a hold or a pause, has a second one.
 */
export function nextAttempt(
  policy: RetryPolicy,
  { attempts, dueAt, askedMs = null, begunAt = null }: History,
  now: Date,
  random: () => number = Math.random,
): Date | null {
  const end = dueAt.getTime() + policy.forMs;
  const wasKeptBack = attempts === 1 && begunAt !== null && begunAt.getTime() >= end;
  if (now.getTime() >= end && !wasKeptBack) return null;
  const delay = policy.scheduleMs[Math.min(attempts, policy.scheduleMs.length) - 1] ?? unsaidMs;
  const scheduled = delay * (1 + spread * (2 * random() - 1));
  const asked = askedMs === null ? 0 : askedMs * (1 + spread * random());
  const wait = asked > 0 && attempts <= attemptsSooner ? asked : Math.max(asked, scheduled);
  const next = now.getTime() + wait;
  return new Date(wasKeptBack ? next : Math.min(next, end));
}

/** The shortest time from a first attempt to a second, where the server asks for none, in ms. */
export const soonestMs = ({ scheduleMs }: RetryPolicy): number => (scheduleMs[0] ?? unsaidMs) * (1 - spread);

/** True when mail that was due then is not tried any more. */
export const isOver = ({ forMs }: RetryPolicy, dueAt: Date, now: Date): boolean =>
  dueAt.getTime() + forMs <= now.getTime();

const longestSpreadMs = 600_000;

/**
 * When mail goes on that waits for a moment at which there is room again: within a tenth of the wait after it, ten minutes
 * at the most, the oldest first; at the end of its time at the latest.
 */
export function afterOpening(
  { forMs }: RetryPolicy,
  opensAt: Date,
  dueAt: Date,
  now: Date,
  random: () => number = Math.random,
): Date {
  const wait = Math.max(0, opensAt.getTime() - now.getTime());
  const age = Math.min(1, Math.max(0, (now.getTime() - dueAt.getTime()) / forMs));
  const later = Math.min(longestSpreadMs, wait / 10) * (0.1 + 0.8 * (1 - age) + 0.1 * random());
  // In whole seconds, so that what came together goes back together.
  const at = Math.ceil((opensAt.getTime() + later) / 1_000) * 1_000;
  return new Date(Math.min(at, dueAt.getTime() + forMs));
}
