import type { Bucket } from '../../core/log/stats-buckets.ts';
import { iso } from './times.ts';

export function bucket(row: Bucket) {
  return {
    start: iso(row.start),
    group: row.group,
    accepted: row.accepted,
    suppressed: row.suppressed,
    complaints: row.complaints,
    delivered: row.delivered,
    pending: row.pending,
    failed: row.failed,
    failed_by_class: row.failedByClass,
    deferrals: row.deferrals,
    latency_ms: row.latencyMs,
  };
}
