import { timeFilter } from '../log/one-filter.ts';
import type { Spread } from '../throughput/round.ts';

const domain = 'bench.test';

/** The log's list: each filter with a value that matches many emails, few, or none. */
const queries: Record<string, string> = {
  'no filter': '',
  'offset 100,000': 'offset=100000',
  'status=sent': 'status=sent',
  'status=failed (1 %)': 'status=failed',
  'status=canceled (none)': 'status=canceled',
  'status=queued': 'status=queued',
  'type=marketing (10 %)': 'type=marketing',
  'tag (2 %)': 'tag=tag7',
  'tag (all)': 'tag=all',
  'from (5 %)': `from=other@${domain}`,
  'domain (all)': `domain=${domain}`,
  'tag, status=failed': 'tag=all&status=failed',
  'to (a few)': 'to=r4711@x711.test',
  'to (nobody)': 'to=nobody@x.test',
  'q=word (0.02 %)': 'q=warehouse%2042',
  'q=words (all)': 'q=your%20order',
  'q and tag (2 %)': 'q=order&tag=tag7',
};

export interface LogTime {
  filter: string;
  matching: number;
  ms: Spread;
}

/** ms of each query over HTTP, one after the other. */
export async function timeLog(baseUrl: string, key: string, rounds: number): Promise<LogTime[]> {
  const all: LogTime[] = [];
  for (const [filter, query] of Object.entries(queries)) {
    const { matching, times } = await timeFilter({ baseUrl, key }, query, rounds, 1);
    const at = (share: number) => times[Math.floor(share * (times.length - 1))] ?? Number.NaN;
    all.push({ filter, matching, ms: { p50: at(0.5), p99: at(0.99) } });
  }
  return all;
}
