import { setTimeout as sleep } from 'node:timers/promises';
import type { Entry } from '../ledger.ts';
import { inWorld, type Run, type Scenario, type Stage, startLoad } from '../run.ts';
import { commits } from '../statements.ts';
import type { Matches } from '../wire.ts';
import type { World } from '../world.ts';

const perSecond = 10;

/** Where the database says nothing at all: 4 s for a connection and 10.5 s for an answer, and a little. */
const slowestMs = 15_000;
/** P6: where the database refuses, that is known at once. */
const refusedMs = 5_000;

type Answered = Extract<Entry, { is: 'answered' }>;

const answersOf = ({ ledger }: World, phase: string): Answered[] =>
  ledger.entries.filter((entry): entry is Answered => entry.is === 'answered' && entry.while === phase);

/** Does something to the database again and again under load, and measures what clients saw of it. */
async function disturb(
  run: Run,
  stage: Stage,
  phases: Record<string, { within: number; do(): Promise<void> }>,
): Promise<void> {
  const { world, figures, findings } = stage;
  const load = startLoad(stage, perSecond);
  const back: number[] = [];
  const names = Object.keys(phases);
  for (let round = 0; round < run.rounds; round += 1) {
    const name = names[round % names.length] ?? '';
    await sleep(run.random.between(800, 1_500));
    run.say(`${round + 1} of ${run.rounds}: ${name}`);
    world.client.phase = name;
    await phases[name]?.do();
    world.client.phase = null;
    const began = performance.now();
    await accepted(world);
    back.push(performance.now() - began);
  }
  load.stop();
  for (const [name, { within }] of Object.entries(phases)) {
    const answers = answersOf(world, name);
    const slowest = Math.max(0, ...answers.map(({ tookMs }) => tookMs));
    const counts = Map.groupBy(answers, ({ status }) => status);
    figures[`${name}: answers`] =
      [...counts].map(([status, list]) => `${list.length} x ${status}`).join(', ') || 'none';
    figures[`${name}: slowest answer, ms`] = slowest;
    if (slowest > within) findings.push({ rule: 'A10', what: `an answer took ${slowest} ms (${name})` });
  }
  const slowestBack = Math.round(Math.max(0, ...back));
  figures['longest until a request succeeded again, ms'] = slowestBack;
  if (slowestBack > 60_000) findings.push({ rule: 'A10', what: `it took ${slowestBack} ms until it worked again` });
}

/** Waits until something is accepted that was asked for from now on. */
async function accepted({ client, orders }: World): Promise<void> {
  const order = orders.next();
  while (!(await client.ask(order))) await sleep(50);
}

const forSeconds = (run: Run, least: number, most: number) =>
  // A quick run has a few rounds, and no minute for one of them.
  run.rounds <= 4 ? run.random.between(1_000, 3_000) : run.random.between(least * 1_000, most * 1_000);

export const databaseStopped: Scenario = {
  name: 'database',
  what: 'PostgreSQL stopped at once, killed or frozen, for 5 s to 60 s, under load',
  quick: 3,
  run: (run) =>
    inWorld(run, { database: 'own' }, async (stage) => {
      const server = stage.world.server();
      const away = async (stop: () => Promise<void>) => {
        await stop();
        await sleep(forSeconds(run, 5, 60));
        await server.start();
      };
      await disturb(run, stage, {
        'immediate stop': { within: refusedMs, do: () => away(() => server.stopImmediately()) },
        frozen: {
          within: slowestMs,
          do: async () => {
            const thaw = await server.freeze();
            await sleep(forSeconds(run, 5, 60));
            thaw();
          },
        },
        'kill -9 of the postmaster': { within: refusedMs, do: () => away(() => server.kill()) },
      });
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
      await disturb(run, stage, {
        ...Object.fromEntries(
          Object.entries(commits).map(([name, matches]) => [`reply to the COMMIT of ${name} lost`, cutAt(matches)]),
        ),
        'all cut': { within: refusedMs, do: async () => wire.cut() },
        refused: {
          within: refusedMs,
          async do() {
            wire.set('shut');
            await sleep(forSeconds(run, 2, 10));
            wire.set('open');
          },
        },
        'half-open': {
          within: slowestMs,
          async do() {
            wire.set('mute');
            await sleep(forSeconds(run, 5, 30));
            wire.set('open');
          },
        },
      });
      stage.figures['replies to a COMMIT that were lost'] = lost;
    }),
};
