import t from 'tap';
import { type Provider, type Site, siteOf, wellKnown } from '../../src/delivery/sites/providers.ts';
import { Throttle, type Verdict } from '../../src/delivery/sites/throttle.ts';

const site: Site = { name: 'a.test', connections: 20, perMinute: null, perConnection: null };

function start(options: { nodes?: number } = {}) {
  let now = 0;
  const throttle = new Throttle({
    backoffMs: 1_000,
    longestMs: 60_000,
    nodes: () => options.nodes ?? 1,
    now: () => now,
  });
  return {
    throttle,
    pass: (ms: number) => (now += ms),
    /** As many attempts as may start now. */
    fill: (of = site) => {
      const tickets = [];
      while (throttle.turn(of).when === 'now') tickets.push(throttle.begin(of));
      return tickets;
    },
    end: (tickets: ReturnType<Throttle['begin']>[], verdict: Verdict) => {
      for (const ticket of tickets) throttle.end(ticket, verdict, `reply: ${verdict}`);
    },
    state: () => throttle.states()[0],
  };
}

t.test('a site starts with a few connections and gets one more with each success', async (t) => {
  const { fill, end, throttle } = start();
  let tickets = fill();
  t.equal(tickets.length, 5);
  t.same(throttle.turn(site), { when: 'after another' });
  end(tickets, 'fine');
  tickets = fill();
  t.equal(tickets.length, 10);
  end(tickets, 'fine');
  end(fill(), 'fine');
  t.equal(fill().length, 20, 'and no more than the provider allows');
});

t.test(
  '"too much" halves the limit once, however many servers say so at the same time, and then it grows slowly',
  async (t) => {
    const { fill, end, pass, state } = start();
    end(fill(), 'fine');
    const tickets = fill();
    t.equal(tickets.length, 10);
    pass(10);
    end(tickets, 'slower');
    t.match(state(), { window: 5, reason: /wanted less.*5 connections instead of 10/, lastReply: 'reply: slower' });
    const next = fill();
    t.equal(next.length, 5);
    pass(10);
    end(next, 'fine');
    t.equal(fill().length, 5, 'one more per five successes, not per success');
  },
);

t.test('if a single connection is still too much, there is none for a while', async (t) => {
  const { fill, end, pass, throttle } = start();
  for (let rounds = 0; rounds < 3; rounds += 1) {
    end(fill(), 'slower');
    pass(1);
  }
  t.match(throttle.turn(site), { when: 'later', reason: /wants less/ });
});

