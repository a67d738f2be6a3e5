import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { asked, wholeNumber, wholeNumbers } from '../support/command-line.ts';
import { childrenOf } from './children.ts';
import { ration } from './nodes/ration.ts';
import { medianOf, nextRound, warmUp } from './throughput/measure.ts';
import { type Measured, runRound, startTools, stopTools, type Tools } from './throughput/round.ts';
import { startBenchedSendwright } from './throughput/sendwright.ts';

/**
 * What a second and a third process add: `npm run bench:nodes`. Each worker is limited to a share of a processor, so
 * that enough is left for the database, the sink and the generator, and none of them is the bottleneck. A share of 1
 * shows the reality when all of them run on this machine.
 */

const usage = `npm run bench:nodes [-- options]: what a second and a third process add

  --workers 1,2     processes of the node
  --shares 0.2,1    of a processor for each
  --messages N      in a round (3000)
  --rounds N        medians of so many (3)
  --json FILE       the figures`;

const values = asked(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      workers: { type: 'string', default: '1,2' },
      shares: { type: 'string', default: '0.2,1' },
      messages: { type: 'string', default: '3000' },
      rounds: { type: 'string', default: '3' },
      json: { type: 'string' },
    },
  });
  return {
    ...wholeNumbers(values, { messages: 1, rounds: 1 }),
    json: values.json,
    workers: values.workers.split(',').map((count) => wholeNumber('--workers', count, 1)),
    shares: values.shares.split(',').map(shareOf),
  };
});

/** @throws Error that names the wrong option */
function shareOf(text: string): number {
  const share = Number(text);
  if (share > 0 && share <= 1) return share;
  throw new Error(`--shares must be numbers above 0 and up to 1, not ${text}`);
}

/** A running node. */
interface Node {
  workers: number;
  pids: number[];
  run: (count: number) => Promise<Measured>;
  stop: () => Promise<void>;
}

interface Row {
  share: number;
  workers: number;
  median: Measured;
  /** Delivered per second, relative to the first row with this share. */
  ratio: number;
}

/** Emails in a round that warms up, for each worker: with too few, the rounds that count still pay for compiling. */
const toWarmUp = 3_000;

const tell = (line: string) => process.stderr.write(`${line}\n`);

async function main(): Promise<void> {
  const tools = await startTools();
  const nodes: Node[] = [];
  try {
    for (const workers of values.workers) nodes.push(await start(tools, workers));
    for (const { run, workers } of nodes) await warmUp(() => run(toWarmUp * workers));
    const rows: Row[] = [];
    for (const share of values.shares) rows.push(...(await measure(nodes, share)));
    console.log(tableOf(rows));
    if (values.json) await writeFile(values.json, `${JSON.stringify({ cores: cpus().length, rows }, null, 2)}\n`);
  } finally {
    for (const { stop } of nodes) await stop();
    stopTools(tools);
  }
}

async function start(tools: Tools, workers: number): Promise<Node> {
  const app = await startBenchedSendwright({
    ...{ folder: tmpdir(), sinkPort: tools.sinkPort, domains: 20, sites: 20, webhookPort: null },
    env: { WORKERS: String(workers) },
  });
  const [first = 0] = app.server.roots;
  const isWorker = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('main.ts');
  const pids = workers === 1 ? [first] : childrenOf(first).filter(isWorker);
  if (pids.length !== workers) throw new Error(`there are ${pids.length} workers instead of ${workers}`);
  const run = (count: number) => {
    const recipe = { round: nextRound(), count, bytes: 2_048, from: app.from, tls: false, domains: 20, sites: 20 };
    const options = { how: 'batches', clients: 4, perSession: 100, oneByOne: false } as const;
    return runRound(app, tools, { ...options, recipe: { ...recipe, sameBody: false } });
  };
  return { workers, pids, run, stop: () => app.stop() };
}

/** The nodes take turns, because a machine may be faster in one minute than in the next. */
async function measure(nodes: Node[], share: number): Promise<Row[]> {
  const measured = nodes.map((node) => ({ ...node, rounds: [] as Measured[] }));
  for (let round = 0; round < values.rounds; round += 1) {
    for (const { workers, pids, run, rounds } of measured) {
      const release = share < 1 ? ration(pids, share) : () => undefined;
      const result = await run(values.messages).finally(release);
      rounds.push(result);
      tell(`${workers} workers with ${share} of a processor each: ${result.deliveredPerSecond.toFixed(0)} delivered/s`);
    }
  }
  const medians = measured.map(({ workers, rounds }) => ({ workers, median: medianOf(rounds) }));
  const first = medians[0]?.median.deliveredPerSecond ?? Number.NaN;
  return medians.map(({ workers, median }) => ({ share, workers, median, ratio: median.deliveredPerSecond / first }));
}

function tableOf(rows: Row[]): string {
  const lines = rows.map(({ share, workers, ratio, median }) => {
    const { deliveredPerSecond: perSecond, cpu } = median;
    const { server, database, sink, generator, dns } = cpu;
    const busy = ((server + database + sink + generator + dns) * perSecond) / 1_000;
    const parts = [server, database, sink, generator + dns].map((seconds) => seconds.toFixed(2));
    return `| ${[share, workers, perSecond.toFixed(0), ratio.toFixed(2), ...parts, busy.toFixed(2)].join(' | ')} |`;
  });
  return [
    '| processor for each worker | workers | delivered/s | ratio | CPU-s per 1,000: workers | database | sink | generator, DNS | processors busy |',
    '|---|---|---|---|---|---|---|---|---|',
    ...lines,
  ].join('\n');
}

main().catch((error: Error) => {
  tell(`The benchmark failed: ${error.stack}`);
  process.exitCode = 1;
});
