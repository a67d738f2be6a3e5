import t, { type Test } from 'tap';
import { startSink } from '../support/mx.ts';
import { message, resultOf, startMx, startScene, startScripted, twoHosts } from './scene.ts';

/** What it answers to the commands of the next message, in order. */
const limits: Record<string, string[]> = {
  'MAIL put off': ['451 4.7.0 message limit reached'],
  'DATA put off': ['250 ok', '250 ok', '452 4.4.5 Maximum number of messages per session exceeded.'],
  'RCPT too many': ['250 ok', '452 4.1.0 Too many recipients for this connection. RL000003'],
  'RCPT too many, on the first': ['250 ok', '452 4.5.3 Error: too many recipients'],
  'RCPT put off, whoever it is': ['250 ok', '450 4.3.2 Service currently unavailable'],
  'RCPT 421': ['250 ok', '421 4.7.0 closing'],
  'MAIL refused for the session': ['550 5.7.0 Only one message per session'],
  'MAIL refused because of their number': ['554 5.7.1 Too many messages for this connection'],
  'RCPT refused for the connection': ['250 ok', '554 5.5.3 Too many recipients for this connection'],
  'RCPT refused for this hour': ['250 ok', '550 5.7.1 Recipients per hour limit exceeded'],
};

for (const [name, answers] of Object.entries(limits)) {
  t.test(`a server's limit for one connection does not hold for a new one: ${name}`, async (t) => {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet();
      await peer.message();
      for (const answer of answers) await peer.answer(answer);
    });
    const outcomes: string[] = [];
    for (let count = 0; count < 4; count++) outcomes.push(resultOf(await send()).outcome);
    t.same(
      outcomes,
      Array.from({ length: 4 }, () => 'delivered'),
    );
    t.equal(mx.peers.length, 4);
  });

  t.test(`the answer on a new connection decides, and the connection stays as usable as before: ${name}`, async (t) => {
    const { send, mx, transport } = await startScripted(t, async (peer, number) => {
      await peer.greet();
      if (number === 0) await peer.message();
      for (const answer of answers) await peer.answer(answer);
    });
    t.equal(resultOf(await send()).outcome, 'delivered');
    const { sessions } = await send();
    const outcome = name.includes('refused') ? 'bounced' : 'deferred';
    t.match(sessions, [{ reused: false, results: [{ outcome }] }]);
    t.equal(sessions.length, 1);
    t.equal(mx.peers.length, 2, 'one more connection');
    t.equal(transport.pool.size, name === 'RCPT 421' ? 0 : 1, 'it may carry another message');
  });
}

t.test('a server that takes mail of new clients only once they have hung up keeps back one message', async (t) => {
  const { send, mx } = await startScripted(t, async (peer, number) => {
    await peer.greet();
    if (number > 0) return void (await peer.message());
    // Postfix's postscreen, if it tests clients beyond the greeting.
    for (;;) for (const answer of ['250 ok', '450 4.3.2 Service currently unavailable']) await peer.answer(answer);
  });
  t.match(resultOf(await send()), { outcome: 'deferred', enhanced: '4.3.2' });
  t.match(resultOf(await send()), { outcome: 'delivered' });
  t.equal(mx.peers.length, 2);
});

t.test('a message that was begun on a kept connection is not begun again on a new one', async (t) => {
  const { send, mx } = await startScripted(t, async (peer, number) => {
    await peer.greet();
    await peer.message();
    if (number > 0) return;
    await peer.answer('250 ok');
    await peer.answer('250 ok');
    await peer.answer('452 4.5.3 too many recipients in this session');
    await peer.answer('354 go on');
  });
  const to = ['a@example.test', 'b@example.test'];
  t.equal(resultOf(await send()).outcome, 'delivered');
  const { sessions } = await send({ to, beforeDot: () => false });
  t.match(sessions, [{ reused: true, results: [{ outcome: 'deferred' }, { outcome: 'deferred' }] }]);
  t.equal(mx.peers.length, 1);
});

