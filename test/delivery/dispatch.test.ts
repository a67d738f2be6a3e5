import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Database } from '../../src/db/client.ts';
import { Dispatcher } from '../../src/delivery/dispatch.ts';
import type { Recorder } from '../../src/delivery/outcome/record.ts';
import type { Standing } from '../../src/delivery/outcome/standing.ts';
import type { SourceAddresses } from '../../src/delivery/pools/source-addresses.ts';
import type { Throttle, Ticket } from '../../src/delivery/sites/throttle.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';
import { buildClaim } from '../support/claim.ts';

const nothing = async () => undefined;

/** A dispatcher over a database that does only what it is told; every site has all that it may have. */
function startDispatcher(
  t: Test,
  db: Partial<Record<'transaction' | 'query', (...told: never[]) => unknown>>,
  {
    readOrders = nothing,
    exchange = nothing,
    noteDeliveries = nothing,
    giveBack = nothing,
    throttle = {},
  }: Partial<
    Record<'readOrders' | 'exchange' | 'noteDeliveries' | 'giveBack', () => Promise<void>> & {
      throttle: Partial<Throttle>;
    }
  > = {},
) {
  const lease = { nodeId: 'n', onHold: false, valid: () => true };
  const patience: number[] = [];
  const dispatcher = new Dispatcher(
    { query: async () => [], ...db } as unknown as Database,
    { onWake: () => () => undefined } as unknown as Queue,
    {
      tools: {
        log: silentLog,
        clock: { now: () => new Date() },
        policy: { scheduleMs: [], forMs: 0 },
        lease,
      } as unknown as ConstructorParameters<typeof Dispatcher>[2]['tools'],
      standing: {
        readOrders,
        report: nothing,
        noteDeliveries,
        siteOf: async (name: string) => ({ name, connections: 1, perMinute: null, perConnection: null }),
        throttle: {
          turn: () => ({ when: 'after another' }),
          waitFor: () => 0,
          record: () => ({ proven: true, running: 1 }),
          ...throttle,
        },
      } as unknown as Standing,
      sources: { exchange, giveBack } as unknown as SourceAddresses,
      recorder: { giveUpAfter: (ms: number) => patience.push(ms) } as unknown as Recorder,
    },
  );
  dispatcher.start();
  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= dispatcher.stop();
    return stopping;
  };
  t.teardown(stop);
  return { dispatcher, lease, patience, stop };
}

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

t.test('while the database is slow, orders and the use of new addresses are asked for once at a time', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const slow = Promise.withResolvers<void>();
  const asked = { orders: 0, sources: 0 };
  const ask = (what: keyof typeof asked) => () => {
    asked[what] += 1;
    return slow.promise;
  };
  startDispatcher(t, { transaction: () => slow.promise }, { readOrders: ask('orders'), exchange: ask('sources') });
  mock.timers.tick(5_000);
  t.strictSame(asked, { orders: 1, sources: 1 });
  slow.resolve();
  while (asked.orders < 2 || asked.sources < 2) {
    await setImmediate();
    mock.timers.tick(1_000);
  }
  t.pass('and again when there is an answer');
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
          describe: () => '',
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
