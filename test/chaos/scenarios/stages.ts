import { setTimeout as sleep } from 'node:timers/promises';
import { inWorld, type Scenario } from '../run.ts';
import { type Scene, stages, startStages } from '../stages.ts';

/** `kill -9` at each of these stages of an email, by number: one round is each of them once. */
function killAt(isOwn: (number: number) => boolean): Pick<Scenario, 'quick' | 'stages' | 'run'> {
  const names = [...Object.keys(stages), ...Object.keys(startStages)];
  return {
    quick: 1,
    stages: names.filter((name) => isOwn(Number.parseInt(name.slice(1), 10))),
    run: (run) =>
      inWorld(run, { database: 'own' }, async (stage) => {
        const { world, beside, figures, findings, order } = stage;
        const starts: number[] = [];
        let kills = 0;
        const unreached: string[] = [];
        const chosen = ([name]: [string, unknown]) => run.stages.includes(name);
        for (let round = 1; round <= run.rounds; round += 1) {
          for (const [name, reach] of Object.entries(stages).filter(chosen)) {
            const lifts: (() => void)[] = [];
            const scene: Scene = {
              world,
              random: run.random,
              order,
              beside: (work) => beside.add(work),
              after: (work) => lifts.push(work),
            };
            run.say(`round ${round} of ${run.rounds}: ${name}`);
            await reach(scene).catch((error: Error) => unreached.push(`${name}: ${error.message}`));
            await sleep(run.random.between(0, 20));
            await world.node.kill(name);
            kills += 1;
            for (const lift of lifts) lift();
            starts.push(await world.node.start());
          }
          for (const [name, matches] of Object.entries(startStages).filter(chosen)) {
            run.say(`round ${round} of ${run.rounds}: ${name}`);
            // A message in flight, so that there is a journal to read.
            const trap = world.mx.traps.set('dot');
            beside.add(order(world.orders.next({ manner: 'ok', people: 1 })));
            await Promise.race([trap.hit, sleep(10_000)]);
            await world.node.kill('S9 dot written, no reply');
            trap.lift();
            const held = world.node.wire?.hold(matches(run.random), 'before');
            await world.node.startAndKill(Promise.race([held?.hit, sleep(5_000)]), name);
            kills += 2;
            held?.lift();
            starts.push(await world.node.start());
          }
        }
        for (const what of unreached) findings.push({ rule: 'A10', what: what });
        figures.kills = kills;
        figures['median start, ms'] = Math.round(starts.toSorted((a, b) => a - b)[starts.length >> 1] ?? 0);
      }),
  };
}

/* Two, so that they run side by side: as one it would outlast all others together. */
export const killWhileSending: Scenario = {
  name: 'stages-sending',
  what: 'kill -9 at each of the stages S1 to S11',
  ...killAt((number) => number <= 11),
};
export const killAfterwards: Scenario = {
  name: 'stages-after',
  what: 'kill -9 at each of the stages S12 to S17',
  ...killAt((number) => number > 11),
};
