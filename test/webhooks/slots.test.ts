import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { defaultLimits, type Limits, Slots } from '../../src/webhooks/slots.ts';

const works = { works: true, durationMs: 20, url: 'https://a.test/' };

/** Slots on a clock that stands still until it is told to go on. */
function open(t: Test, limits: Partial<Limits>) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let aged = 0;
  const slots = new Slots({ ...defaultLimits, ...limits }, () => (aged += 1));
  /** A call to an endpoint of this account, which it takes if there is room. */
  const begin = (accountId: string, { webhookId = `endpoint of ${accountId}`, failing = false } = {}) => {
    const call = { webhookId, accountId, failing };
    if (!slots.hasRoomFor(call)) return null;
    slots.take(call);
    return call;
  };
  /** As many calls as have room. */
  const fill = (accountId: string, options: { webhookId?: string; failing?: boolean } = {}) => {
    const calls = [];
    for (let call = begin(accountId, options); call; call = begin(accountId, options)) calls.push(call);
    return calls;
  };
  return { slots, begin, fill, aged: () => aged };
}

t.test('a call counts among those that have just begun for 0.3 s, and among all until it is over', async (t) => {
  const { slots, begin, aged } = open(t, { running: 2, open: 100 });
  const [first, second] = [begin('a'), begin('b')];
  t.notOk(slots.free);
  t.equal(begin('c'), null);
  mock.timers.tick(299);
  t.notOk(slots.free);
  mock.timers.tick(1);
  t.ok(slots.free);
  t.equal(aged(), 2, 'the next may begin');
  t.strictSame([slots.of('endpoint of a'), slots.of('endpoint of b')], [1, 1], 'both are under way');
  const [third] = [begin('c'), begin('d')];
  t.notOk(slots.free);
  for (const call of [first, second]) if (call) slots.give(call, works);
  t.notOk(slots.free, 'that others end makes no room among the young');
  if (third) slots.give(third, works);
  t.ok(slots.free);
  mock.timers.tick(300);
  t.equal(aged(), 3, 'a call that is over does not age');
});

t.test('an account leaves as many calls to the others as it has', async (t) => {
  const { slots, fill } = open(t, { open: 16, perEndpoint: 100, perGoodEndpoint: 100 });
  const calls = fill('a');
  t.equal(calls.length, 8);
  t.equal(fill('b').length, 4);
  t.equal(fill('c').length, 2);
  for (const call of calls.splice(0, 4)) slots.give(call, null);
  t.equal(fill('a').length, 1, 'with 5 of 16, as 5 are left');
  for (const call of calls) slots.give(call, null);
  t.equal(slots.of('endpoint of a'), 1);
  t.equal(fill('b').length, 3, 'with 7, as 6 are left');
});

t.test(
  'calls to failing endpoints, of one account and of all, leave room for each other and for the rest',
  async (t) => {
    const { slots, fill } = open(t, { open: 1_000, openToFailing: 8, perEndpoint: 100, perGoodEndpoint: 100 });
    const calls = fill('a', { failing: true });
    t.equal(calls.length, 4);
    t.equal(fill('b', { failing: true }).length, 2);
    t.equal(fill('a', { webhookId: 'another' }).length, 100, 'its endpoint that works is not held up by the other');
    for (const call of calls) slots.give(call, { ...works, works: false });
    t.equal(fill('c', { failing: true }).length, 3);
  },
);

t.test('an endpoint gets more calls at once when it answers well, and not when nothing is known of it', async (t) => {
  for (const [answered, most] of [
    [works, 32],
    [null, 4],
    [{ ...works, works: false }, 4],
  ] as const) {
    const { slots, fill } = open(t, {});
    const calls = fill('a');
    for (let ended = 0; ended < 400; ended += 1) {
      const [call] = calls.splice(0, 1);
      if (call) slots.give(call, answered);
      calls.push(...fill('a'));
    }
    t.equal(calls.length, most, JSON.stringify(answered));
    t.equal(fill('b').length, 4);
    mock.timers.reset();
  }
});
