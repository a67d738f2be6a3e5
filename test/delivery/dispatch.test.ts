import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { unasked } from '../../src/delivery/attempt/attempt.ts';
import { defaultLimits } from '../../src/delivery/sites/limits.ts';
import type { Site } from '../../src/delivery/sites/providers.ts';
import type { Ticket } from '../../src/delivery/sites/throttle.ts';
import { newId } from '../../src/ids.ts';
import { buildClaim } from '../support/claim.ts';
import { eventually } from '../support/node.ts';
import { databaseWith, startDispatcher, unreached } from './dispatch-scene.ts';

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
