/** When to try again, and for how long. */
export interface RetryPolicy {
  /** Delay in ms after the first, second, … attempt; the last one repeats. */
  scheduleMs: number[];
  /** From the moment the email was due; what is still deferred after it has failed. */
  forMs: number;
}

const spread = 0.1;

/**
 * When to try next after `attempts` attempts, or null when it is time to give up. Each delay is spread by a tenth, so
 * that mail deferred together does not come back together; the last attempt is at the very end of the time.
 */
export function nextAttempt(
  policy: RetryPolicy,
  attempts: number,
  dueAt: Date,
  now: Date,
  random: () => number = Math.random,
): Date | null {
  const end = dueAt.getTime() + policy.forMs;
  if (now.getTime() >= end) return null;
  const delay = policy.scheduleMs[Math.min(attempts, policy.scheduleMs.length) - 1] ?? 60_000;
  const spreadDelay = delay * (1 + spread * (2 * random() - 1));
  return new Date(Math.min(now.getTime() + spreadDelay, end));
}
