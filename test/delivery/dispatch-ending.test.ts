import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { unasked } from '../../src/delivery/attempt/attempt.ts';
import type { Ticket } from '../../src/delivery/sites/throttle.ts';
import { newId } from '../../src/ids.ts';
import type { Delivery } from '../../src/smtp/deliver.ts';
import { buildClaim } from '../support/claim.ts';
import { eventually } from '../support/node.ts';
import { databaseWith, startDispatcher, unreached } from './dispatch-scene.ts';

t.test(
  'a stop counts the time for what is under way from its beginning, also while the database is silent',
  async (t) => {
    const asked = Promise.withResolvers<void>();
    const silence = Promise.withResolvers<never>();
    const transaction = () => {
      asked.resolve();
      return silence.promise;
    };
    const { patience, stop } = startDispatcher(t, { transaction });
    await asked.promise;
    const stopped = stop();
    t.same(patience, [20_000]);
    silence.reject(new Error('no answer'));
    await stopped;
    t.same(patience, [20_000]);
  },
);

t.test('a stop that has less time gives what is under way no more than that', async (t) => {
  const { patience, stop } = startDispatcher(t, databaseWith([]));
  await stop(5_000);
  t.same(patience, [5_000]);
});

t.test('a stop gives back claims, notes where mail arrived and returns unused messages, whichever fails', async (t) => {
  const batches = [[buildClaim({ nodeId: 'n', jobId: 'j', emailId: 'e' })]];
  const placed = Promise.withResolvers<void>();
  const told: string[] = [];
  const failing = (what: string) => async () => {
    told.push(what);
    throw new Error('the database is away');
  };
  const { stop } = startDispatcher(
    t,
    {
      transaction: async () => {
        const claims = batches.shift() ?? [];
        if (claims.length === 0) placed.resolve();
        return { taken: claims.length, claims };
      },
      query: failing('claims'),
    },
    { noteDeliveries: failing('arrivals'), giveBack: failing('messages') },
  );
  await placed.promise;
  told.length = 0;
  await stop();
  t.strictSame(told, ['claims', 'arrivals', 'messages']);
});

t.test('a stop gives back what was just being taken', async (t) => {
  const claim = buildClaim({ nodeId: 'n', jobId: 'j', emailId: 'e' });
  const asked = Promise.withResolvers<void>();
  const taking = Promise.withResolvers<object>();
  const released: unknown[] = [];
  const { dispatcher, stop } = startDispatcher(t, {
    transaction: () => {
      asked.resolve();
      return taking.promise;
    },
    query: async ({ values }: { values: unknown[] }) => released.push(values),
  });
  await asked.promise;
  const stopped = stop();
  await setImmediate();
  taking.resolve({ taken: 1, claims: [claim] });
  await stopped;
  t.equal(dispatcher.inHand, 0);
  t.strictSame(released, [[['e'], ['j'], ['n']]]);
});

t.test('a stop does not wait for the database to take back what it could not before', async (t) => {
  const { dispatcher, lease, stop } = startDispatcher(t, {
    ...databaseWith([buildClaim()]),
    query: async () => {
      throw new Error('the database is away');
    },
  });
  await eventually(async () => dispatcher.inHand === 1, 10_000);
  lease.onHold = true;
  // Which the next look at it finds.
  await sleep(1_500);
  t.equal(dispatcher.inHand, 1);
  const ended = stop().then(() => 'ended');
  t.equal(await Promise.race([ended, sleep(5_000, 'waiting', { ref: false })]), 'ended');
});

for (const [event, change] of [
  ['this node was taken for dead', { nodeId: 'another' }],
  ['sending was put on hold', { onHold: true }],
] as const)
  t.test(`what waits here is given back after ${event}`, { timeout: 30_000 }, async (t) => {
    const claim = buildClaim({ nodeId: 'n', jobId: 'j', emailId: 'e' });
    const batches = [[claim]];
    const placed = Promise.withResolvers<void>();
    const released = Promise.withResolvers<unknown[]>();
    const { dispatcher, lease } = startDispatcher(t, {
      transaction: async () => {
        const claims = batches.shift() ?? [];
        if (claims.length === 0) placed.resolve();
        return { taken: claims.length, claims };
      },
      query: async ({ values }: { values: unknown[] }) => released.resolve(values),
    });
    await placed.promise;
    t.equal(dispatcher.inHand, 1);
    Object.assign(lease, change);
    t.same(await released.promise, [['e'], ['j'], ['n']]);
  });

