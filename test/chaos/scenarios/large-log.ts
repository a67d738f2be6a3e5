import { join } from 'node:path';
import { timeLog } from '../../bench/log/times.ts';
import { nothing } from '../alone.ts';
import type { Finding } from '../auditor.ts';
import { leaveBehind, quitEmbedded } from '../leftovers.ts';
import type { Result, Scenario } from '../run.ts';

const emails = 1_000_000;
const mostMs = 200;

/**
 * With each filter. With fewer than a hundred, a single call delayed by a busy machine would be the 99th percentile.
 */
const callsOf = (rounds: number) => Math.max(100, 10 * rounds);

/** DOS-15: no filter and no page of the log makes the database read all of it. */
export const largeLog: Scenario = {
  name: 'large-log',
  what: 'the log of an account with a million emails: each filter within 200 ms at the 99th percentile',
  quick: 1,
  long: true,
  async run({ folder, rounds, say }) {
    const dataDir = join(folder, 'data');
    const forget = leaveBehind(() => quitEmbedded(dataDir));
    const times = await timeLog({ dataDir, emails, calls: callsOf(rounds), say }).finally(forget);
    const slowest = times.toSorted((a, b) => b.p99 - a.p99).slice(0, 3);
    const figures: Result['figures'] = {
      'calls with each of the filters': `${callsOf(rounds)}, of ${times.length} filters`,
      'slowest median, ms': Math.max(...times.map(({ median }) => median)).toFixed(1),
      'slowest at p99, ms': slowest.map(({ filter, p99 }) => `${p99.toFixed(1)} (${filter})`).join(', '),
    };
    const findings = times
      .filter(({ p99 }) => p99 > mostMs)
      .map(({ filter, p99 }): Finding => ({ rule: 'A10', what: `${filter}: ${p99.toFixed(0)} ms at p99` }));
    return { totals: { ...nothing }, figures, findings };
  },
};
