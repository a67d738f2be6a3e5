import { mock } from 'node:test';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import type { Database } from '../../src/db/client.ts';
import { unasked } from '../../src/delivery/attempt/attempt.ts';
import { Dispatcher } from '../../src/delivery/dispatch.ts';
import type { Recorder } from '../../src/delivery/outcome/record.ts';
import type { Standing } from '../../src/delivery/outcome/standing.ts';
import type { SourceAddresses } from '../../src/delivery/pools/source-addresses.ts';
import { defaultLimits, type Limits } from '../../src/delivery/sites/limits.ts';
import type { Site } from '../../src/delivery/sites/providers.ts';
import type { Throttle, Ticket } from '../../src/delivery/sites/throttle.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';
import type { Delivery } from '../../src/smtp/deliver.ts';
import type { Failure } from '../../src/smtp/replies/result.ts';
import { buildClaim } from '../support/claim.ts';
import { eventually } from '../support/node.ts';

const nothing = async () => undefined;

/** A dispatcher over a database that does only what it is told; every site has all that it may have. */
function startDispatcher(
  t: Test,
  db: Partial<Record<'transaction' | 'query', (...told: never[]) => unknown>>,
  {
    readOrders = nothing,
    report = nothing,
    exchange = nothing,
    noteDeliveries = nothing,
    giveBack = nothing,
    onWake = () => undefined,
    throttle = {},
    standing = {},
    tools = {},
    recorder = {},
    areOne = true,
    limits = defaultLimits,
  }: Partial<
    Record<'readOrders' | 'report' | 'exchange' | 'noteDeliveries' | 'giveBack', () => Promise<void>> & {
      onWake: Queue['onWake'];
      throttle: Partial<Throttle>;
      standing: Partial<Standing>;
      tools: { messages?: object };
      recorder: Partial<Recorder>;
      areOne: boolean;
      limits: Limits;
    }
  > = {},
) {
  const lease = { nodeId: 'n', onHold: false, valid: () => true };
  const patience: number[] = [];
  const dispatcher = new Dispatcher(
    { query: async () => [], ...db } as unknown as Database,
    { onWake } as unknown as Queue,
    {
      tools: {
        log: silentLog,
        clock: { now: () => new Date() },
        policy: { scheduleMs: [], forMs: 0 },
        lease,
        fresh: new FreshBodies(),
        journal: { recorded: () => undefined },
        metrics: { attempted: () => undefined },
        ...tools,
      } as unknown as ConstructorParameters<typeof Dispatcher>[2]['tools'],
      standing: {
        readOrders,
        report,
        noteDeliveries,
        siteOf: async (name: string) => ({ name, connections: 1, perMinute: null, perConnection: null }),
        throttle: {
          turn: () => ({ when: 'after another' }),
          waitFor: () => 0,
          record: () => ({ proven: true, running: 1 }),
          describe: () => '',
          connections: () => 2,
          begin: () => ({}),
          end: () => undefined,
          cancel: () => undefined,
          ...throttle,
        },
        ...standing,
      } as unknown as Standing,
      sources: {
        exchange,
        giveBack,
        areOne,
        choose: async (wants: unknown[]) => wants.map(() => ({ source: null })),
      } as unknown as SourceAddresses,
      recorder: {
        giveUpAfter: (ms: number) => patience.push(ms),
        add: async () => true,
        ...recorder,
      } as unknown as Recorder,
    },
    limits,
  );
  dispatcher.start();
  let stopping: Promise<void> | undefined;
  const stop = (withinMs?: number) => {
    stopping ??= dispatcher.stop(withinMs);
    return stopping;
  };
  t.teardown(() => stop());
  return { dispatcher, lease, patience, stop };
}

