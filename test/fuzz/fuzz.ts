import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { asked } from '../support/command-line.ts';
import { targets } from './index.ts';
import { type Options, readOptions, usage } from './options.ts';
import { openPlace } from './place.ts';
import type { Property } from './target.ts';

/**
 * Tries the promises of test/fuzz on random input, in turns, for as long as it is told: `npm run fuzz -- --minutes 10`.
 * A failure is shown in its smallest form, with the command that reproduces it. See docs/reliability.md.
 */

/** One promise, and its results so far. */
interface Promised {
  /** Such as `mime.2`. */
  number: string;
  promise: string;
  property: Property;
  turns: number;
  runs: number;
  ms: number;
  failure: string | null;
}

const longestTurnMs = 10_000;
const shortestTurnMs = 500;

const say = (text: string) => process.stdout.write(`${text}\n`);

async function openAll(only: string[], place: ReturnType<typeof openPlace>): Promise<Promised[]> {
  const all: Promised[] = [];
  for (const { name, open } of targets) {
    if (only.length > 0 && !only.some((one) => one.split('.')[0] === name)) continue;
    for (const [at, [promise, property]] of Object.entries(await open(place)).entries()) {
      const number = `${name}.${at + 1}`;
      if (only.length > 0 && !only.some((one) => one === name || one === number)) continue;
      all.push({ number, promise, property, turns: 0, runs: 0, ms: 0, failure: null });
    }
  }
  const known = (one: string) => all.some(({ number }) => number === one || number.startsWith(`${one}.`));
  if (all.length === 0 || !only.every(known))
    throw new TypeError(`--only must name some of ${targets.map(({ name }) => name).join(', ')}`);
  return all;
}

/**
 * The same property, and a promise that settles at the end of its last run: when time is up it is not waited for, but
 * the next turn must.
 */
function followed(property: Property): { property: Property; ended(): Promise<unknown> } {
  let last: unknown;
  return {
    property: {
      isAsync: () => property.isAsync(),
      generate: (random, runId) => property.generate(random, runId),
      shrink: (value) => property.shrink(value),
      runBeforeEach: () => property.runBeforeEach(),
      runAfterEach: () => property.runAfterEach(),
      run: (value) => {
        const run = property.run(value);
        last = run;
        return run;
      },
    },
    ended: async () => last,
  };
}

async function takeTurn(one: Promised, { seed, path }: Options, ms: number): Promise<void> {
  // Connections that were closed during another's turn are noticed before they are used again.
  await sleep(20);
  const began = performance.now();
  const { property, ended } = followed(one.property);
  const details = await fc.check(property, {
    // Each turn uses another seed, and the first one the given seed.
    seed: seed + one.turns,
    ...(path === null
      ? { numRuns: Number.MAX_SAFE_INTEGER, interruptAfterTimeLimit: ms }
      : { path, endOnFailure: true }),
  });
  await ended();
  one.turns += 1;
  one.runs += details.numRuns;
  one.ms += performance.now() - began;
  // A turn that ended before its first try is no failure, although it is reported as one.
  if (!details.failed || (details.interrupted && details.numRuns === 0)) return;
  const again = `npm run fuzz -- --only ${one.number} --seed ${details.seed} --path ${details.counterexamplePath}`;
  const error = details.errorInstance instanceof Error ? details.errorInstance.stack : String(details.errorInstance);
  one.failure = `${fc.stringify(details.counterexample)}\n${error}\nagain: ${again}`;
  say(`\n${one.number} (${one.promise}) does not hold for:\n${one.failure}\n`);
}

async function run(options: Options, all: Promised[]): Promise<void> {
  const end = performance.now() + options.minutes * 60_000;
  const left = () => end - performance.now();
  const turnMs = Math.min(longestTurnMs, Math.max(shortestTurnMs, left() / all.length / 2));
  while (left() > 0) {
    const holding = all.filter(({ failure }) => failure === null);
    if (holding.length === 0) return;
    for (const one of holding) {
      if (left() <= 0) return;
      await takeTurn(one, options, Math.min(turnMs, left()));
      if (options.path !== null) return;
    }
  }
}

function tableOf(all: Promised[]): string {
  const rows = all.map(({ number, promise, runs, ms, failure }) =>
    [
      number.padEnd(14),
      String(runs).padStart(9),
      `${(ms / 1_000).toFixed(1)} s`.padStart(9),
      failure ? ' FAILS ' : runs === 0 ? ' untried' : '       ',
      promise,
    ].join(' '),
  );
  return ['what               runs      time', ...rows].join('\n');
}

async function main(options: Options): Promise<void> {
  const closings: (() => Promise<unknown> | unknown)[] = [];
  const place = openPlace({ teardown: (work: () => Promise<void>) => void closings.unshift(work) } as Parameters<
    typeof openPlace
  >[0]);
  let all: Promised[] = [];
  try {
    all = await openAll(options.only, place);
    say(`${all.length} promises for ${options.minutes} minutes, seed ${options.seed}`);
    await run(options, all);
  } finally {
    for (const close of closings) await close();
  }
  say(`\n${tableOf(all)}\nseed ${options.seed}`);
  const figures = all.map(({ property: _, ...rest }) => rest);
  if (options.json)
    await writeFile(options.json, `${JSON.stringify({ seed: options.seed, promises: figures }, null, 2)}\n`);
  // Sockets kept open for the next call are no reason to stay.
  process.exit(all.some(({ failure }) => failure !== null) ? 1 : 0);
}

main(asked(usage, readOptions)).catch((error: Error) => {
  console.error(error instanceof TypeError ? error.message : error.stack);
  process.exit(2);
});
