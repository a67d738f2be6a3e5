import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asked, onlyNumber } from '../support/command-line.ts';
import { timeLog } from './log/times.ts';

/**
 * How long `GET /api/v1/emails` takes on an account with a million emails, for each filter: median and 99th percentile
 * over HTTP, one call at a time. Run it with `npm run bench:log`; it takes some minutes and 2 GB in the temporary
 * folder.
 */

const emails = asked(
  'npm run bench:log [-- emails]: how long the log of an account with this many emails takes for each filter (1000000)',
  (args) => onlyNumber(args, 1_000_000),
);
const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-log-'));
const say = (sentence: string) => {
  console.log(sentence);
  console.log(`${'filter'.padEnd(28)} ${'matching'.padStart(9)} ${'median'.padStart(8)} ${'p99'.padStart(8)}  ms`);
};
await timeLog({
  dataDir,
  emails,
  calls: 60,
  say,
  tell({ filter, matching, median, p99 }) {
    const [half, most] = [median, p99].map((ms) => ms.toFixed(1).padStart(8));
    console.log(`${filter.padEnd(28)} ${String(matching).padStart(9)} ${half} ${most}`);
  },
});
await rm(dataDir, { recursive: true, force: true });
