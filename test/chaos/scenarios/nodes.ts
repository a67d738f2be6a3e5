import { setTimeout as sleep } from 'node:timers/promises';
import { withClient } from '../facts.ts';
import { inWorld, type Scenario, type Stage, startLoad } from '../run.ts';
import * as is from '../statements.ts';

/** The others declare a node dead after 30 s; it notices itself after 20 s. */
const pastLeaseMs = 36_000;

/** The others wait at most this long for a frozen node's locks. */
const blockedMs = 45_000;

/** QUE-07: one freeze, with a message of node A at each of these points, and an open transaction of it. */
export const frozenNode: Scenario = {
  name: 'frozen',
  what: 'SIGSTOP for longer than the lease, in the middle of messages, of a webhook call and of a transaction; then SIGCONT',
  quick: 1,
  run: (run) =>
    inWorld(run, { database: 'own', nodes: 2 }, async (stage) => {
      for (let round = 1; round <= run.rounds; round += 1) {
        run.say(`freeze ${round} of ${run.rounds}`);
        await freezeOnce(stage);
      }
    }),
};

async function freezeOnce({ world, beside, order, figures, findings }: Stage): Promise<void> {
  const [a, b] = world.members;
  if (!a || !b) throw new Error('two nodes are needed');
  // Node A must claim what it is to hold: B may not meanwhile.
  const idle = b.wire?.hold(is.fetchOfMail, 'before');
  const places = (['rcpt', 'data', 'dot'] as const).map((phase) => {
    const asked = world.orders.next({ manner: 'ok', people: 1, domain: phase === 'dot' ? 'two.test' : 'one.test' });
    const [mine = ''] = asked.mails[0]?.to ?? [];
    const trap = world.mx.traps.set(phase, (to) => to.includes(mine));
    beside.add(order(asked));
    return { phase, trap, mine };
  });
  for (const { trap } of places) await within(trap.hit, 'a message was not held');
  // In the middle of an acceptance: it has locked the account's row, which every other acceptance needs.
  const accept = a.wire?.hold(is.commitOfAccept, 'before');
  const stuck = world.orders.next();
  beside.add(world.client.ask(stuck, a).then(() => order(stuck)));
  await within(accept?.hit, 'the transaction was not held');
  a.freeze('past the lease');
  idle?.lift();
  // Everything sent to A now waits in its sockets.
  for (const { trap, phase } of places) if (phase !== 'dot') trap.lift();
  const began = performance.now();
  const asked = world.orders.next();
  let accepted = false;
  while (!accepted && performance.now() - began < blockedMs) {
    await sleep(200);
    accepted = await world.client.ask(asked, b);
  }
  if (!accepted) {
    findings.push({
      rule: 'A10',
      what: `nothing was accepted for ${blockedMs / 1000} s while another node was frozen`,
    });
  }
  record(figures, 'longest until another node could accept for the account, ms', performance.now() - began);
  await sleep(Math.max(0, pastLeaseMs - (performance.now() - began)));
  for (const { mine } of places) await within(arrived(world, mine), `${mine} was not taken over`);
  record(figures, 'longest until everything was taken over, ms', performance.now() - began);
  a.wake();
  for (const { trap } of places) trap.lift();
  accept?.lift();
  await sleep(3_000);
}

async function arrived({ ledger }: Stage['world'], address: string): Promise<void> {
  const taken = () => ledger.entries.some((entry) => entry.is === 'arrived' && entry.to.includes(address));
  while (!taken()) await sleep(100);
}

function record(figures: Stage['figures'], name: string, ms: number): void {
  figures[name] = Math.max(Math.round(ms), Number(figures[name] ?? 0));
}

async function within(work: Promise<unknown> | undefined, otherwise: string, ms = 90_000): Promise<void> {
  if ((await Promise.race([work, sleep(ms, 'late', { ref: false })])) === 'late') throw new Error(otherwise);
}

const dayMs = 24 * 3_600_000;

/** QUE-15: what a node's own time of day decides. */
export const clocksOff: Scenario = {
  name: 'clocks',
  what: 'the clock of one of two nodes a day ahead, a day behind, or set while it runs, under load',
  quick: 2,
  run: (run) =>
    inWorld(run, { database: 'own', nodes: 2, clocks: true }, async (stage) => {
      const { world, figures } = stage;
      const [, b] = world.members;
      const load = startLoad(stage, 8);
      const offs = { 'a day ahead': dayMs, 'a day behind': -dayMs, right: 0 };
      for (let round = 0; round < run.rounds; round += 1) {
        const [name, off] = Object.entries(offs)[round % 3] ?? ['right', 0];
        run.say(`${round + 1} of ${run.rounds}: ${name}`);
        b?.setClock(off);
        // A node whose clock jumps sends nothing before its next beat, which is in five seconds.
        await sleep(run.random.between(8_000, 10_000));
      }
      load.stop();
      await beside(stage);
      b?.setClock(0);
      const late = await withClient(world.server().url, (ask) =>
        ask<{ n: number; most: number }>(
          `SELECT count(*)::int AS n, coalesce(max(extract(epoch FROM next_attempt_at - now())), 0)::int AS most
             FROM recipients WHERE next_attempt_at > now() + interval '1 minute'`,
        ),
      );
      figures['recipients that wait longer than a minute'] = late[0]?.n ?? 0;
      figures['the longest of them, s'] = late[0]?.most ?? 0;
    }),
};

const beside = ({ beside }: Stage) => beside.over();
