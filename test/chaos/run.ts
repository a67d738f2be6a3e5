import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { isJson } from '../support/is-json.ts';
import { audit, type Finding, type Totals } from './auditor.ts';
import type { Order } from './client.ts';
import { readFacts } from './facts.ts';
import type { Random } from './random.ts';
import { createWorld, populate, type World, type WorldOptions } from './world.ts';

/** What a scenario gets. */
export interface Run {
  folder: string;
  random: Random;
  /** The number of rounds. */
  rounds: number;
  /** The stages to reach; empty for a scenario that has none. */
  stages: string[];
  /** Reports progress. */
  say(sentence: string): void;
}

/** The outcome. Figures are for people: numbers, or sentences with numbers. */
export interface Result {
  totals: Totals;
  findings: Finding[];
  figures: Record<string, number | string>;
}

export interface Scenario {
  name: string;
  what: string;
  /** Rounds of a quick run, as after every commit. */
  quick: number;
  /** Left out of a quick run, unless it is named. */
  long?: boolean;
  /** The names that `--stage` can select. */
  stages?: string[];
  run(run: Run): Promise<Result>;
}

/** Work in parallel to a scenario that must be finished at its end. */
export class Beside {
  readonly #all: Promise<void>[] = [];
  readonly errors: string[] = [];

  add(work: Promise<unknown>): void {
    this.#all.push(
      work.then(
        () => undefined,
        (error: Error) => void this.errors.push(error.message),
      ),
    );
  }

  /** Waits for all of it, even if more is added meanwhile. */
  async over(): Promise<void> {
    for (let done = 0; done < this.#all.length; done += 1) await this.#all[done];
  }
}

/** The tools of a scenario's work. */
export interface Stage {
  world: World;
  beside: Beside;
  figures: Result['figures'];
  findings: Finding[];
  order(order: Order): Promise<void>;
}

/** Claims of a killed node are released after 30 s; then everything must be done within this time. */
const quietWithinMs = 120_000;

/** Creates a world, runs the scenario in it, waits until everything is settled, and audits. */
export async function inWorld(run: Run, options: WorldOptions, work: (stage: Stage) => Promise<void>): Promise<Result> {
  const world = await createWorld(run.folder, run.random, options);
  try {
    await populate(world);
    const beside = new Beside();
    const figures: Result['figures'] = {};
    const findings: Finding[] = [];
    const order = (one: Order) => world.client.insist(one);
    await work({ world, beside, figures, findings, order });
    await beside.over();
    run.say('waiting until everything is settled');
    await world.quiet(quietWithinMs);
    for (const { name, logs } of world.members) await writeFile(join(run.folder, `${name}.log`), logs.join('\n'));
    // The counts of the log are updated every two seconds, which the facts do not wait for; calls in flight finish.
    await sleep(200);
    const facts = await readFacts(await world.databaseUrl());
    const { totals, findings: found } = audit(world.ledger.entries, facts);
    const own = [...beside.errors.map((what) => ({ rule: 'A10' as const, what })), ...ownFindings(world)];
    return { totals, figures, findings: [...found, ...findings, ...own, ...(await badSignatures(world))] };
  } finally {
    await world.close();
  }
}

function ownFindings({ client, members, mx }: World): Finding[] {
  const logs = members.flatMap(({ name, logs }) =>
    logs.filter((line) => !isJson(line)).map((line) => `${name}: ${line}`),
  );
  // A killed process may have been in the middle of a line.
  const torn = logs.filter((line) => line.includes('}'));
  return [
    ...mx.errors.map((what) => ({ rule: 'A10' as const, what: `the harness itself: ${what}` })),
    ...[...client.wrong].map(([what, whose]) => ({
      rule: 'A10' as const,
      what: `${whose.length} answers, such as that for ${whose[0]}, were ${what}`,
    })),
    ...torn.map((what) => ({ rule: 'A10' as const, what: `a line of the log is no JSON: ${what.slice(0, 200)}` })),
  ];
}

async function badSignatures({ mx, zone }: World): Promise<Finding[]> {
  const findings: Finding[] = [];
  const resolver = (name: string, type: string) => zone.resolver.resolve(name, type as 'TXT');
  for (const { tag, content } of mx.kept) {
    const message = Buffer.from(
      content
        .toString('latin1')
        .replace(/^\.\r\n$/m, '')
        .replaceAll('\r\n..', '\r\n.'),
      'latin1',
    );
    const { results } = await dkimVerify(message, { resolver } as unknown as Parameters<typeof dkimVerify>[1]);
    const result = results[0]?.status.result;
    if (result !== 'pass') findings.push({ rule: 'A9', what: `${tag}: DKIM is ${result}` });
  }
  return findings;
}

/**
 * Requests this many emails a second until told to stop, each until it has its 200; those with certain numbers by SMTP.
 */
export function startLoad(
  { world, beside, order }: Stage,
  perSecond: number,
  bySmtp: (number: number) => boolean = () => false,
): { stop(): void; asked(): number } {
  let on = true;
  let asked = 0;
  const loop = (async () => {
    while (on) {
      asked += 1;
      if (bySmtp(asked)) beside.add(order({ ...world.orders.next(), bySmtp: true }));
      else beside.add(order(asked % 25 === 0 ? world.orders.batch(10) : world.orders.next()));
      await sleep(1_000 / perSecond);
    }
  })();
  beside.add(loop);
  return {
    stop() {
      on = false;
    },
    asked: () => asked,
  };
}
