import type { Options } from './options.ts';
import { messagesOf, nameOf, roundOf, type Scenario } from './plan.ts';
import { type Measured, runRound, type Spread, type Tools } from './round.ts';
import type { Statements } from './statements.ts';
import type { System } from './system.ts';

/** A scenario's figures for one system. */
export interface Result extends Scenario {
  system: string;
  rounds: Measured[];
  /** The median of each figure by itself; memory is the peak of all rounds. */
  median: Measured;
  /** From request to answer and from there to the sink's 250, one message at a time; null: not requested. */
  idle: { acceptMs: Spread; deliverMs: Spread } | null;
  statements: Statements | null;
}

/**
 * A process is slower while its code is compiled: it counts as warm after a round that was not this much faster than
 * earlier ones.
 */
const muchFaster = 1.03;
const mostToWarmUp = 5;

/** Round numbers are unique over all systems, so that another system's mail is recognized as such. */
let lastRound = 0;
export const nextRound = () => (lastRound += 1);

/** A system in one scenario. */
export interface Contender {
  system: System;
  scenario: Scenario;
  /** Connections at once, if not the usual number. */
  clients: number | undefined;
}

/**
 * Each warms up; then they take turns with the rounds that count, because a machine may be faster in one minute than in
 * the next; and then each gets one message at a time.
 */
export async function measure(
  contenders: Contender[],
  tools: Tools,
  options: Options,
  tell: (line: string) => void,
): Promise<Result[]> {
  const started = contenders.map((contender) => ({ ...contender, rounds: [] as Measured[] }));
  const run = ({ system, scenario, clients }: Contender, count: number, oneByOne = false) => {
    const round = { round: nextRound(), from: system.from, count, oneByOne };
    return runRound(system, tools, roundOf({ ...options, clients }, scenario, round));
  };
  const say = ({ system, scenario }: Contender, what: string) => tell(`${system.name}: ${nameOf(scenario)}: ${what}`);

  for (const each of started) await warmUp(() => run(each, messagesOf(options, each.scenario)));
  for (let round = 0; round < options.rounds; round += 1) {
    // The order changes, because the previous one may still be recording its outcomes.
    const first = round % started.length;
    for (const each of [...started.slice(first), ...started.slice(0, first)]) {
      const measured = await run(each, messagesOf(options, each.scenario));
      each.rounds.push(measured);
      say(each, briefly(measured));
    }
  }
  const results: Result[] = [];
  for (const each of started) {
    const idle = options.idle > 0 ? await run(each, options.idle, true) : null;
    if (idle) say(each, `one at a time: ${spread(idle.deliverMs)} ms to the sink`);
    const { system, scenario, rounds } = each;
    results.push({ ...scenario, system: system.name, rounds, median: medianOf(rounds), idle, statements: null });
  }
  return results;
}

/** Runs rounds until they are no longer much faster than those before. */
export async function warmUp(run: () => Promise<Measured>): Promise<void> {
  let fastest = 0;
  for (let round = 0; round < mostToWarmUp; round += 1) {
    const { deliveredPerSecond } = await run();
    if (deliveredPerSecond < fastest * muchFaster) return;
    fastest = deliveredPerSecond;
  }
}

const spread = ({ p50, p99 }: Spread) => `${p50.toFixed(1)} (p99 ${p99.toFixed(1)})`;

function briefly({ messages, acceptedPerSecond, deliveredPerSecond, cpu }: Measured): string {
  const { server, database } = cpu;
  const split = database > 0 ? ` (server ${server.toFixed(2)}, database ${database.toFixed(2)})` : '';
  return `${messages} messages, accepted ${acceptedPerSecond.toFixed(0)}/s, delivered ${deliveredPerSecond.toFixed(0)}/s, ${(server + database).toFixed(2)} CPU-s per 1,000${split}`;
}

/** The median, or the lower of the two in the middle. */
export const middleOf = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? 0;

/** The median of each number by itself, at any depth. */
export function medianOf(rounds: Measured[]): Measured {
  const median = combine(rounds, middleOf);
  return { ...median, peakMemory: Math.max(...rounds.map(({ peakMemory }) => peakMemory)) };
}

function combine<T extends object>(all: T[], pick: (values: number[]) => number): T {
  const keys = Object.keys(all[0] ?? {}) as (keyof T)[];
  return Object.fromEntries(
    keys.map((key) => {
      const values = all.map((one) => one[key]);
      return [key, typeof values[0] === 'number' ? pick(values as number[]) : combine(values as object[], pick)];
    }),
  ) as T;
}