t.test('a refusal because of our name is as final on a used connection as on a new one', async (t) => {
  const isBad = (raw: Buffer) => raw.includes('buy now');
  for (const reply of [
    '554 5.7.1 [CS01] Message rejected due to local policy',
    '550 5.7.1 likely suspicious due to the very low reputation of the sending domain',
    '554 5.7.1 Message blocked using zen.spamhaus.org',
  ]) {
    const sink = await startSink({ onMessage: ({ raw }) => (isBad(raw) ? reply : null) });
    t.teardown(() => sink.close());
    const { send } = await startScene(t, sink.port);
    t.match(resultOf(await send({ message: message('buy now\r\n') })), { outcome: 'bounced' }, `new: ${reply}`);
    t.match(resultOf(await send()), { outcome: 'delivered' });
    t.match(resultOf(await send({ message: message('buy now\r\n') })), { outcome: 'bounced' }, `kept: ${reply}`);
    t.equal(sink.connections, 1);
  }
});

/** Accepts everything, and records how many recipients each message had. */
async function startLimits(t: Test, limits: string) {
  const sizes: number[] = [];
  const scene = await startScripted(t, async (peer) => {
    await peer.greet(limits, 'PIPELINING');
    for (;;) {
      await peer.answer('250 ok');
      let size = 0;
      let line = await peer.line();
      for (; line.startsWith('RCPT'); line = await peer.line()) {
        size += 1;
        peer.send('250 ok\r\n');
      }
      sizes.push(size);
      peer.send('354 go\r\n');
      await peer.until('\r\n.\r\n');
      peer.send('250 ok\r\n');
    }
  });
  return { ...scene, sizes };
}

t.test('the limits that a server announces are kept (LIMITS, RFC 9422)', async (t) => {
  const to = Array.from({ length: 7 }, (_, at) => `r${at}@example.test`);
  const { send, mx, sizes } = await startLimits(t, 'LIMITS RCPTMAX=3 MAILMAX=4');
  const delivery = await send({ to });
  for (const recipient of to) t.equal(resultOf(delivery, recipient).outcome, 'delivered');
  t.same(sizes, [3, 3, 1]);
  t.equal(mx.peers.length, 1);
  t.match((await send()).sessions, [{ reused: true }], 'the fourth');
  t.match((await send()).sessions, [{ reused: false }], 'the fifth');
});

t.test('recipients for whom a connection has no room get another one to the same host', async (t) => {
  const to = Array.from({ length: 9 }, (_, at) => `r${at}@example.test`);
  const { send, mx, sizes } = await startLimits(t, 'LIMITS MAILMAX=2 RCPTMAX=2');
  const delivery = await send({ to });
  for (const recipient of to) t.equal(resultOf(delivery, recipient).outcome, 'delivered');
  t.same(sizes, [2, 2, 2, 2, 1]);
  t.equal(mx.peers.length, 3);
});

t.test(
  'a host that defers mail is not asked again over another connection, however few recipients one can carry',
  async (t) => {
    const to = Array.from({ length: 4 }, (_, at) => `r${at}@example.test`);
    for (const answers of [['451 4.3.0 local error'], ['250 ok', '250 ok', '451 4.3.0 local error']]) {
      const first = await startMx(t, async (peer) => {
        await peer.greet('LIMITS MAILMAX=1 RCPTMAX=1');
        for (const answer of answers) await peer.answer(answer);
      });
      const { port } = first;
      const other = await startSink({ host: '127.0.0.2', port });
      t.teardown(() => other.close());
      const alone = await startScene(t, port);
      t.equal((await alone.send({ to })).sessions.length, 2, 'one, and that the others did not get their turn');
      t.equal(first.peers.length, 1);
      const { send } = await startScene(t, port, twoHosts);
      const delivery = await send({ to });
      for (const recipient of to) t.equal(resultOf(delivery, recipient).outcome, 'delivered');
      t.equal(first.peers.length, 2);
    }
  },
);

t.test('a host that asks for less mail is not dialled for each recipient who did not get a turn', async (t) => {
  const to = Array.from({ length: 5 }, (_, at) => `r${at}@example.test`);
  for (const answers of [
    ['451 4.7.1 rate limit exceeded, try again later'],
    ['250 ok', '452 4.5.3 too many recipients'],
    ['250 ok', '250 ok', '451 4.7.1 rate limit exceeded, try again later'],
  ]) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet('LIMITS MAILMAX=1 RCPTMAX=1');
      for (const answer of answers) await peer.answer(answer);
    });
    const delivery = await send({ to });
    for (const recipient of to) t.match(resultOf(delivery, recipient), { outcome: 'deferred', class: 'rate' });
    t.equal(mx.peers.length, 1, answers.join());
  }
});

