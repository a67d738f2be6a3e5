import type { OutgoingEmail } from '../../core/outgoing/outgoing.ts';
import type { MeasuredAttempt } from '../../process/metrics.ts';
import type { AttemptRecord } from './attempt-record.ts';

/** What the metrics count of an attempt. */
export function measureOf({ attempts, settlements }: AttemptRecord, email: OutgoingEmail | undefined): MeasuredAttempt {
  const reached = settlements.filter(({ status }) => status === 'delivered').length;
  const ends = attempts.map(({ at, durationMs }) => at.getTime() + durationMs);
  const begun = Math.min(...attempts.map(({ at }) => at.getTime()));
  const ended = Math.max(...ends);
  return {
    results: attempts,
    durationMs: attempts.length > 0 ? ended - begun : 0,
    delays: email ? Array.from({ length: reached }, () => ended - email.dueAt.getTime()) : [],
  };
}