/** What a database answers that holds these claims' jobs, and their emails, which were due long ago and may be sent. */
function databaseWith(claims: Claim[], bytes = 1) {
  const batches = [claims];
  const rowOf = (id: string) => ({
    ...{ id, account_id: 'account', type: 'transactional', from: 'a@sender.test', to: [], cc: [], reply_to: [] },
    ...{ subject: '', message_id: '', on_uncertain: 'retry', tls: 'opportunistic', domain_tls: null, pool: null },
    ...{ html: null, text: '', fresh: false, body_bytes: bytes, file_bytes: 0, headers: [], attachments: [] },
    ...{ due_at: new Date(0), domain_id: 'domain', domain: 'sender.test', dkim_selector: 's' },
    ...{ dkim_private_key: Buffer.alloc(1), second_selector: null, second_key: null },
    ...{ revoked: false, suspended: false, suppressed: [] },
  });
  return {
    transaction: async () => {
      const claims = batches.shift() ?? [];
      return { taken: claims.length, claims };
    },
    query: async ({ text, values }: { text: string; values: [string[]] }) =>
      text.includes('due_at') ? values[0].map(rowOf) : [],
  };
}

const unreached: Failure = {
  phase: 'connect',
  reply: null,
  reason: 'it did not answer',
  enhanced: null,
  class: 'network',
  permanent: false,
};

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

t.test('a node looks for mail as soon as some is accepted', async (t) => {
  let wake: () => void = () => undefined;
  let looks = 0;
  const transaction = async () => {
    looks += 1;
    return { taken: 0, claims: [] };
  };
  startDispatcher(
    t,
    { transaction },
    {
      onWake: (woken) => {
        wake = woken;
      },
    },
  );
  await setImmediate();
  const before = looks;
  wake();
  await setImmediate();
  t.equal(looks, before + 1);
});

