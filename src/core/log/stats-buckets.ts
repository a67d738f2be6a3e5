import type { Counted } from './stats-statement.ts';

/**
 * What became of the emails that were accepted in one stretch of time. Recipients are counted as they stand now. In a group of
 * recipients, by destination or provider, everything but `accepted` is about these recipients alone.
 */
export interface Bucket {
  /** Where the stretch begins, in UTC. */
  start: Date;
  /** The sender domain, tag, type, recipients' domain, or provider that takes its mail; null without a grouping. */
  group: string | null;
  /** Emails. */
  accepted: number;
  /** Emails with a recipient on the suppression list. */
  suppressed: number;
  /** Emails that a recipient complained about. */
  complaints: number;
  /** Recipients. */
  delivered: number;
  /** Recipients. */
  pending: number;
  /** Recipients. */
  failed: number;
  /** Failed recipients by the class of the failure. */
  failedByClass: Record<string, number>;
  /** Attempts that were deferred. */
  deferrals: number;
  /** From when the email was due until the recipient's server took it; null if nothing was delivered. */
  latencyMs: { p50: number; p95: number; p99: number } | null;
}

/** What was counted of one stretch of time and group so far. */
type Sum = Omit<Bucket, 'group' | 'latencyMs'> & { group: string; latencies: Map<number, number> };

/** Adds up what several statements count, each of which has later emails than the one before. */
export class Buckets {
  /** Of the stretch that was counted last, by group: a later statement may have more of it. */
  readonly #open = new Map<string, Sum>();
  readonly #closed: Bucket[] = [];
  readonly #groups = new Set<string>();
  readonly #isGrouped: boolean;
  #start: Date | undefined;

  constructor(isGrouped: boolean) {
    this.#isGrouped = isGrouped;
  }

  /** How many groups have been counted. */
  get groups(): number {
    return this.#groups.size;
  }

  /** @param rows by their start, oldest first */
  add(rows: Counted[]): void {
    for (const row of rows) {
      if (this.#start === undefined || row.start > this.#start) this.#close();
      this.#start = row.start;
      this.#groups.add(row.group);
      const sum = this.#open.get(row.group) ?? nothingOf(row);
      this.#open.set(row.group, sum);
      addTo(sum, row);
    }
  }

  /** All of them, oldest first, and those of one stretch by their group. */
  end(): Bucket[] {
    this.#close();
    return this.#closed;
  }

  /** How long each recipient took is not needed any more, of which there may be a lot. */
  #close(): void {
    const sums = [...this.#open.values()].sort((a, b) => (a.group < b.group ? -1 : 1));
    this.#open.clear();
    for (const { latencies, group, ...counts } of sums)
      this.#closed.push({ ...counts, group: this.#isGrouped ? group : null, latencyMs: latencyOf(latencies) });
  }
}

const nothingOf = ({ start, group }: Counted): Sum => ({
  ...{ start, group, accepted: 0, suppressed: 0, complaints: 0 },
  ...{ delivered: 0, pending: 0, failed: 0, failedByClass: {}, deferrals: 0, latencies: new Map() },
});

function addTo(sum: Sum, row: Counted): void {
  sum.accepted += row.accepted;
  sum.suppressed += row.suppressed;
  sum.complaints += row.complaints;
  sum.delivered += row.delivered ?? 0;
  sum.pending += row.pending ?? 0;
  sum.failed += row.failed ?? 0;
  sum.deferrals += row.deferrals ?? 0;
  for (const [name, recipients] of Object.entries(row.classes ?? {}))
    sum.failedByClass[name] = (sum.failedByClass[name] ?? 0) + recipients;
  for (const [key, recipients] of Object.entries(row.latencies ?? {}))
    sum.latencies.set(Number(key), (sum.latencies.get(Number(key)) ?? 0) + recipients);
}

function latencyOf(latencies: Map<number, number>): Bucket['latencyMs'] {
  if (latencies.size === 0) return null;
  const inOrder = [...latencies].sort(([a], [b]) => a - b);
  const all = inOrder.reduce((sum, [, recipients]) => sum + recipients, 0);
  const at = (part: number) => percentile(inOrder, part * (all - 1));
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

/** What stands at this place, from 0, if each value is repeated as often as it was counted; between two, it is in proportion. */
function percentile(inOrder: [value: number, count: number][], place: number): number {
  let before = 0;
  for (const [index, [value, count]] of inOrder.entries()) {
    before += count;
    if (place <= before - 1) return value;
    const next = inOrder[index + 1]?.[0] ?? value;
    if (place < before) return Math.round(value + (next - value) * (place - (before - 1)));
  }
  return inOrder.at(-1)?.[0] ?? 0;
}
