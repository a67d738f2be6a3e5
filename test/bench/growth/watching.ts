import { existsSync, readFileSync } from 'node:fs';
import { fetching, type Sample } from './probe.ts';

/** What the server's process did within some time. */
export interface Seen {
  /** Bytes resident: the median and the maximum of one sample per second. */
  rss: { median: number; most: number };
  heapUsed: { median: number; most: number };
  /** ms of taking jobs, as the server sees it: the statement and its round trip. */
  fetch: { calls: number; p50: number; p95: number; p99: number };
  /** The same for a BEGIN, which does nothing: the round trip, and waiting for a processor. */
  nothing: { p50: number; p95: number };
  /** Total ms of the statements that took the longest. */
  longest: { name: string; calls: number; ms: number; p95: number; most: number }[];
}

export function seenSince(file: string, since: number, until = Date.now()): Seen {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const samples = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Sample)
    .filter(({ at }) => at >= since && at <= until);
  const statements = new Map<string, number[]>();
  for (const sample of samples) {
    for (const [name, times] of Object.entries(sample.statements)) {
      statements.set(name, [...(statements.get(name) ?? []), ...times]);
    }
  }
  const fetches = quantiles(statements.get(fetching) ?? []);
  const begins = quantiles(statements.get('BEGIN') ?? []);
  const memory = (read: (usage: NodeJS.MemoryUsage) => number) => {
    const of = quantiles(samples.map((sample) => read(sample.memory)));
    return { median: of(0.5), most: of(1) };
  };
  return {
    rss: memory(({ rss }) => rss),
    heapUsed: memory(({ heapUsed }) => heapUsed),
    fetch: {
      calls: statements.get(fetching)?.length ?? 0,
      ...{ p50: fetches(0.5), p95: fetches(0.95), p99: fetches(0.99) },
    },
    nothing: { p50: begins(0.5), p95: begins(0.95) },
    longest: [...statements]
      .map(([name, times]) => {
        const ms = times.reduce((sum, time) => sum + time, 0);
        return {
          name,
          calls: times.length,
          ms: Math.round(ms),
          p95: quantiles(times)(0.95),
          most: quantiles(times)(1),
        };
      })
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, 20),
  };
}

export function quantiles(values: number[]): (share: number) => number {
  const sorted = values.toSorted((a, b) => a - b);
  return (share) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
}
