import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { asked } from '../support/command-line.ts';
import { type Calibration, calibrate } from './throughput/calibration.ts';
import { describeMachine } from './throughput/machine.ts';
import { medianOf, nextRound } from './throughput/measure.ts';
import { type Measured, runRound, startTools, stopTools, type Tools } from './throughput/round.ts';
import { type Sendwright, startBenchedSendwright } from './throughput/sendwright.ts';

/**
 * Whether processing an email became slower, in less than a minute: batches of 2 KB, relative to what the same machine
 * achieves in signatures and commits at that moment, compared with the last record in docs/performance.json. It prints
 * a report and is no test: it fails only if it cannot run. `npm run bench:quick`; with `-- --record` its figures become
 * the next record.
 */

interface Figures extends ReturnType<typeof describeMachine> {
  at: string;
  deliveredPerSecond: number;
  /** CPU-seconds per 1,000 emails, server and database. */
  cpuPer1000: number;
  calibration: Calibration;
  /** Emails a second, per round of the calibration a second; more is better. */
  rateRatio: number;
  /** CPU-seconds per email, in rounds of the calibration; less is better. */
  cpuRatio: number;
}

const usage = `npm run bench:quick [-- options]: whether the way of an email became slower, in less than a minute

  --record    adds the figures to docs/performance.json, to be compared with from now on`;
const { record } = asked(
  usage,
  (args) => parseArgs({ args, options: { record: { type: 'boolean', default: false } } }).values,
);

const records = new URL('../../docs/performance.json', import.meta.url);
const messages = 2_000;
const rounds = 3;
/** No round begins later, so a slow machine or service cannot make it much longer. */
const roundsWithinMs = 25_000;
const calibrationMs = 2_000;
const domains = 20;

async function rate(app: Sendwright, tools: Tools): Promise<Figures> {
  const run = (count: number) => {
    const recipe = { round: nextRound(), count, bytes: 2_048, from: app.from, domains, sites: 1 };
    return runRound(app, tools, {
      recipe: { ...recipe, tls: false, sameBody: false },
      how: 'batches',
      clients: 2,
      perSession: 1,
      oneByOne: false,
    });
  };
  const started = performance.now();
  await run(messages / 2);
  const before = await calibrate(app, calibrationMs);
  const measured: Measured[] = [];
  while (measured.length === 0 || (measured.length < rounds && performance.now() - started < roundsWithinMs)) {
    measured.push(await run(messages));
  }
  const after = await calibrate(app, calibrationMs);
  const { deliveredPerSecond, cpu } = medianOf(measured);
  const cpuPer1000 = cpu.server + cpu.database;
  const calibration = {
    perSecond: (before.perSecond + after.perSecond) / 2,
    cpu: (before.cpu + after.cpu) / 2,
  };
  return {
    at: new Date().toISOString(),
    ...describeMachine(),
    deliveredPerSecond: round(deliveredPerSecond),
    cpuPer1000: round(cpuPer1000),
    calibration: { perSecond: round(calibration.perSecond), cpu: round(calibration.cpu) },
    rateRatio: round(deliveredPerSecond / calibration.perSecond),
    cpuRatio: round(cpuPer1000 / calibration.cpu),
  };
}

const round = (value: number) => Number(value.toPrecision(4));

function compare(now: Figures, last: Figures | undefined): string {
  const { deliveredPerSecond, cpuPer1000, calibration, rateRatio, cpuRatio } = now;
  const change = (value: number, before: number | undefined) => {
    if (before === undefined) return 'nothing recorded to compare with';
    const percent = (value / before - 1) * 100;
    return `recorded at ${last?.commit}: ${before}, ${percent >= 0 ? '+' : ''}${percent.toFixed(0)} %`;
  };
  return `Batches of 2 KB emails: ${deliveredPerSecond}/s delivered, ${cpuPer1000} CPU-s per 1,000
A signature and a commit each: ${calibration.perSecond}/s, ${calibration.cpu} CPU-s per 1,000
  rate against it: ${rateRatio} (more is better; ${change(rateRatio, last?.rateRatio)})
  CPU against it:  ${cpuRatio} (less is better; ${change(cpuRatio, last?.cpuRatio)})`;
}

async function readRecords(): Promise<Figures[]> {
  try {
    return JSON.parse(await readFile(records, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

const tools = await startTools();
const app = await startBenchedSendwright({
  folder: tmpdir(),
  sinkPort: tools.sinkPort,
  domains,
  sites: 1,
  webhookPort: null,
  env: {},
});
try {
  const figures = await rate(app, tools);
  const known = await readRecords();
  console.log(compare(figures, known.at(-1)));
  if (record) {
    await writeFile(records, `${JSON.stringify([...known, figures], null, 2)}\n`);
  }
} finally {
  await app.stop();
  stopTools(tools);
}
