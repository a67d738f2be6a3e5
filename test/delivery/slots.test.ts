import { mock } from 'node:test';
import t from 'tap';
import type { Site } from '../../src/delivery/sites/providers.ts';
import { Slots } from '../../src/delivery/sites/slots.ts';
import { Throttle } from '../../src/delivery/sites/throttle.ts';

const ignore = () => undefined;

const site = (name: string): Site => ({ name, connections: 100, perMinute: null, perConnection: null });

t.test('unresponsive sites leave room for those that accept mail, and for first attempts', async (t) => {
  let now = 0;
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000, now: () => now });
  const slots = new Slots({ running: 1_000, open: 80 }, throttle, ignore, ignore);
  t.teardown(() => {
    for (const one of held) slots.cancel(one);
  });
  const held: ReturnType<Slots['take']>[] = [];
  const takeAll = (one: Site, most = 1_000) => {
    let many = 0;
    for (; many < most && slots.freeFor(one); many++) held.push(slots.take(one));
    return many;
  };
  const known = site('known.test');
  slots.give(slots.take(known), 'fine', '250 taken', 1);

  t.equal(slots.roomFor(site('silent.test')), 40, 'also for mail whose time is over');
  t.equal(takeAll(site('silent.test')), 40, 'half of them');
  t.equal(slots.roomFor(site('silent0.test')), 1);
  const firsts = Array.from({ length: 100 }, (_, n) => takeAll(site(`silent${n}.test`)));
  t.equal(
    firsts.reduce((sum, one) => sum + one),
    30,
    'one each, up to seven eighths',
  );
  t.ok(firsts.every((one) => one <= 1));
  t.equal(slots.roomFor(site('silent.test')), 0);
  t.equal(slots.roomFor(known), 10);
  t.equal(takeAll(known), 10, 'the rest is for those that accepted mail recently');
  t.notOk(slots.free);
  t.equal(slots.roomFor(known), 0);

  for (const one of held.splice(70)) slots.give(one, 'fine', '250 taken', 1);
  now = 900_000;
  t.equal(takeAll(known), 0, 'a quarter of an hour later a site has to show again that it does');
  for (const one of held.splice(35)) slots.give(one, 'nothing', null, 1);
  t.equal(takeAll(known), 5);
});

t.test(
  'the number of connections that a site may have is the current one, not that of when the slot was taken',
  async (t) => {
    const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
    const slots = new Slots({ running: 10, open: 10 }, throttle, ignore, ignore);
    const [first, second] = [slots.take(site('a.test')), slots.take(site('a.test'))];
    const before = second.connections;
    slots.give(first, 'fine', '250 ok', 1);
    t.equal(second.connections, before + 1);
    slots.cancel(second);
  },
);

t.test('a site that waits only for others like it is told as soon as one of their attempts ends', async (t) => {
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
  const told: string[] = [];
  const taken: ReturnType<Slots['take']>[] = [];
  const slots = new Slots({ running: 100, open: 8 }, throttle, ignore, (name) => {
    told.push(name);
    if (name !== 'gone.test') taken.push(slots.take(site(name)));
  });
  const silent = Array.from({ length: 7 }, (_, n) => slots.take(site(`silent${n}.test`)));
  t.teardown(() => {
    for (const slot of [...silent, ...taken]) slots.cancel(slot);
  });
  slots.give(slots.take(site('known.test')), 'fine', '250 taken', 1);
  for (const name of ['gone.test', 'a.test', 'b.test', 'a.test', 'known.test']) slots.noteWaiting(site(name));
  t.same(told, []);
  const end = () => {
    const slot = silent.pop();
    if (slot) slots.give(slot, 'nothing', null, 1);
  };
  end();
  t.same(told, ['gone.test', 'a.test'], 'in their order, as far as there is room');
  end();
  end();
  t.same(told, ['gone.test', 'a.test', 'b.test'], 'each once');
  slots.noteWaiting(site('c.test'));
  end();
  t.same(told.length, 3, 'while there is room nobody waits');
});

t.test('what a site may begin at once, without being asked each time, is within what the node may', async (t) => {
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
  const slots = new Slots({ running: 4, open: 100 }, throttle, ignore, ignore);
  const held = [slots.take(site('a.test'))];
  t.teardown(() => {
    for (const one of held) slots.cancel(one);
  });
  t.equal(slots.roomFor(site('b.test')), 3);
  // It is asked, and the answer used later: others may have begun meanwhile.
  for (let n = 0; n < 5; n += 1) held.push(slots.take(site('a.test')));
  t.equal(slots.roomFor(site('b.test')), 0);
});

t.test('a slot in which no attempt was made leaves nothing behind at its site', async (t) => {
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
  const slots = new Slots({ running: 100, open: 100 }, throttle, ignore, ignore);
  for (let n = 0; n < 10; n += 1) slots.cancel(slots.take(site('a.test')));
  t.strictSame(throttle.record(site('a.test')), { proven: false, running: 0 });
  t.strictSame(throttle.turn(site('a.test')), { when: 'now' });
});

t.test('an attempt counts among the young for a moment, and among the open ones until it is over', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let freed = 0;
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
  const slots = new Slots({ running: 2, open: 3 }, throttle, () => (freed += 1), ignore);
  const take = () => slots.take(site('a.test'));
  const [first, second] = [take(), take()];
  t.notOk(slots.free, 'two are young');
  slots.cancel(first);
  t.ok(slots.free);
  t.equal(freed, 1);
  const third = take();
  t.notOk(slots.free);
  mock.timers.tick(300);
  t.ok(slots.free, 'none is young');
  t.equal(freed, 2);
  const fourth = take();
  t.notOk(slots.free, 'three are open');
  mock.timers.tick(300);
  t.notOk(slots.free);
  slots.give(second, 'nothing', null, 1);
  t.ok(slots.free);
  t.equal(freed, 3);
  for (const slot of [third, fourth]) slots.cancel(slot);
  t.equal(freed, 3, 'there were some already');
  const last = [take(), take()];
  t.notOk(slots.free, 'those that are over count no longer, and no less than nothing');
  for (const slot of last) slots.cancel(slot);
  mock.timers.tick(300);
  take();
  t.ok(slots.free, 'nor does their time end later');
  take();
  t.notOk(slots.free);
});
