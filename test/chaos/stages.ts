import { setTimeout as sleep } from 'node:timers/promises';
import { bounce } from './bounce.ts';
import type { Order } from './client.ts';
import { withClient } from './facts.ts';
import type { MxPhase } from './mx.ts';
import type { Random } from './random.ts';
import * as is from './statements.ts';
import type { Matches, Where } from './wire.ts';
import type { World } from './world.ts';

/** The tools of a stage: the world, its random choices, and the work in parallel. */
export interface Scene {
  world: World;
  random: Random;
  /** Requests it, along with other work, until each has its 200, which may be after the kill. */
  order(order: Order): Promise<void>;
  /** Something that ends after the kill. */
  beside(work: Promise<unknown>): void;
  /** Runs once the process is dead. */
  after(work: () => void): void;
}

/** Brings the node to one point, where it is then killed. */
export type Stage = (scene: Scene) => Promise<void>;

const stuckMs = 25_000;

/** @throws Error if it is not reached: then the harness no longer knows the service */
async function reached(hit: Promise<unknown>): Promise<void> {
  const late = sleep(stuckMs, 'late', { ref: false });
  if ((await Promise.race([hit, late])) === 'late') throw new Error('this stage was not reached');
}

/** Requests something, and holds the node at this statement. */
const atStatement =
  (matches: Matches, where: Where, manner?: string): Stage =>
  async (scene) => {
    const trap = scene.world.node.wire?.hold(matches, where);
    if (!trap) throw new Error('there is no wire');
    scene.after(trap.lift);
    scene.beside(scene.order(scene.world.orders.next({ ...(manner && { manner }) })));
    await reached(trap.hit);
  };

/** Requests something, and holds its conversation with the receiving server. */
const atServer =
  (phase: MxPhase, options: { manner?: string; domain?: string; bytes?: number } = {}): Stage =>
  async ({ world, order, beside, after }) => {
    const asked = world.orders.next({ manner: 'ok', people: 1, ...options });
    const [mine = ''] = asked.mails[0]?.to ?? [];
    // Before RCPT nobody knows whose it is.
    const trap = world.mx.traps.set(phase, (to) => to.length === 0 || to.includes(mine));
    after(trap.lift);
    beside(order(asked));
    await reached(trap.hit);
  };

/** An email that was delivered, and for which a bounce comes back. */
async function delivered({ world, order }: Scene) {
  const asked = world.orders.next({ manner: 'ok', people: 1 });
  const [{ tag, to } = { tag: '', to: [''] }] = asked.mails;
  await order(asked);
  const until = Date.now() + stuckMs;
  while (!world.mx.returnPaths.has(tag)) {
    if (Date.now() > until) throw new Error('this stage was not reached');
    await sleep(20);
  }
  const answer = world.ledger.entries.findLast((entry) => entry.is === 'answered' && entry.ids[tag] !== undefined);
  const emailId = (answer?.is === 'answered' && answer.ids[tag]) || '';
  return { tag, emailId, address: to[0] ?? '' };
}

/** An endpoint that answered within a minute may get many calls; this is recorded at most every 20 s. */
const answeredWithinS = 30;

/** A dead node's calls are released after this time, and until an endpoint has answered it gets no more than four. */
const buriedMs = 45_000;

/** If the endpoint has answered recently, calls left claimed by one kill after another do not use up all its places. */
const answering =
  (stage: Stage): Stage =>
  async (scene) => {
    const { world, order } = scene;
    const answers = () =>
      withClient(world.server().url, (ask) =>
        ask(`SELECT FROM webhooks WHERE answered_at > now() - interval '${answeredWithinS} seconds'`),
      );
    if ((await answers()).length === 0) await order(world.orders.next({ manner: 'ok', people: 1 }));
    for (const until = Date.now() + buriedMs; (await answers()).length === 0; await sleep(20)) {
      if (Date.now() > until) throw new Error('the endpoint was not called');
    }
    await stage(scene);
  };

const atReturn =
  (matches: Matches, where: Where): Stage =>
  async (scene) => {
    const { world, after, beside } = scene;
    const about = await delivered(scene);
    const trap = world.node.wire?.hold(matches, where);
    if (!trap) throw new Error('there is no wire');
    after(trap.lift);
    beside(bounce(world, about));
    await reached(trap.hit);
  };

const settledBy = async (world: World, tag: string): Promise<boolean> => {
  const [row] = await withClient(world.server().url, (ask) =>
    ask<{ open: boolean }>(
      `SELECT count(*) = 0 OR bool_or(r.next_attempt_at IS NOT NULL) AS open
         FROM emails e JOIN recipients r ON r.email_id = e.id WHERE e.subject = $1`,
      [tag],
    ),
  );
  return row?.open === false;
};

