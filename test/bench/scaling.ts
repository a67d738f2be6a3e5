import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { asked, wholeNumbers } from '../support/command-line.ts';
import { type Inputs, measureInputs } from './scaling/inputs.ts';
import { simulate } from './scaling/placement.ts';
import { type Plan, planOf, usual } from './scaling/plan.ts';

/**
 * What 10, 100 and 1,000 million emails a day require: `npm run bench:scaling`. The cost of one email is measured here
 * (or read from `--inputs FILE`, which a run with `--save FILE` has written); the rest is arithmetic, and a simulation
 * of how accounts spread over databases.
 */

const usage = `npm run bench:scaling [-- options]: what 10, 100 and 1,000 million emails a day ask for

  --messages N      sent to measure what one costs (5000)
  --save FILE       keeps what was measured
  --inputs FILE     takes it from there instead of measuring
  --days N          of the log (${usual.days})
  --body-days N     of the bodies (${usual.bodyDays})
  --peak N          the busiest hour against the average (${usual.peak})`;

const values = asked(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      messages: { type: 'string', default: '5000' },
      inputs: { type: 'string' },
      save: { type: 'string' },
      days: { type: 'string', default: String(usual.days) },
      'body-days': { type: 'string', default: String(usual.bodyDays) },
      peak: { type: 'string', default: String(usual.peak) },
    },
  });
  return { ...values, ...wholeNumbers(values, { messages: 1, days: 1, 'body-days': 1, peak: 1 }) };
});
const perDay = [10e6, 100e6, 1_000e6];
const accounts = 50_000;
const exponents = [0.8, 1];

async function main(): Promise<void> {
  const inputs: Inputs = values.inputs
    ? JSON.parse(await readFile(values.inputs, 'utf8'))
    : await measureInputs(values.messages);
  if (values.save) await writeFile(values.save, `${JSON.stringify(inputs, null, 2)}\n`);
  const assumed = {
    ...usual,
    days: values.days,
    bodyDays: values['body-days'],
    peak: values.peak,
  };
  const plans = perDay.map((emails) => planOf(emails, inputs, assumed));
  console.log(`${inputTable(inputs)}\n\n${planTable(plans)}\n\n${placementTable(plans)}`);
}

const table = (head: string[], rows: (string | number)[][]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const bytes = (count: number) => {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return `${(count / 1_000 ** power).toPrecision(3)} ${['B', 'KB', 'MB', 'GB', 'TB'][power]}`;
};
const rounded = (count: number) => (count < 10 ? count.toFixed(1) : Math.ceil(count).toLocaleString('en'));

function inputTable({ cpu, walBytes, storedBytes, connections }: Inputs): string {
  return table(
    ['one email', ''],
    [
      ['CPU of the worker', `${(cpu.server * 1_000).toFixed(2)} ms`],
      ['CPU of PostgreSQL', `${(cpu.database * 1_000).toFixed(2)} ms`],
      ['write-ahead log', bytes(walBytes)],
      ...Object.entries(storedBytes).map(([name, size]) => [`on disk: \`${name}\` with indexes`, bytes(size)]),
      ['connections of a process', connections],
    ],
  );
}

function planTable(plans: Plan[]): string {
  const row = (name: string, tell: (plan: Plan) => string | number) => [name, ...plans.map(tell)];
  return table(
    ['emails a day', ...plans.map((plan) => `${plan.perDay / 1e6} million`)],
    [
      row('a second, on average', (plan) => rounded(plan.perSecond)),
      row('a second, in the busiest hour', (plan) => rounded(plan.peakPerSecond)),
      row('rows a day', (plan) => `${(plan.rowsPerDay / 1e6).toLocaleString('en')} million`),
      row('write-ahead log, busiest hour', (plan) => `${bytes(plan.walPerSecond)}/s`),
      row('write-ahead log a day, to archive', (plan) => bytes(plan.walPerDay)),
      row('stored', (plan) => bytes(plan.storedBytes)),
      row("a week's partitions, with bodies", (plan) => bytes(plan.partitionBytes)),
      row('processors for workers', (plan) => rounded(plan.workerCores)),
      row('processors for PostgreSQL', (plan) => rounded(plan.databaseCores)),
      row('cells (a database, its standby, its accounts)', (plan) => rounded(plan.cells).replace('.0', '')),
      row('what decides that', (plan) => (plan.cells === 1 ? 'one is enough' : plan.because)),
      row('workers in each', (plan) => plan.workersPerCell),
      row('their connections in each', (plan) => plan.connectionsPerCell),
    ],
  );
}

function placementTable(plans: Plan[]): string {
  const several = [...new Set(plans.map(({ cells }) => cells).filter((cells) => cells > 1))];
  const rows = several.flatMap((cells) =>
    exponents.map((exponent) => {
      const { largest, hashed, placed, aged, moved } = simulate(cells, accounts, exponent, drawer(1));
      const [a, b, c, d, e] = [largest, hashed, placed, aged, moved.fullest].map((load) => load.toFixed(2));
      return [cells, exponent, a ?? '', b ?? '', c ?? '', d ?? '', `${e} (${moved.accounts} of ${moved.of})`];
    }),
  );
  return table(
    ['cells', 'exponent', 'largest account', 'by hash', 'placed', 'a year later', 'after moving accounts'],
    rows,
  );
}

/** Numbers that are the same in each run. */
function drawer(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

main().catch((error: Error) => {
  console.error(error.stack);
  process.exitCode = 1;
});
