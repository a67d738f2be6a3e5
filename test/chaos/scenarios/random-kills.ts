import { setTimeout as sleep } from 'node:timers/promises';
import { type inWorld as InWorld, inWorld, type Result, type Run, type Scenario, startLoad } from '../run.ts';

type Work = Parameters<typeof InWorld>[2];

const perSecond = 15;

/** Kills one of the nodes at any moment, and restarts it, while all are under load. */
const killing =
  (run: Run): Work =>
  async (stage) => {
    const { members } = stage.world;
    const load = startLoad(stage, perSecond);
    const starts: number[] = [];
    for (let round = 1; round <= run.rounds; round += 1) {
      await sleep(run.random.between(200, 2_500));
      const member = run.random.pick(members);
      run.say(`kill ${round} of ${run.rounds}: node ${member.name}`);
      await member.kill('any');
      starts.push(await member.start());
    }
    load.stop();
    stage.figures.kills = run.rounds;
    stage.figures['calls asked'] = load.asked();
    stage.figures['median start, ms'] = Math.round(starts.toSorted((a, b) => a - b)[starts.length >> 1] ?? 0);
  };

/** P4: from a 200 until the mail arrives, even if the node that had it is dead. */
const pickedUpMs = 120_000;

async function pickedUp(result: Promise<Result>): Promise<Result> {
  const { totals, findings, figures } = await result;
  if (totals.slowestMs > pickedUpMs)
    findings.push({ rule: 'A10', what: `mail was picked up only ${totals.slowestMs} ms after its 200` });
  return { totals, findings, figures };
}

/** Like `npm start`: one node with the embedded database, which outlives it and is taken over. */
export const killAlone: Scenario = {
  name: 'random',
  what: 'kill -9 at any moment under load, one node with the embedded database',
  quick: 4,
  run: (run) => pickedUp(inWorld(run, { database: 'embedded' }, killing(run))),
};

export const killOfTwo: Scenario = {
  name: 'two-nodes',
  what: 'kill -9 at any moment under load, two nodes on one database: the other goes on',
  quick: 2,
  run: (run) => pickedUp(inWorld(run, { database: 'own', nodes: 2 }, killing(run))),
};

/**
 * A worker at any moment, which the first process replaces, and now and then the first process itself; half of the mail
 * comes by SMTP.
 */
export const killWorkers: Scenario = {
  name: 'workers',
  what: 'kill -9 of a worker, or of the first process, at any moment, under load by HTTP and by SMTP',
  quick: 4,
  run: (run) =>
    pickedUp(
      inWorld(run, { database: 'embedded', env: { WORKERS: '2' } }, async (stage) => {
        const { node } = stage.world;
        const load = startLoad(stage, perSecond, (number) => number % 2 === 0);
        let workers = 0;
        for (let round = 1; round <= run.rounds; round += 1) {
          await sleep(run.random.between(500, 3_000));
          run.say(`kill ${round} of ${run.rounds}`);
          if (round % 4 !== 0 && node.killWorker((pids) => run.random.pick(pids))) workers += 1;
          else {
            await node.kill('any');
            await node.start();
          }
        }
        load.stop();
        stage.figures['workers killed'] = workers;
        stage.figures['first processes killed'] = run.rounds - workers;
        stage.figures['calls asked'] = load.asked();
      }),
    ),
};

/** After twice as many it would be held, because it may be the cause. */
const killsOfOne = 10;

/** QUE-02: an email does not end because of attempts that crashes used up. */
export const killSameMail: Scenario = {
  name: 'same-mail',
  what: 'kill -9 in the same message over and over',
  quick: 3,
  run: (run) =>
    inWorld(run, { database: 'embedded' }, async ({ world, order, figures }) => {
      for (let kill = 0; kill < run.rounds; ) {
        const asked = world.orders.next({ manner: 'ok', people: 1 });
        const [mine = ''] = asked.mails[0]?.to ?? [];
        const last = Math.min(kill + killsOfOne, run.rounds);
        let trap = world.mx.traps.set('data', (to) => to.includes(mine));
        await order(asked);
        while (kill < last) {
          kill += 1;
          run.say(`kill ${kill} of ${run.rounds}`);
          await trap.hit;
          await world.node.kill('S8 before the content');
          trap.lift();
          if (kill < last) trap = world.mx.traps.set('data', (to) => to.includes(mine));
          await world.node.start();
        }
      }
      figures['kills of one message'] = Math.min(killsOfOne, run.rounds);
    }),
};

/** P5: how long a stop may take, from the signal to the end of the process. */
const stopMs = 30_000;

export const drain: Scenario = {
  name: 'drain',
  what: 'SIGTERM under load, and beside a silent receiver: exit code 0 within 30 s, and nothing arrives twice',
  quick: 2,
  run: (run) =>
    inWorld(run, { database: 'embedded' }, async (stage) => {
      const { world, order, beside, findings, figures } = stage;
      const load = startLoad(stage, perSecond);
      const took: number[] = [];
      const codes = new Set<unknown>();
      for (let round = 1; round <= run.rounds; round += 1) {
        await sleep(run.random.between(500, 2_500));
        // Every other time a receiver does not answer to DATA: the stop waits for it for as long as it may.
        const isSilent = round % 2 === 1;
        run.say(`drain ${round} of ${run.rounds}${isSilent ? ', beside a silent receiver' : ''}`);
        const asked = world.orders.next({ manner: 'ok', people: 1 });
        const trap = isSilent && world.mx.traps.set('data', (to) => to.includes(asked.mails[0]?.to[0] ?? ''));
        beside.add(order(asked));
        if (trap) await trap.hit;
        const began = performance.now();
        const code = await world.node.signal(run.random.pick(['SIGTERM', 'SIGINT'] as const));
        took.push(performance.now() - began);
        codes.add(code);
        if (trap) trap.lift();
        if (code !== 0) findings.push({ rule: 'A10', what: `a drain ended with ${code}` });
        if ((took.at(-1) ?? 0) > stopMs)
          findings.push({ rule: 'A10', what: `a drain took ${took.at(-1)?.toFixed(0)} ms` });
        await world.node.start();
      }
      load.stop();
      figures.drains = run.rounds;
      figures['exit codes'] = [...codes].join(', ');
      figures['longest drain, ms'] = Math.round(Math.max(...took));
    }),
};
