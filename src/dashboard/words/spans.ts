import { now } from './clock.ts';

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];

/**
 * How far back lists and numbers of emails go, by the name that they have in addresses. Each begins with a whole interval, so
 * that what the overview counts is what the log lists.
 */
export const spans = {
  '1h': { label: 'Last hour', stepMs: minuteMs, steps: 61 },
  '24h': { label: 'Last 24 hours', stepMs: hourMs, steps: 25 },
  // By the hour, the server counts at most seven days.
  '7d': { label: 'Last 7 days', stepMs: hourMs, steps: 168 },
  '30d': { label: 'Last 30 days', stepMs: dayMs, steps: 31 },
} as const;

export type Span = keyof typeof spans;

/** When each interval begins, oldest first; the last one is under way. Days are in UTC, as the server counts them. */
export function intervalsOf(span: Span): Date[] {
  const { stepMs, steps } = spans[span];
  const last = Math.floor(now() / stepMs) * stepMs;
  return Array.from({ length: steps }, (_, index) => new Date(last - (steps - 1 - index) * stepMs));
}