t.test('a site that cannot be reached is left alone, longer each time, and tried with one message', async (t) => {
  const { fill, end, pass, throttle, state } = start();
  const first = fill();
  pass(100);
  end(first, 'unreachable');
  t.same(throttle.turn(site), { when: 'later', at: 1_100, by: 'backoff', reason: 'the server could not be reached' });
  t.equal(state()?.backoffUntil, 1_100, 'five failures at the same time count once');
  const waits: number[] = [];
  for (let round = 0; round < 8; round += 1) {
    pass(100_000);
    const tickets = fill();
    t.equal(tickets.length, 1, 'one probe');
    pass(1);
    end(tickets, 'unreachable');
    const turn = throttle.turn(site);
    if (turn.when === 'later') waits.push(turn.at - 100 - (round + 1) * 100_001);
  }
  t.same(waits, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  pass(100_000);
  end(fill(), 'fine');
  t.equal(fill().length, 5, 'once it answers, it starts anew');
});

t.test('a site that takes mail, but lets in only some connections, gets fewer instead of none', async (t) => {
  const { fill, end, pass, throttle, state } = start();
  const first = fill();
  pass(10);
  end(first.slice(2), 'unreachable');
  t.equal(throttle.turn(site).when, 'later', 'nobody has been let in yet');
  pass(200);
  end(first.slice(0, 2), 'fine');
  t.match(
    state(),
    { window: 2, backoffUntil: null, reason: /not all connections/ },
    'those that were under way meanwhile',
  );
  pass(1_000);
  end(fill(), 'fine');
  const tooMany = fill();
  t.equal(tooMany.length, 3);
  pass(10);
  end(tooMany.slice(2), 'unreachable');
  t.match(state(), { window: 1, backoffUntil: null, reason: /not all connections.*: 1 connection instead of 3/ });
  end(tooMany.slice(0, 2), 'fine');
  t.equal(fill().length, 2, 'the others go on at once');
});

t.test('a site that goes down costs only half as many attempts again as were under way', async (t) => {
  const { fill, end, pass, throttle } = start();
  for (let round = 0; round < 3; round += 1) end(fill(), 'fine');
  let lost = 0;
  for (let round = 0; round < 20; round += 1) {
    const tickets = fill();
    lost += tickets.length;
    pass(10);
    end(tickets, 'unreachable');
  }
  t.equal(lost, 20 + 10);
  t.match(throttle.turn(site), { when: 'later', reason: 'the server could not be reached' });
  pass(100_000);
  t.equal(fill().length, 1, 'one probe');

  const slow = start();
  for (let round = 0; round < 3; round += 1) slow.end(slow.fill(), 'fine');
  const tickets = slow.fill();
  slow.pass(30_000);
  slow.end(tickets, 'unreachable');
  t.equal(slow.throttle.turn(site).when, 'later', 'that it took mail long before says nothing');
});

t.test('what this host could not even try pauses a site, and is not held against it', async (t) => {
  const { fill, end, pass, throttle, state } = start();
  end(fill(), 'fine');
  for (let round = 0; round < 4; round += 1) {
    const tickets = fill();
    t.equal(tickets.length, 10, 'as many as before');
    end(tickets, 'untried');
    const reason = 'this server could not open a connection';
    const at = round * 1_000 + 1_000;
    t.same(throttle.turn(site), { when: 'later', at, by: 'backoff', reason }, 'the pause does not grow');
    pass(1_000);
  }
  end(fill().slice(0, 1), 'fine');
  t.match(state(), { window: 11, reason: null, backoffUntil: null });
  const down = start();
  for (let round = 0; round < 2; round += 1) {
    const tickets = down.fill();
    down.pass(5_000);
    down.end(tickets, 'unreachable');
    down.pass(2_000 - round * 2_000);
  }
  const backoff = down.throttle.turn(site);
  t.match(backoff, { at: 14_000 });
  down.end([down.throttle.begin(site)], 'untried');
  t.same(down.throttle.turn(site), backoff, 'a longer back-off stays what it is');
});

t.test('what a site wanted is not forgotten for what this host could not try', async (t) => {
  const { fill, end, pass, state } = start();
  end(fill(), 'fine');
  const tickets = fill();
  pass(10);
  end(tickets, 'slower');
  const { reason } = state() ?? {};
  t.match(reason, /wanted less/);
  end(fill(), 'untried');
  pass(1_000);
  end(fill().slice(0, 1), 'fine');
  t.match(state(), { backoffUntil: null, reason });
});

t.test('an operator can give a site its chance immediately', async (t) => {
  const { fill, end, pass, throttle } = start();
  end(fill(), 'unreachable');
  t.equal(throttle.turn(site).when, 'later');
  throttle.forget('a.test');
  t.equal(throttle.turn(site).when, 'now');
  pass(1);
  end(fill(), 'unreachable');
  t.match(throttle.turn(site), { at: 1_001 }, 'its next back-off is the first again');
  throttle.forget('never seen');
});

t.test('an outcome that says nothing about the site changes only its last reply', async (t) => {
  const { fill, end, state } = start();
  end(fill(), 'nothing');
  t.match(state(), { window: 5, running: 0, reason: null, lastReply: 'reply: nothing' });
});

t.test('the limits are for all nodes together', async (t) => {
  const { fill, end } = start({ nodes: 4 });
  for (let rounds = 0; rounds < 5; rounds += 1) end(fill(), 'fine');
  t.equal(fill().length, 5);
  const crowd = start({ nodes: 50 });
  t.equal(crowd.fill().length, 1, 'at least one');
});

t.test('a limit of messages per minute allows exactly that many', async (t) => {
  const slow: Site = { name: 'slow.test', connections: 20, perMinute: 60, perConnection: null };
  const { fill, end, pass, throttle } = start();
  let sent = 0;
  for (let ms = 0; ms < 60_000; ms += 50) {
    const tickets = fill(slow);
    sent += tickets.length;
    end(tickets, 'fine');
    pass(50);
  }
  t.equal(sent, 60);
  t.match(throttle.turn(slow), { when: /now|later/ });
  const shared = start({ nodes: 2 });
  let half = 0;
  for (let ms = 0; ms < 60_000; ms += 50) {
    half += shared.fill(slow).length;
    shared.end(Array(20).fill({ name: 'slow.test', startedAt: 0 }), 'nothing');
    shared.pass(50);
  }
  t.equal(half, 30, 'half of it for each of two nodes');
  const last = start();
  t.equal(last.throttle.spare(slow), 1, 'one for mail whose time is over');
  last.throttle.begin(slow);
  t.equal(last.throttle.spare(slow), 0, 'and no more until the interval of the rate has passed');
  t.equal(last.throttle.spare(site), 20);
  const spared = start();
  for (const one of [slow, site]) {
    for (const ticket of spared.fill(one)) spared.throttle.cancel(ticket);
    t.match(spared.throttle.turn(one), { when: 'now' }, 'what was not sent after all does not count');
  }
});

t.test('what a limit of messages per minute allowed while nothing was sent is not sent at once later', async (t) => {
  const slow: Site = { name: 'slow.test', connections: 20, perMinute: 60, perConnection: null };
  const { fill, end, pass, throttle } = start();
  end(fill(slow), 'fine');
  pass(3_000_000);
  t.equal(fill(slow).length, 1);
  t.match(throttle.turn(slow), {
    when: 'later',
    at: 3_001_000,
    by: 'rate',
    reason: 'slow.test gets 60 messages a minute',
  });
  t.equal(throttle.describe(slow), 'slow.test: 1 under way, 6 at once for now, at most 20, 60 messages a minute');
});

t.test('how many are under way, and how many more there may be, whatever became of the others', async (t) => {
  const { throttle } = start();
  const tickets = Array.from({ length: 4 }, () => throttle.begin(site));
  const stand = () => [throttle.record(site).running, throttle.spare(site)];
  t.strictSame(stand(), [4, 16]);
  for (const ticket of tickets.splice(0, 1)) throttle.end(ticket, 'fine', null);
  t.strictSame(stand(), [3, 17]);
  for (const ticket of tickets.splice(0, 1)) throttle.cancel(ticket);
  t.strictSame(stand(), [2, 18]);
  for (let n = 0; n < 30; n += 1) throttle.begin(site);
  t.equal(throttle.spare(site), 0);
});

t.test('how long a line would take is estimated from how fast the site was lately', async (t) => {
  const { throttle, pass } = start();
  t.equal(throttle.waitFor(site, 60), 60_000, 'at first one a second');
  const sendFor = (rounds: number, ms: number) => {
    for (let round = 0; round < rounds; round += 1) {
      const ticket = throttle.begin(site);
      pass(ms);
      throttle.end(ticket, 'fine', null);
    }
  };
  const isAbout = (ms: number) => Math.abs(throttle.waitFor(site, 1_000) / ms - 1) < 0.1;
  sendFor(100, 100);
  t.ok(isAbout(100_000), 'ten a second');
  sendFor(10, 50);
  t.notOk(isAbout(50_000), 'a few that are faster prove nothing');
  sendFor(100, 50);
  t.ok(isAbout(50_000), 'many do');
  sendFor(200, 60_000);
  t.equal(throttle.waitFor(site, 1_000), 5_000_000, 'and nothing is said to take more than five seconds a message');
});

t.test('an email with a copy for each reader counts as that many messages', async (t) => {
  const slow: Site = { name: 'slow.test', connections: 20, perMinute: 60, perConnection: null };
  const { fill, pass, throttle } = start();
  const [ticket] = fill(slow);
  if (!ticket) throw new Error('none may begin');
  pass(200);
  throttle.end(ticket, 'fine', null, 10);
  pass(9_700);
  t.strictSame(fill(slow), [], 'ten of them have ten seconds');
  pass(100);
  t.equal(fill(slow).length, 1);
  const two = start();
  for (const ticket of two.fill(slow)) two.throttle.end(ticket, 'fine', null, 2);
  two.pass(1_999);
  t.strictSame(two.fill(slow), [], 'and two of them two');
  const [fast] = fill();
  if (!fast) throw new Error('none may begin');
  throttle.end(fast, 'fine', null, 10);
  t.match(throttle.turn(site), { when: 'now' }, 'without a rate nothing waits');
});

t.test('sites that nobody sends to are forgotten after an hour', async (t) => {
  const { fill, end, pass, throttle } = start();
  end(fill(), 'fine');
  pass(3_599_000);
  t.equal(throttle.states().length, 1);
  end([throttle.begin(site)], 'fine');
  pass(2_000);
  t.equal(throttle.states().length, 1, 'it was used again');
  pass(3_600_000);
  t.equal(throttle.states().length, 0);
});

t.test('an operator sees what holds a site back for as long as it does', async (t) => {
  const { fill, end, pass, state } = start();
  const tickets = fill();
  pass(1);
  end(tickets, 'unreachable');
  t.match(state(), { backoffUntil: 1_001, reason: 'the server could not be reached' });
  pass(1_000);
  t.match(state(), { backoffUntil: null, reason: 'the server could not be reached' }, 'the probe is still to come');
  pass(1);
  end(fill(), 'fine');
  t.match(state(), { window: 5, reason: 'the server could not be reached' });
  // It is no longer in its slow start.
  for (let round = 0; round < 100; round += 1) end(fill(), 'fine');
  t.match(state(), { window: 20, reason: null });
});

t.test('from two connections a site that wants less comes down to one, and from one to none', async (t) => {
  for (const [verdict, one, none] of [
    ['slower', /wanted less.*: 1 connection instead of 2/, 'the server wants less mail at a time'],
    ['unreachable', /not all connections: 1 connection instead of 2/, 'the server could not be reached'],
  ] as const) {
    for (const [nodes, expected] of [
      [10, { window: 1, backoffUntil: null, reason: one }],
      [20, { window: 1, backoffUntil: 1_001, reason: none }],
    ] as const) {
      const { fill, end, pass, state, throttle } = start({ nodes });
      const tickets = fill();
      end([throttle.begin(site)], 'fine');
      pass(1);
      end(tickets, verdict);
      t.match(state(), expected, `${verdict}, ${nodes} nodes`);
    }
  }
});

t.test('domains belong to whoever runs their mail exchanger', async (t) => {
  const own: Provider = { name: 'Ours', mx: ['mx.inside.example'], connections: 2, perMinute: 10, perConnection: 5 };
  const table: [string, string | null, object][] = [
    ['gmail.com', 'gmail-smtp-in.l.google.com', { name: 'Google' }],
    ['shop.example', 'aspmx.l.google.com', { name: 'Google' }],
    ['shop.example', 'shop-example.mail.protection.outlook.com', { name: 'Microsoft' }],
    ['orange.fr', 'smtp-in.orange.fr', { name: 'Orange', connections: 3 }],
    ['evil.example', 'notgoogle.com', { name: 'notgoogle.com' }],
    ['a.example', 'mx1.host.co.uk', { name: 'host.co.uk', connections: 20, perMinute: null, perConnection: null }],
    ['b.example', 'mail.b.example', { name: 'b.example' }],
    ['c.example', null, { name: 'c.example' }],
    ['d.example', 'mx.inside.example', { name: 'Ours', connections: 2, perMinute: 10, perConnection: 5 }],
    ['e.example', 'localhost', { name: 'localhost' }],
  ];
  for (const [destination, host, expected] of table) {
    t.match(siteOf(destination, host, [own, ...wellKnown]), expected, `${destination} ${host}`);
  }
});