/** The stages of a kill, explained in `docs/reliability.md`. */
export const stages: Record<string, Stage> = {
  'S1 before BEGIN': async (scene) => {
    await atStatement(is.anyBegin, 'before')(scene);
    // Others begin transactions too: it takes at most this long until the request is at its own.
    await sleep(150);
  },
  'S2 inside the transaction': (scene) => atStatement(scene.random.pick(is.acceptSteps), 'before')(scene),
  'S2 before its COMMIT': async (scene) => {
    await atStatement(is.commitOfAccept, 'before')(scene);
    // A 200 that does not wait for it would be out by then.
    await sleep(100);
  },
  'S3 committed, no 200': atStatement(is.commitOfAccept, 'after'),
  'S4 200 sent, not fetched': async ({ world, order, after }) => {
    const trap = world.node.wire?.hold(is.fetchOfMail, 'before');
    if (trap) after(trap.lift);
    await order(world.orders.next());
  },
  'S5 fetched, before DNS': atStatement(is.loadOfMail, 'before'),
  'S6 during DNS': async ({ world, random, order, beside, after }) => {
    const domain = `dns${random.integer(1e9)}.test`;
    world.zone.set(domain, 'drop');
    after(() => world.zone.set(domain, { A: ['127.0.0.1'] }));
    beside(order(world.orders.next({ manner: 'ok', domain })));
    const until = Date.now() + stuckMs;
    while (!world.zone.queries.some((query) => query.endsWith(domain))) {
      if (Date.now() > until) throw new Error('this stage was not reached');
      await sleep(10);
    }
  },
  'S6 during connect': atServer('connect'),
  'S6 during TLS': atServer('tls', { domain: 'tls.test' }),
  'S7 after MAIL': atServer('mail'),
  'S7 after RCPT': atServer('rcpt'),
  'S8 before the content': atServer('data'),
  // More than all buffers between the two can hold, so the dot cannot be on its way.
  'S8 in the content': atServer('content', { bytes: 5_000_000 }),
  'S9 dot written, no reply': atServer('dot'),
  'S10 reply read, not recorded': (scene) =>
    atStatement(scene.random.pick([is.settle, is.commitOfSettle]), 'before', 'ok')(scene),
  'S11 recorded': atStatement(is.commitOfSettle, 'after', 'ok'),
  'S12 recorded, call not fetched': answering(async ({ world, order, beside, after }) => {
    const trap = world.node.wire?.hold(is.fetchOfCalls, 'before');
    if (trap) after(trap.lift);
    const asked = world.orders.next({ manner: 'ok', people: 1 });
    beside(order(asked));
    const until = Date.now() + stuckMs;
    while (!(await settledBy(world, asked.key))) {
      if (Date.now() > until) throw new Error('this stage was not reached');
      await sleep(20);
    }
  }),
  'S13 call sent, no answer': answering(async ({ world, order, beside, after }) => {
    const trap = world.endpoint.traps.set('called');
    after(trap.lift);
    beside(order(world.orders.next()));
    await reached(trap.hit);
  }),
  'S13 call answered, not recorded': answering((scene) =>
    atStatement(scene.random.pick([is.settleOfCalls, is.commitOfSettledCalls]), 'before')(scene),
  ),
  'S13 call recorded': answering(atStatement(is.commitOfSettledCalls, 'after')),
  'S14 bounce not stored': atReturn(is.returns, 'before'),
  'S14 bounce stored, no 250': atReturn(is.commitOfReturns, 'after'),
  'S15 bounce had its 250': async (scene) => {
    const about = await delivered(scene);
    await bounce(scene.world, about);
  },
  'S16 waking what is due': atStatement(is.wake, 'before', 'later'),
  'S16 woken': atStatement(is.commitOfWake, 'after', 'later'),
  'S16 sweeping': atStatement(is.sweep, 'before'),
  'S16 adding up': atStatement(is.addUp, 'before'),
  'S17 while it drains': async (scene) => {
    await atServer('dot')(scene);
    scene.world.node.terminate();
    const until = Date.now() + stuckMs;
    while (!scene.world.node.said.includes('finishing the work in progress')) {
      if (Date.now() > until) throw new Error('this stage was not reached');
      await sleep(5);
    }
    await sleep(scene.random.between(0, 1_000));
  },
};

/** Kills in the middle of a start: at the start's own database work. */
export const startStages: Record<string, (random: Random) => Matches> = {
  'S16 starting: partitions': () => is.partitions,
  'S16 starting: any statement': (random) => is.nth(1 + random.integer(60)),
  'S16 starting: reading a journal': () => is.journalOfDead,
};