t.test(
  'how the node stands with sites is reported every five seconds, and arrivals are noted every minute',
  async (t) => {
    const told = { report: 0, arrivals: 0 };
    const tell = (what: keyof typeof told) => async () => {
      told[what] += 1;
    };
    mock.timers.enable({ apis: ['setInterval'] });
    t.teardown(() => mock.timers.reset());
    startDispatcher(t, databaseWith([]), { report: tell('report'), noteDeliveries: tell('arrivals') });
    // The first rounds come at once, one after the other.
    while (told.arrivals === 0) await setImmediate();
    const first = { ...told };
    for (let passed = 0; passed < 60; passed += 5) {
      mock.timers.tick(5_000);
      await setImmediate();
    }
    t.strictSame(told, { report: first.report + 12, arrivals: first.arrivals + 1 });
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

t.test('mail that waits in the line of a site leaves it with its destination, and the rest waits on', async (t) => {
  const shared: Site = { name: 'Shared', connections: 1, perMinute: null, perConnection: null };
  const apart: Site = { ...shared, name: 'a.test' };
  let isApart = false;
  const begun: string[] = [];
  const claims = ['a@a.test', 'b@b.test', 'c@a.test', 'd@a.test'].map((to) => buildClaim({ to: [to] }));
  const { dispatcher } = startDispatcher(
    t,
    // The first email is gone, which the site takes no time for.
    { ...databaseWith(claims), query: async () => [] },
    {
      standing: {
        siteOf: async (name) => (isApart && name === apart.name ? apart : shared),
        judge: () => {
          const moved = !isApart;
          isApart = true;
          return { verdict: 'nothing', moved };
        },
      },
      throttle: {
        turn: ({ name }) => ({ when: name === shared.name && begun.length > 0 ? 'after another' : 'now' }),
        begin: ({ name }) => {
          begun.push(name);
          return {} as Ticket;
        },
      },
    },
  );
  await eventually(async () => dispatcher.inHand === 1, 10_000);
  t.strictSame(begun, ['Shared', 'a.test', 'a.test']);
});

for (const [areOne, by, effect] of [
  [true, 'backoff', 'answers for other mail to it whose time is over'],
  [true, 'rate', 'says nothing about other mail to it that only waits for the rate of its site'],
  [false, 'backoff', 'says nothing about other mail to it, which may leave from another address'],
] as const)
  t.test(`that a destination was not reached ${effect}`, async (t) => {
    const longAgo = new Date(Date.now() - 3_600_000);
    const claims = [1, 2].map(() => buildClaim({ to: ['a@a.test'], emailId: newId(longAgo) }));
    const asked: string[] = [];
    const said: string[] = [];
    let state: 'open' | 'asked' | 'unreachable' = 'open';
    const { dispatcher } = startDispatcher(t, databaseWith(claims), {
      areOne,
      tools: {
        messages: {
          buildAhead: () => undefined,
          with: async ({ id }: { id: string }) => {
            asked.push(id);
            return unasked(['a@a.test'], unreached, new Date());
          },
        },
      },
      recorder: {
        add: async ({ attempts }) => {
          said.push(...attempts.map(({ reason }) => reason));
          return true;
        },
      },
      standing: { judge: (_site, _destination, { verdict }) => ({ verdict, moved: false }) },
      throttle: {
        turn: () => {
          if (state === 'open') return { when: 'now' };
          if (state === 'asked') return { when: 'after another' };
          return { when: 'later', at: performance.now() + 60_000, by, reason: 'it does not answer' };
        },
        spare: () => 1,
        begin: () => {
          state = 'asked';
          return {} as Ticket;
        },
        end: () => {
          state = 'unreachable';
        },
      },
    });
    await eventually(async () => asked.length > 0 && dispatcher.inHand === 0, 10_000);
    t.equal(asked.length, areOne ? 1 : 2);
    const ofOther = areOne ? /^Not tried by itself, .* a\.test .*: it did not answer/ : said[0];
    t.match(said, [/^it did not answer/, ...(by === 'rate' ? [] : [ofOther])]);
    t.equal(said.length, by === 'rate' ? 1 : 2, 'with a rate, the other one is tried in its turn');
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

t.test(
  'a node that is half full keeps less of each slow line here, and calls it back once the site is fast',
  async (t) => {
    const limits = { ...defaultLimits, inHand: 12, line: 4, lineIfHalfFull: 1 };
    const emails: Record<string, string[]> = {};
    const batch = (destination: string) => {
      const claims = Array.from({ length: 5 }, () => buildClaim({ destination }));
      emails[destination] = claims.map(({ emailId }) => emailId);
      return claims;
    };
    const batches = [batch('a.test'), batch('b.test')];
    const told: [string, string[]][] = [];
    let lineMs = 5_000;
    const { dispatcher } = startDispatcher(
      t,
      {
        transaction: async () => {
          const claims = batches.shift() ?? [];
          return { taken: claims.length, claims };
        },
        query: async ({ name, values }: { name: string; values: [string[]] }) => {
          told.push([name, values[0]]);
          return [];
        },
      },
      { limits, throttle: { waitFor: () => lineMs } },
    );
    await eventually(async () => told.length === 2 && dispatcher.inHand === 5, 10_000);
    t.strictSame(told.splice(0), [
      ['recipients-park', emails['a.test']?.slice(4)],
      ['recipients-park', emails['b.test']?.slice(1)],
    ]);
    lineMs = 0;
    await eventually(async () => told.length === 2, 10_000);
    t.strictSame(told, [
      ['recipients-call-back', emails['a.test']?.slice(4)],
      ['recipients-call-back', emails['b.test']?.slice(1)],
    ]);
  },
);

t.test('a line whose turn comes soon goes on then, not only when the node next looks at all lines', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const claims = [1, 2, 3].map(() => buildClaim({ to: ['a@a.test'] }));
  let at = performance.now() + 20;
  let begun = 0;
  const { dispatcher } = startDispatcher(
    t,
    { ...databaseWith(claims), query: async () => [] },
    {
      standing: { judge: () => ({ verdict: 'nothing', moved: false }) },
      throttle: {
        turn: () =>
          performance.now() < at ? { when: 'later', at, by: 'rate', reason: 'so many a minute' } : { when: 'now' },
        begin: () => {
          begun += 1;
          at = performance.now() + 20;
          return {} as Ticket;
        },
      },
    },
  );
  await eventually(async () => begun === 3 && dispatcher.inHand === 0, 10_000);
  t.pass('all of it');
});