t.test('recipients for whom the last message of a connection had no room get another connection', async (t) => {
  const to = ['a@example.test', 'b@example.test', 'c@example.test'];
  const { send, mx } = await startScripted(t, async (peer, number) => {
    await peer.greet('LIMITS MAILMAX=1');
    await peer.message({ rcpt: number === 0 ? ['250 ok', '250 ok', '452 4.5.3 too many recipients'] : ['250 ok'] });
  });
  const delivery = await send({ to });
  for (const recipient of to) t.equal(resultOf(delivery, recipient).outcome, 'delivered');
  t.equal(mx.peers.length, 2);
});

t.test(
  'recipients that a host cannot take are not tried there again, however many connections there are',
  async (t) => {
    const { send } = await startScripted(t, async (peer) => {
      await peer.greet('LIMITS MAILMAX=1 RCPTMAX=1');
      await peer.message();
    });
    const delivery = await send({ to: ['a@example.test', 'ü@example.test', 'b@example.test'] });
    t.equal(resultOf(delivery, 'a@example.test').outcome, 'delivered');
    t.equal(resultOf(delivery, 'b@example.test').outcome, 'delivered');
    t.match(resultOf(delivery, 'ü@example.test'), { outcome: 'bounced', phase: 'local' });
  },
);

t.test('a kept connection that had enough is replaced by a new one, even if it deferred one recipient', async (t) => {
  for (const limits of ['X', 'LIMITS RCPTMAX=1']) {
    const first = await startMx(t, async (peer) => {
      await peer.greet(limits);
      await peer.message();
      await peer.answer('451 4.7.0 message limit reached');
    });
    const worse = await startSink({ host: '127.0.0.2', port: first.port });
    t.teardown(() => worse.close());
    const { send } = await startScene(t, first.port, twoHosts);
    t.equal(resultOf(await send()).outcome, 'delivered');
    const delivery = await send({ to: ['ü@example.test', 'b@example.test'] });
    t.match(resultOf(delivery), { outcome: 'delivered' });
    t.match(resultOf(delivery, 'ü@example.test'), { outcome: 'bounced', phase: 'local' });
    t.equal(first.peers.length, 2);
    t.equal(worse.connections, 0, 'nothing counts against the first host');
  }
});

t.test(
  'recipients who did not get a turn are deferred if one host takes mail, even if there is no other',
  async (t) => {
    const slow = 300;
    const { port } = await startMx(t, async (peer) => {
      await new Promise((resolve) => setTimeout(resolve, slow + 50));
      await peer.greet('LIMITS MAILMAX=1 RCPTMAX=1');
      await peer.message();
    });
    const zone = { ...twoHosts, 'mx2.example.test': 'NXDOMAIN' as const };
    const { send } = await startScene(t, port, zone, { deadlines: { transaction: slow } });
    const delivery = await send({ to: ['a@example.test', 'b@example.test'] });
    t.equal(resultOf(delivery).outcome, 'deferred');
  },
);

t.test('recipients who did not get a turn because the server had enough wait for that reason', async (t) => {
  const to = Array.from({ length: 9 }, (_, at) => `r${at}@example.test`);
  const { send, mx } = await startScripted(t, async (peer) => {
    await peer.greet('LIMITS RCPTMAX=2');
    await peer.message({ rcpt: ['250 ok', '250 ok'] });
    for (;;) await peer.answer('451 4.7.0 no more');
  });
  const delivery = await send({ to });
  const results = to.map((recipient) => resultOf(delivery, recipient));
  t.same(
    results.map(({ outcome }) => outcome),
    to.map((_, at) => (at < 2 ? 'delivered' : 'deferred')),
  );
  // Not `other`, which is what we report if this server ends an attempt itself: that would prove nothing.
  for (const { class: kind } of results.slice(2)) t.not(kind, 'other');
  t.equal(mx.peers.length, 1);
});

t.test('what is no limit is ignored', async (t) => {
  const to = Array.from({ length: 7 }, (_, at) => `r${at}@example.test`);
  for (const words of [
    'LIMITS',
    'LIMITS RCPTMAX=0 MAILMAX=',
    'LIMITS RCPTMAX=1000000 MAILMAX=1x',
    'LIMITS RCPTMAX 3',
  ]) {
    const { send, mx, sizes } = await startLimits(t, words);
    await send({ to });
    await send();
    t.same(sizes, [7, 1], words);
    t.equal(mx.peers.length, 1);
  }
});
