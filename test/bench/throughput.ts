import { writeFile } from 'node:fs/promises';
import { asked } from '../support/command-line.ts';
import { startDrain } from './throughput/drain.ts';
import { noHaraka, startBenchedHaraka, usualSessions } from './throughput/haraka.ts';
import { describeMachine } from './throughput/machine.ts';
import { measure, nextRound, type Result } from './throughput/measure.ts';
import { type Options, readOptions, usage } from './throughput/options.ts';
import { comparisonsOf, messagesOf, nameOf, roundOf, usualClients } from './throughput/plan.ts';
import { noPostfix, startBenchedPostfix } from './throughput/postfix.ts';
import { startTools, stopTools, type Tools } from './throughput/round.ts';
import { selfCheck } from './throughput/self-check.ts';
import { type Sendwright, startBenchedSendwright } from './throughput/sendwright.ts';
import { countingStatements, countStatements } from './throughput/statements.ts';
import type { System } from './throughput/system.ts';
import { tableOf } from './throughput/table.ts';

/**
 * How many emails a second Sendwright accepts and delivers, from the request to the last 250 of the receiving server,
 * compared with Postfix with OpenDKIM in the same run: `npm run bench`, `npm run bench -- --help`. Explained in
 * docs/performance.md.
 */

const tell = (line: string) => process.stderr.write(`${line}\n`);
const mostCounted = 2_000;
const countedWarmUp = 100;

async function main(options: Options): Promise<void> {
  const tools = await startTools();
  stopOnSignal(tools);
  try {
    if (options.selfCheck) {
      console.log(await selfCheck(tools, options, tell));
      return;
    }
    const { haraka } = options;
    const noSecond = haraka === undefined ? null : noHaraka(haraka);
    if (noSecond !== null) throw new Error(noSecond);
    const why = options.peer ? noPostfix() : 'not requested (--no-peer)';
    if (why !== null) tell(`Postfix is left out: ${why}`);
    const { results, peers } = await withSendwright(tools, options, (app) =>
      measureAll(app, tools, options, why === null),
    );
    console.log(tableOf(results, peers));
    if (why !== null) console.log(`Without Postfix: ${why}`);
    if (options.json !== undefined) await writeFile(options.json, report(options, results, peers));
  } finally {
    stopTools(tools);
  }
}

interface Peer {
  system: System;
  clients: number | undefined;
}

/** Sendwright and the peers in turn; then, with the peers gone, PostgreSQL's statement counts. */
async function measureAll(
  app: Sendwright,
  tools: Tools,
  options: Options,
  withPostfix: boolean,
): Promise<{ results: Result[]; peers: Result[][] }> {
  const peers: Peer[] = [];
  const all: Result[] = [];
  try {
    if (withPostfix) peers.push(await startPostfix(tools, options));
    if (options.haraka !== undefined) peers.push(await startHaraka(tools, { ...options, haraka: options.haraka }));
    for (const compared of comparisonsOf(options)) {
      const contenders = [
        ...options.ways.map((how) => ({ system: app, scenario: { ...compared, how }, clients: options.clients })),
        ...peers.map((peer) => ({ ...peer, scenario: { ...compared, how: 'smtp' as const } })),
      ];
      all.push(...(await measure(contenders, tools, options, tell)));
    }
  } finally {
    await Promise.all(peers.map(({ system }) => system.stop()));
  }
  const of = ({ name }: System) => all.filter(({ system }) => system === name);
  return {
    results: await withStatements(app, tools, options, of(app)),
    peers: peers.map(({ system }) => of(system)),
  };
}

async function withSendwright<T>(tools: Tools, options: Options, work: (app: Sendwright) => Promise<T>): Promise<T> {
  const { profile } = options;
  const profiling = profile === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profile}` };
  const drain = options.webhook ? await startDrain() : null;
  try {
    const app = await startBenchedSendwright({
      ...options,
      sinkPort: tools.sinkPort,
      webhookPort: drain?.port ?? null,
      env: { ...profiling, ...options.env },
    });
    try {
      return await work(app);
    } finally {
      await app.stop();
    }
  } finally {
    drain?.end();
  }
}

async function startPostfix({ sinkPort }: Tools, options: Options): Promise<Peer> {
  const sessions = options.clients ?? usualClients.smtp;
  return { system: await startBenchedPostfix({ ...options, sinkPort, sessions }), clients: sessions };
}

async function startHaraka({ sinkPort }: Tools, options: Options & { haraka: string }): Promise<Peer> {
  const system = await startBenchedHaraka({ ...options, sinkPort });
  return { system, clients: options.clients ?? usualSessions };
}

/** Each scenario once more, with PostgreSQL counting. */
async function withStatements(app: Sendwright, tools: Tools, options: Options, results: Result[]): Promise<Result[]> {
  if (!options.statements) return results;
  const client = await countingStatements(app);
  if (!client) {
    tell('SQL statements are not counted: this PostgreSQL has no pg_stat_statements');
    return results;
  }
  try {
    const all: Result[] = [];
    for (const result of results) {
      const round = (count: number) => roundOf(options, result, { round: nextRound(), from: app.from, count });
      const counted = Math.min(mostCounted, messagesOf(options, result));
      const statements = await countStatements(app, tools, [round(countedWarmUp), round(counted)], client);
      tell(`${nameOf(result)}: ${statements.perEmail.toFixed(2)} statements per email`);
      all.push({ ...result, statements });
    }
    return all;
  } finally {
    await client.end();
  }
}

function report(options: Options, results: Result[], peers: Result[][]): string {
  const { json: _, folder: __, profile: ___, haraka: ____, ...said } = options;
  return `${JSON.stringify({ at: new Date(), machine: describeMachine(), options: said, results, peers: peers.flat() }, null, 2)}\n`;
}

/** Then everything that waits for them fails, and all that was started is stopped. */
function stopOnSignal(tools: Tools): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopTools(tools));
}

try {
  await main(asked(usage, readOptions));
} catch (error) {
  tell(`The benchmark failed: ${(error as Error).message}`);
  process.exitCode = 1;
}
