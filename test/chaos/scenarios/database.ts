import { setTimeout as sleep } from 'node:timers/promises';
import type { Entry } from '../ledger.ts';
import { inWorld, type Run, type Scenario, type Stage, startLoad } from '../run.ts';
import { commits } from '../statements.ts';
import type { Matches } from '../wire.ts';
import type { World } from '../world.ts';

const perSecond = 10;

/** If the database says nothing at all: 4 s for a connection and 10.5 s for an answer, and a little more. */
const slowestMs = 15_000;
/** P6: if the database refuses, that is known at once. */
const refusedMs = 5_000;

type Answered = Extract<Entry, { is: 'answered' }>;

const answersOf = ({ ledger }: World, phase: string): Answered[] =>
  ledger.entries.filter((entry): entry is Answered => entry.is === 'answered' && entry.while === phase);

/** The blow to the database. */
interface Blow {
  /** Groups the figures of all blows of this kind. */
  name: string;
  /** More details, if there are any. */
  how?: string;
  /** The maximum time of a refusal, in ms. */
  within: number;
  do(): Promise<void>;
}

/** Strikes the database repeatedly under load, and measures what clients saw. */
async function disturb(run: Run, stage: Stage, blows: Blow[]): Promise<void> {
  const { world, figures, findings } = stage;
  const load = startLoad(stage, perSecond);
  const back: number[] = [];
  const all: number[] = [];
  for (const [round, { name, how = name, do: strike }] of blows.entries()) {
    await sleep(run.random.between(800, 1_500));
    run.say(`${round + 1} of ${blows.length}: ${how}`);
    world.client.phase = name;
    await strike();
    world.client.phase = null;
    const began = performance.now();
    await accepted(world);
    back.push(performance.now() - began);
    // All waiting clients come at once. The next blow must not strike their requests, and be counted for them.
    while (world.client.waiting > perSecond) await sleep(50);
    all.push(performance.now() - began);
    run.say(`works again after ${back.at(-1)?.toFixed(0)} ms, all have their 200 after ${all.at(-1)?.toFixed(0)} ms`);
  }
  load.stop();
  for (const { name, within } of new Map(blows.map((blow) => [blow.name, blow])).values()) {
    const answers = answersOf(world, name);
    const slowestOf = (list: Answered[]) => list.reduce((most, { tookMs }) => Math.max(most, tookMs), 0);
    const slowest = slowestOf(answers.filter(({ status }) => status !== 200));
    // All waiting clients come at once when it is back: a 200 is work, and takes time.
    const taken = slowestOf(answers.filter(({ status }) => status === 200));
    const counts = Map.groupBy(answers, ({ status }) => status);
    figures[`${name}: answers`] =
      [...counts].map(([status, list]) => `${list.length} x ${status}`).join(', ') || 'none';
    figures[`${name}: slowest refusal and slowest 200, ms`] = `${slowest}, ${taken}`;
    if (slowest > within) findings.push({ rule: 'A10', what: `a refusal took ${slowest} ms (${name})` });
    if (taken > slowestMs) findings.push({ rule: 'A10', what: `a 200 took ${taken} ms (${name})` });
  }
  const slowestBack = Math.round(Math.max(0, ...back));
  figures['longest until a request succeeded again, ms'] = slowestBack;
  figures['longest until all waiting clients had their 200, ms'] = Math.round(Math.max(0, ...all));
  if (slowestBack > 60_000) findings.push({ rule: 'A10', what: `it took ${slowestBack} ms until it worked again` });
}

/** Waits until a new request is accepted. */
async function accepted({ client, orders }: World): Promise<void> {
  const order = orders.next();
  while (!(await client.ask(order))) await sleep(50);
}

const kinds = ['immediate stop', 'frozen', 'kill -9 of the postmaster'] as const;

/** How long each kind is down in turn, in seconds; then anything between the first and the last. */
const ladder = [5, 20, 60] as const;
const [shortest, , longest] = ladder;

/** Less than a whole ladder is quick: no round has a minute. */
function secondsOf(round: number, { rounds, random }: Run): { seconds: number; called: string } {
  if (rounds < kinds.length * ladder.length) return { seconds: random.between(1, 3), called: '1 s to 3 s' };
  const rung = ladder[Math.floor(round / kinds.length)];
  if (rung !== undefined) return { seconds: rung, called: `${rung} s` };
  return { seconds: random.between(shortest, longest), called: `${shortest} s to ${longest} s` };
}

export const databaseStopped: Scenario = {
  name: 'database',
  what: 'PostgreSQL stopped at once, killed or frozen, under load: each for 5, 20 and 60 s, or with fewer than 9 rounds for 1 s to 3 s',
  quick: 3,
  run: (run) =>
    inWorld(run, { database: 'own' }, async (stage) => {
      const server = stage.world.server();
      const away = async (kind: (typeof kinds)[number], ms: number) => {
        const thaw = kind === 'frozen' ? await server.freeze() : null;
        if (kind === 'immediate stop') await server.stopImmediately();
        if (kind === 'kill -9 of the postmaster') await server.kill();
        await sleep(ms);
        if (thaw) thaw();
        else await server.start();
      };
      const blows = Array.from({ length: run.rounds }, (_, round): Blow => {
        const kind = kinds[round % kinds.length] ?? kinds[0];
        const { seconds, called } = secondsOf(round, run);
        return {
          name: `${kind}, ${called}`,
          how: `${kind}, for ${seconds.toFixed(1)} s`,
          within: kind === 'frozen' ? slowestMs : refusedMs,
          do: () => away(kind, seconds * 1_000),
        };
      });
      await disturb(run, stage, blows);
    }),
};

export const connectionsCut: Scenario = {
  name: 'cuts',
  what: 'connections to PostgreSQL cut, refused and half-open, and cut between a COMMIT and its reply, under load',
  quick: 9,
  run: (run) =>
    inWorld(run, { database: 'own' }, async (stage) => {
      const { wire } = stage.world.node;
      if (!wire) throw new Error('there is no wire');
      let lost = 0;
      const cutAt = (matches: Matches) => ({
        within: refusedMs,
        async do() {
          const trap = wire.hold(matches, 'cut');
          await Promise.race([trap.hit.then(() => (lost += 1)), sleep(8_000)]);
          trap.lift();
        },
      });
      const setFor = async (state: 'shut' | 'mute', leastMs: number, mostMs: number) => {
        wire.set(state);
        await sleep(run.random.between(leastMs, mostMs));
        wire.set('open');
      };
      const turns = [
        ...Object.entries(commits).map(([name, matches]) => ({
          name: `reply to the COMMIT of ${name} lost`,
          ...cutAt(matches),
        })),
        { name: 'all cut', within: refusedMs, do: async () => wire.cut() },
        { name: 'refused, 2 s to 10 s', within: refusedMs, do: () => setFor('shut', 2_000, 10_000) },
        { name: 'half-open, 25 s to 35 s', within: slowestMs, do: () => setFor('mute', 25_000, 35_000) },
      ];
      const enough = Array.from({ length: Math.ceil(run.rounds / turns.length) }, () => turns).flat();
      await disturb(run, stage, enough.slice(0, run.rounds));
      stage.figures['replies to a COMMIT that were lost'] = lost;
    }),
};
