import { answerInTime } from '../../db/answers.ts';
import type { Database } from '../../db/client.ts';
import { tookTooLong } from '../../db/errors.ts';
import type { QueueDepth } from '../../process/metrics.ts';
import { queryAllWaiting } from '../recipients/waiting.ts';
import { pausedUntil } from '../recipients/waiting-for.ts';

/** Counts are kept for a few seconds, for all callers, and counting takes no more than a twentieth of the time. */
const freshMs = 5_000;
const restFactor = 20;

/** If counting took too long, it may do so again: then it rests for this long. */
const longRestMs = 60_000;

/**
 * What waits, as of a few seconds ago; while counting takes longer than Prometheus should wait, what was counted before.
 *
 * @returns a function that resolves to null if that is not known, as while the database does not answer
 */
export function watchDepth(db: Database, now = () => performance.now()): () => Promise<QueueDepth | null> {
  let counted: QueueDepth | null = null;
  let counting: Promise<void> | null = null;
  let until = Number.NEGATIVE_INFINITY;
  const countAnew = async () => {
    const begun = now();
    try {
      counted = await count(db);
      until = begun + Math.max(freshMs, (now() - begun) * restFactor);
    } catch (error) {
      counted = null;
      until = begun + (tookTooLong(error) ? longRestMs : freshMs);
    }
    counting = null;
  };
  return async () => {
    if (now() >= until) counting ??= countAnew();
    if (counting !== null) await answerInTime(counting, undefined);
    return counted;
  };
}

interface Row {
  due: number;
  in_flight: number;
  deferred: number;
  scheduled: number;
  held: number;
  oldest: number;
  webhooks_due: number;
  webhooks_in_flight: number;
  webhooks_waiting: number;
  webhooks_oldest: number;
  nodes: number;
}

async function count(db: Database): Promise<QueueDepth> {
  const [row] = await queryAllWaiting<Row>(db, {
    name: 'queue-depth',
    text: `SELECT mail.*, calls.*, (SELECT count(*)::int FROM nodes) AS nodes
             FROM (SELECT count(*) FILTER (WHERE next_attempt_at <= now() AND claimed_by IS NULL)::int AS due,
                          count(claimed_by)::int AS in_flight,
                          count(*) FILTER (WHERE claimed_by IS NULL AND next_attempt_at > now() AND next_attempt_at < $1
                                             AND (attempts > 0 OR waiting_for IS NOT NULL))::int AS deferred,
                          count(*) FILTER (WHERE claimed_by IS NULL AND next_attempt_at > now() AND next_attempt_at < $1
                                             AND attempts = 0 AND waiting_for IS NULL)::int AS scheduled,
                          count(*) FILTER (WHERE claimed_by IS NULL AND next_attempt_at >= $1)::int AS held,
                          coalesce(extract(epoch FROM now() - min(next_attempt_at)
                            FILTER (WHERE next_attempt_at <= now() AND claimed_by IS NULL)), 0)::float8 AS oldest
                     FROM recipients
                    WHERE (job_id IS NULL AND next_attempt_at IS NOT NULL) OR job_id IS NOT NULL) mail,
                  (SELECT count(*) FILTER (WHERE next_attempt_at <= now() AND claimed_by IS NULL)::int AS webhooks_due,
                          count(claimed_by)::int AS webhooks_in_flight,
                          count(*) FILTER (WHERE claimed_by IS NULL AND next_attempt_at > now())::int AS webhooks_waiting,
                          coalesce(extract(epoch FROM now() - min(next_attempt_at)
                            FILTER (WHERE next_attempt_at <= now() AND claimed_by IS NULL)), 0)::float8 AS webhooks_oldest
                     FROM webhook_deliveries
                    WHERE (job_id IS NULL AND next_attempt_at IS NOT NULL) OR job_id IS NOT NULL) calls`,
    values: [pausedUntil],
  });
  if (!row) throw new Error('an aggregate without a row');
  const { due, in_flight, deferred, scheduled, held } = row;
  return {
    recipients: { due, in_flight, deferred, scheduled, held },
    oldestDueSeconds: row.oldest,
    deliveries: { due: row.webhooks_due, in_flight: row.webhooks_in_flight, waiting: row.webhooks_waiting },
    oldestDeliverySeconds: row.webhooks_oldest,
    nodes: row.nodes,
  };
}
