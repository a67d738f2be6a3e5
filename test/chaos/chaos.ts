import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asked } from '../support/command-line.ts';
import { choose } from './choice.ts';
import { clearOnExit } from './leftovers.ts';
import { type Options, readOptions, usage } from './options.ts';
import { Random } from './random.ts';
import type { Result, Scenario } from './run.ts';
import { tableOf } from './table.ts';

/**
 * Breaks a real service in every possible way and counts what is lost or arrives twice: `npm run chaos`. The result is
 * a table, or with `--json file` data for programs; if something is wrong, also the folder with the ledger of
 * everything that was requested, answered, and received.
 */

export interface Outcome extends Result {
  name: string;
  rounds: number;
  tookMs: number;
}

const longRounds = 20;

const say = (sentence: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${sentence}\n`);

async function main(options: Options): Promise<void> {
  const chosen = choose(options);
  const home = await mkdtemp(join(tmpdir(), 'sendwright-chaos-'));
  await chmod(home, 0o755);
  say(`seed ${options.seed}, ledgers in ${home}`);
  const outcomes: Outcome[] = [];
  const waiting = [...chosen];
  const lane = async () => {
    for (let scenario = waiting.shift(); scenario; scenario = waiting.shift()) {
      const outcome = await perform(scenario, options, join(home, scenario.name));
      outcomes.push(outcome);
      tell(outcome);
      // After each, so that an interrupted run leaves its findings.
      if (options.json) await writeFile(options.json, `${JSON.stringify({ seed: options.seed, outcomes }, null, 2)}\n`);
    }
  };
  await Promise.all(Array.from({ length: options.lanes }, lane));
  const bad = outcomes.some(({ findings }) => findings.length > 0);
  process.stdout.write(`${tableOf(outcomes)}\nseed ${options.seed}${bad ? `, ledgers in ${home}` : ''}\n`);
  if (!bad && !options.keep) await rm(home, { recursive: true, force: true, maxRetries: 10 });
  // Sockets kept open for the next call are no reason to stay.
  process.exit(bad ? 1 : 0);
}

function tell({ name, findings, tookMs }: Outcome): void {
  const result = findings.length === 0 ? 'all is well' : `${findings.length} findings`;
  say(`${name}: ${result}, ${Math.round(tookMs / 1000)} s`);
  for (const { rule, what } of findings.slice(0, 20)) say(`  ${rule}: ${what}`);
}

async function perform(scenario: Scenario, options: Options, folder: string): Promise<Outcome> {
  const rounds = options.rounds ?? scenario.quick * (options.long ? longRounds : 1);
  const began = performance.now();
  say(`${scenario.name}: ${scenario.what}`);
  const result = await scenario
    .run({
      folder,
      rounds,
      stages: scenario.stages ?? [],
      random: new Random(options.seed).fork(scenario.name),
      say: (sentence) => say(`${scenario.name}: ${sentence}`),
    })
    .catch((error: Error): Result => {
      const totals = {
        accepted: 0,
        copies: 0,
        blows: 0,
        unanswered: 0,
        unrecorded: 0,
        unrecordedMs: 0,
        calledAgain: 0,
        slowestMs: 0,
      };
      return { totals, figures: {}, findings: [{ rule: 'A10', what: error.stack ?? error.message }] };
    });
  return { ...result, name: scenario.name, rounds, tookMs: performance.now() - began };
}

clearOnExit();
main(asked(usage, readOptions)).catch((error: Error) => {
  console.error(error instanceof TypeError ? error.message : error.stack);
  process.exitCode = 2;
});