for (const event of ['a hold', 'a stop'] as const)
  t.test(`after ${event}, mail that waits for its site does not follow what is under way`, async (t) => {
    const claims = [1, 2].map(() => buildClaim({ to: ['a@a.test'] }));
    const first = Promise.withResolvers<Delivery>();
    const asked: string[] = [];
    let running = 0;
    let over = 0;
    const taking = Promise.withResolvers<object>();
    const database = databaseWith(claims);
    let looks = 0;
    let wake: () => void = () => undefined;
    const { dispatcher, lease, stop } = startDispatcher(
      t,
      {
        ...database,
        // The second batch is being taken for as long as the test wants, which a stop waits for.
        transaction: () => {
          looks += 1;
          return looks === 1 ? database.transaction() : taking.promise;
        },
      },
      {
        onWake: (woken) => {
          wake = woken;
        },
        tools: {
          messages: {
            buildAhead: () => undefined,
            with: ({ id }: { id: string }) => {
              asked.push(id);
              return first.promise;
            },
          },
        },
        standing: { judge: () => ({ verdict: 'fine', moved: false }) },
        throttle: {
          turn: () => ({ when: running > 0 ? 'after another' : 'now' }),
          begin: () => {
            running += 1;
            return {} as Ticket;
          },
          end: () => {
            running -= 1;
            over += 1;
          },
        },
      },
    );
    await eventually(async () => asked.length === 1, 10_000);
    t.equal(dispatcher.inHand, 2);
    wake();
    while (looks < 2) await setImmediate();
    const stopped = event === 'a stop' ? stop() : undefined;
    if (event === 'a hold') lease.onHold = true;
    await setImmediate();
    first.resolve(unasked(['a@a.test'], unreached, new Date()));
    while (over === 0) await setImmediate();
    t.equal(running, 0);
    taking.resolve({ taken: 0, claims: [] });
    await stopped;
    t.equal(asked.length, 1);
  });

for (const event of ['a hold', 'a stop'] as const)
  t.test(`a last try does not begin after ${event}, though it was being looked for before`, async (t) => {
    const claim = buildClaim({ nodeId: 'n', emailId: newId(new Date(Date.now() - 3_600_000)) });
    const batches = [[claim]];
    const looked = Promise.withResolvers<void>();
    const due = Promise.withResolvers<object[]>();
    let begun = 0;
    const { dispatcher, lease, stop } = startDispatcher(
      t,
      {
        transaction: async () => {
          const claims = batches.shift() ?? [];
          return { taken: claims.length, claims };
        },
        query: async ({ text }: { text: string }) => {
          if (!text.includes('due_at')) return [];
          looked.resolve();
          return due.promise;
        },
      },
      {
        throttle: {
          turn: () => ({ when: 'later', at: performance.now() + 60_000, by: 'backoff', reason: 'it does not answer' }),
          spare: () => 1,
          begin: () => {
            begun += 1;
            return {} as Ticket;
          },
        },
      },
    );
    await looked.promise;
    const stopped = event === 'a stop' ? stop() : undefined;
    if (event === 'a hold') lease.onHold = true;
    due.resolve([{ id: claim.emailId, account_id: newId(), on_uncertain: 'retry', due_at: new Date(0) }]);
    while (dispatcher.inHand > 0 && begun === 0) await setImmediate();
    t.equal(begun, 0);
    await stopped;
  });

t.test('a large email that waits for another to make room is not begun by a node that stops', async (t) => {
  const claims = [1, 2].map(() => buildClaim({ to: ['a@a.test'] }));
  const first = Promise.withResolvers<Delivery>();
  const asked: string[] = [];
  const { dispatcher, stop } = startDispatcher(t, databaseWith(claims, 100 * 1024 * 1024), {
    tools: {
      messages: {
        with: ({ id }: { id: string }) => {
          asked.push(id);
          return first.promise;
        },
      },
    },
    standing: { judge: () => ({ verdict: 'fine', moved: false }) },
    throttle: {
      turn: () => ({ when: 'now' }),
    },
  });
  await eventually(async () => asked.length === 1, 10_000);
  t.equal(dispatcher.inHand, 2);
  let isStopped = false;
  const stopped = stop().then(() => (isStopped = true));
  await sleep(50);
  t.equal(isStopped, false, 'what is under way ends first');
  first.resolve(unasked(['a@a.test'], unreached, new Date()));
  await stopped;
  t.equal(asked.length, 1);
});
