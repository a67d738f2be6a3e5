/** When to try again, and for how long. */
export interface RetryPolicy {
  /** Delay in ms after the first, second, … attempt; the last one repeats. */
  scheduleMs: number[];
  /** Counted from when the email was due; mail still deferred after this time has failed. */
  forMs: number;
}

/** What has been tried, and what the server asked for last. */
export interface History {
  /** Including the one that has just ended. */
  attempts: number;
  /** When the email was due, from which `forMs` counts. */
  dueAt: Date;
  /** How long it asked us to wait, in ms; null if it did not say. */
  askedMs?: number | null;
  /** When the attempt that has just ended began; null: no server was asked. */
  begunAt?: Date | null;
}

/** Delays are made longer or shorter by up to this part, at random. */
const spread = 0.1;
/** The delay if the schedule is empty. */
const unsaidMs = 60_000;
/** How many attempts a server can follow with one sooner than the schedule, by naming a shorter time. */
const attemptsSooner = 3;

/**
 * When to try next, or null if it is time to give up. Each delay is spread by a tenth, so that mail deferred together does not
 * come back together, but never ends before the time that the server asked for. The last attempt is at the very end of
 * `forMs`. Mail that a hold or a pause kept back for all of that time gets a second attempt.
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

/** The last delay of the schedule, in ms. */
export const lastDelayMs = ({ scheduleMs }: RetryPolicy): number => scheduleMs.at(-1) ?? unsaidMs;

/** The shortest time from a first attempt to a second if the server asks for none, in ms. */
export const soonestMs = ({ scheduleMs }: RetryPolicy): number => (scheduleMs[0] ?? unsaidMs) * (1 - spread);

/** True if mail that was due at `dueAt` is no longer tried. */
export const isOver = ({ forMs }: RetryPolicy, dueAt: Date, now: Date): boolean =>
  dueAt.getTime() + forMs <= now.getTime();

const longestSpreadMs = 600_000;

/**
 * When mail that waits for room goes on: after `opensAt`, by at most a tenth of the wait or ten minutes, the oldest first;
 * at the latest at the end of its time.
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
  // In whole seconds, so that claims that came together go back together.
  const at = Math.ceil((opensAt.getTime() + later) / 1_000) * 1_000;
  return new Date(Math.min(at, dueAt.getTime() + forMs));
}
