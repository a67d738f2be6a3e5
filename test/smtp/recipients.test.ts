import t, { type Test } from 'tap';
import { type Peer, type Sink, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { message, resultOf, startMx, startScene, startScripted, twoHosts } from './scene.ts';

const accept = async (peer: Peer) => {
  await peer.greet();
  await peer.message();
};

/** What the server says to a recipient instead of taking it, and with what it goes on. */
const breaks: Record<string, (peer: Peer) => void> = {
  'with 421': (peer) => void peer.socket.end('421 4.3.2 closing\r\n'),
  'without a word': (peer) => void peer.socket.end(),
  'after it has deferred the recipient': (peer) => void peer.socket.end('450 4.2.0 try later\r\n'),
  'because of their number': (peer) => void peer.socket.end('421 4.5.3 too many recipients\r\n'),
};

for (const [how, hangUp] of Object.entries(breaks))
  for (const keyword of ['X', 'PIPELINING'])
    t.test(`a recipient for whom the server hangs up does not keep back the others: ${how}, ${keyword}`, async (t) => {
      const taken: string[] = [];
      const { send, mx } = await startScripted(t, async (peer) => {
        await peer.greet(keyword);
        for (;;) {
          let line = await peer.answer('250 ok');
          const to: string[] = [];
          for (line = await peer.line(); line.startsWith('RCPT'); line = await peer.line()) {
            if (line.includes('bad@')) return hangUp(peer);
            to.push(line.slice(9, 10));
            peer.send('250 ok\r\n');
          }
          peer.send('354 go\r\n');
          await peer.until('\r\n.\r\n');
          taken.push(to.join(''));
          peer.send('250 ok\r\n');
        }
      });
      const addresses = (names: string[]) => names.map((name) => `${name}@example.test`);
      const orders: [names: string[], messages: string[]][] = [
        [
          ['a', 'bad', 'c'],
          ['a', 'c'],
        ],
        [['a', 'c', 'bad'], ['ac']],
      ];
      // To the first one it would be about those of other messages.
      if (!how.includes('number'))
        orders.push([
          ['bad', 'a', 'c'],
          ['a', 'c'],
        ]);
      for (const [names, messages] of orders) {
        taken.length = 0;
        const before = mx.peers.length;
        const delivery = await send({ to: addresses(names) });
        t.same(taken.toSorted(), messages, names.join());
        for (const name of ['a', 'c'])
          t.equal(resultOf(delivery, `${name}@example.test`).outcome, 'delivered', names.join());
        t.match(resultOf(delivery, 'bad@example.test'), { outcome: 'deferred', uncertain: false });
        t.ok(mx.peers.length - before <= 3, 'one more than a kept one and its replacement');
      }
    });

t.test('more than a hundred recipients are sent in several transactions on one connection', async (t) => {
  const sink = await startSink({
    onRecipient: (address) => (address.startsWith('r7@') ? '550 5.1.1 no such user' : null),
  });
  t.teardown(() => sink.close());
  const { send } = await startScene(t, sink.port);
  const to = Array.from({ length: 250 }, (_, at) => `r${at}@example.test`);
  const delivery = await send({ to: [...to, ...to.slice(0, 10)] });
  t.same(
    sink.messages.map((each) => each.to.length),
    [99, 100, 50],
  );
  t.equal(sink.connections, 1);
  t.equal(delivery.sessions.length, 1);
  t.same(
    delivery.sessions[0]?.results.map((result) => result.recipient),
    to,
    'each once',
  );
  t.equal(delivery.sessions[0]?.results.filter((result) => result.outcome === 'delivered').length, 249);
});

/** A server that knows everybody but `bad@`, and whatever it says besides at these points. */
const talkative =
  (keyword: string, besides: { mail?: string; dot?: string }) =>
  async (peer: Peer): Promise<void> => {
    await peer.greet(keyword);
    for (;;) {
      await peer.answer(`250 ok${besides.mail ?? ''}`);
      for (let line = await peer.line(); line !== 'DATA'; line = await peer.line())
        peer.send(line.includes('bad@') ? '550 5.1.1 no such user\r\n' : '250 ok\r\n');
      peer.send('354 go\r\n');
      await peer.until('\r\n.\r\n');
      peer.send(`250 ok${besides.dot ?? ''}\r\n`);
    }
  };

for (const keyword of ['X', 'PIPELINING'])
  t.test(`a refusal by a server whose replies are out of step is held against nobody: ${keyword}`, async (t) => {
    const { send } = await startScripted(t, talkative(keyword, { mail: '\r\n250 go on' }));
    const delivery = await send({ to: ['bad@example.test', 'good@example.test'] });
    for (const recipient of ['bad@example.test', 'good@example.test'])
      t.match(resultOf(delivery, recipient), { outcome: 'deferred', phase: 'data', class: 'protocol' }, recipient);

    const others = await startMx(t, talkative(keyword, { mail: '\r\n250 go on' }));
    await startMx(t, talkative(keyword, {}), { host: '127.0.0.2', port: others.port });
    const next = await (await startScene(t, others.port, twoHosts)).send({
      to: ['bad@example.test', 'good@example.test'],
    });
    t.match(resultOf(next, 'bad@example.test'), { outcome: 'bounced', class: 'bad_mailbox' }, 'another host is asked');
    t.match(resultOf(next, 'good@example.test'), { outcome: 'delivered' });

    const { send: sendMany } = await startScripted(t, talkative(keyword, { dot: '\r\n250 queued as 17' }));
    const to = Array.from({ length: 150 }, (_, at) => `${at === 120 ? 'bad' : `r${at}`}@example.test`);
    const many = await sendMany({ to });
    const outcomes = Map.groupBy(to, (recipient) => resultOf(many, recipient).outcome);
    t.same(
      [...outcomes].map(([outcome, { length }]) => [outcome, length]),
      [
        ['delivered', 100],
        ['deferred', 50],
      ],
    );
  });

t.test('if DATA is accepted without a word about the recipients before it, none was refused', async (t) => {
  const { send } = await startScripted(t, async (peer) => {
    await peer.greet('PIPELINING');
    await peer.answer('250 ok\r\n550 5.1.1 no such user');
    await peer.answer('250 ok');
    await peer.answer('354 go');
  });
  t.match(resultOf(await send()), { outcome: 'deferred', class: 'protocol' });
});

/** A server that takes this many recipients per message. */
async function startNarrowSink(t: Test, most: number): Promise<Sink> {
  let taken = 0;
  const sink = await startSink({
    onRecipient: () => (++taken > most ? '452 4.5.3 Error: too many recipients' : null),
    onMessage: () => {
      taken = 0;
      return null;
    },
  });
  t.teardown(() => sink.close());
  return sink;
}

t.test('recipients for whom a message has no room go into the next one at once', async (t) => {
  const sink = await startNarrowSink(t, 4);
  const { send } = await startScene(t, sink.port);
  const to = Array.from({ length: 10 }, (_, at) => `r${at}@example.test`);
  const { sessions } = await send({ to });
  t.same(
    sink.messages.map((each) => each.to),
    [to.slice(0, 4), to.slice(4, 8), to.slice(8)],
  );
  t.equal(sink.connections, 1);
  t.equal(sessions.length, 1);
  t.same(
    sessions[0]?.results.map(({ recipient, outcome }) => `${recipient} ${outcome}`).toSorted(),
    to.map((each) => `${each} delivered`),
  );
});

for (const keyword of ['8BITMIME', 'PIPELINING'])
  t.test(`a message for too many goes to those who were accepted, and then to the others: ${keyword}`, async (t) => {
    const to = Array.from({ length: 5 }, (_, at) => `r${at}@example.test`);
    // Exim, with `recipients_max_reject`.
    const tooMany = { rcpt: ['250 ok', '250 ok', ...to.slice(2).map(() => '552 too many recipients')] };
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet(keyword);
      await peer.message({ ...tooMany, data: '554 Too many recipients' });
      await peer.answer('250 reset');
      for (const count of [2, 2, 1]) await peer.message({ rcpt: Array.from({ length: count }, () => '250 ok') });
    });
    const delivery = await send({ to });
    for (const recipient of to) t.match(resultOf(delivery, recipient), { outcome: 'delivered' });
    t.equal(delivery.sessions.flatMap(({ results }) => results).length, to.length, 'each once');
    t.equal(mx.peers.length, 1);
  });

t.test('recipients for whom no further message has room wait, whatever the code says', async (t) => {
  const to = Array.from({ length: 5 }, (_, at) => `r${at}@example.test`);
  const most = 2;
  for (const reply of [
    '452 4.5.3 too many recipients',
    '550 5.5.3 Too many recipients this hour',
    '550 Too many recipients',
    '552 Too many recipients',
    '554 5.5.3 Too many recipients for this connection',
  ]) {
    let taken = 0;
    const sink = await startSink({ onRecipient: () => (++taken > most ? reply : null) });
    t.teardown(() => sink.close());
    const { send } = await startScene(t, sink.port);
    const delivery = await send({ to });
    for (const [at, recipient] of to.entries())
      t.match(
        resultOf(delivery, recipient),
        at < most ? { outcome: 'delivered' } : { outcome: 'deferred', class: 'rate' },
        reply,
      );
    t.equal(delivery.sessions.flatMap(({ results }) => results).length, to.length, 'each once');
  }
});

t.test('recipients for whom a message had no room wait if the connection ends after it', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    await peer.greet();
    await peer.message({ rcpt: ['250 ok', '452 4.5.3 too many recipients'], dot: null });
    peer.socket.end('250 ok\r\n421 4.3.2 closing\r\n');
  });
  const delivery = await send({ to: ['r0@example.test', 'r1@example.test'] });
  t.match(resultOf(delivery, 'r0@example.test'), { outcome: 'delivered' });
  t.match(resultOf(delivery, 'r1@example.test'), crowdedOut);
  t.equal(delivery.sessions.length, 1);
  t.equal(mx.peers.length, 1);
});

const crowdedOut = { outcome: 'deferred', class: 'rate', reply: { code: 452 }, uncertain: false } as const;

for (const [at, ...answers] of [
  ['MAIL', '550 5.7.0 Only one message per session'],
  ['MAIL', '503 5.5.1 Maximum number of messages per connection reached'],
  ['MAIL', '550 5.7.1 no more of that'],
  ['RCPT', '250 ok', '550 5.7.1 Too many recipients received this hour, rate limit reached'],
  ['RCPT', '250 ok', '550 5.7.1 Recipients per hour limit exceeded'],
  ['DATA', '250 ok', '250 ok', '554 no valid recipients'],
] as const)
  t.test(
    `recipients for whom a message had no room wait if the next one is refused at ${at}: ${answers.at(-1)}`,
    async (t) => {
      const { send, transport } = await startScripted(t, async (peer) => {
        await peer.greet();
        await peer.message({ rcpt: ['250 ok', '452 4.5.3 too many recipients'] });
        for (const answer of answers) await peer.answer(answer);
      });
      const delivery = await send({ to: ['r0@example.test', 'r1@example.test'] });
      t.match(resultOf(delivery, 'r0@example.test'), { outcome: 'delivered' });
      t.match(resultOf(delivery, 'r1@example.test'), crowdedOut);
      t.equal(delivery.sessions.flatMap(({ results }) => results).length, 2, 'each once');
      t.equal(transport.pool.size, 0, 'the connection is not kept');
    },
  );

t.test('recipients for whom a message had no room are not taken to another host of the same domain', async (t) => {
  const mx = await startMx(t, async (peer) => {
    await peer.greet();
    await peer.message({ rcpt: ['250 ok', '452 4.5.3 too many recipients'] });
    await peer.answer('421 4.3.2 closing');
  });
  const second = await startMx(t, accept, { host: '127.0.0.2', port: mx.port });
  const { send } = await startScene(t, mx.port, twoHosts);
  const delivery = await send({ to: ['r0@example.test', 'r1@example.test'] });
  t.match(resultOf(delivery, 'r1@example.test'), crowdedOut);
  t.equal(second.peers.length, 0);
});

t.test('what the next message is told about a recipient, or about its content, is a verdict', async (t) => {
  const to = ['r0@example.test', 'r1@example.test'];
  for (const second of [{ rcpt: ['550 5.1.1 no such user'] }, { dot: '554 5.6.0 not this' }]) {
    const { send } = await startScripted(t, async (peer) => {
      await peer.greet();
      await peer.message({ rcpt: ['250 ok', '452 4.5.3 too many recipients'] });
      await peer.message(second);
    });
    t.match(resultOf(await send({ to }), 'r1@example.test'), { outcome: 'bounced', reply: { code: /^55/ } });
  }
});

t.test("such messages count toward a connection's limit like any others", async (t) => {
  const sink = await startNarrowSink(t, 1);
  const { send } = await startScene(t, sink.port, {}, { pool: { maxTransactions: 3 } });
  const to = Array.from({ length: 5 }, (_, at) => `r${at}@example.test`);
  const { sessions } = await send({ to });
  t.same(
    sink.messages.map((message) => message.to),
    to.map((recipient) => [recipient]),
  );
  t.equal(sink.connections, 2, 'and the rest get another one');
  t.same(
    sessions.map(({ results }) => results.map(({ outcome }) => outcome)),
    [
      ['delivered', 'delivered', 'delivered'],
      ['delivered', 'delivered'],
    ],
  );
});

t.test('losing the lease stops the transactions that would follow', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const { send } = await startScene(t, sink.port);
  let dots = 0;
  const to = Array.from({ length: 250 }, (_, at) => `r${at}@example.test`);
  const delivery = await send({ to, beforeDot: () => ++dots < 2 });
  t.equal(sink.messages.length, 1);
  t.equal(dots, 2);
  for (const [recipient, outcome] of [
    ['r0', 'delivered'],
    ['r150', 'deferred'],
    ['r249', 'deferred'],
  ] as const) {
    t.match(resultOf(delivery, `${recipient}@example.test`), { outcome, uncertain: false });
  }
});

t.test(
  'MX-06: mail leaves from a sending address of the right family, and the same sender always has the same one',
  async (t) => {
    const mx = await startMx(t, accept, { host: '0.0.0.0' });
    const zone = { 'mx.example.test': { AAAA: ['::1'], A: ['127.0.0.1'] } };
    const scene = await startScene(t, mx.port, zone, { sendingIps: ['127.0.0.7', '127.0.0.8'], pool: { maxIdle: 0 } });
    const seen = new Map<string, string | null | undefined>();
    for (let left = 30; left > 0; left--) {
      const from = `${left % 15}@sender.test`;
      const { sessions } = await scene.send({ from });
      t.equal(sessions.length, 1, 'IPv6 was left out');
      const localAddress = sessions[0]?.localAddress;
      t.equal(localAddress, seen.get(from) ?? localAddress, 'a greylisting server sees the same address again');
      seen.set(from, localAddress);
    }
    t.same([...new Set(seen.values())].toSorted(), ['127.0.0.7', '127.0.0.8']);

    const { send } = await startScene(t, mx.port, zone, { sendingIps: ['::1'] });
    const only4 = await startScene(t, mx.port, {}, { sendingIps: ['::1'] });
    t.match(resultOf(await only4.send()), { outcome: 'deferred', phase: 'local' });
    t.match(resultOf(await send()), { outcome: 'deferred', phase: 'connect' });
  },
);

t.test('each sending address says its own EHLO name, and a server that greets with it is this one', async (t) => {
  const mx = await startMx(t, accept, { host: '0.0.0.0' });
  const sendingIps = ['127.0.0.7', '127.0.0.8'];
  const ehloNames = new Map([['127.0.0.8', 'second.test']]);
  const scene = await startScene(t, mx.port, {}, { sendingIps, ehloNames, pool: { maxIdle: 0 } });
  const said = new Map<string | null | undefined, string | undefined>();
  for (let left = 15; left > 0; left--) {
    const { sessions } = await scene.send({ from: `${left}@sender.test` });
    said.set(sessions[0]?.localAddress, sessions[0]?.conversation.find(({ text }) => text.startsWith('EHLO'))?.text);
  }
  t.same(
    said,
    new Map([
      ['127.0.0.7', 'EHLO client.test'],
      ['127.0.0.8', 'EHLO second.test'],
    ]),
  );

  const ourselves = await startMx(t, async (peer) => peer.send('220 second.test ESMTP\r\n'));
  const loop = await startScene(t, ourselves.port, {}, { ehloNames });
  t.match(resultOf(await loop.send()), { outcome: 'bounced', phase: 'greeting' });
});

t.test('our own bugs are thrown, and leave nothing open', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    await peer.greet();
    await peer.message();
  });
  await t.rejects(send({ message: Buffer.from('a\nb') }), /bare/);
  await t.rejects(send({ to: ['a b@example.test'] }), /address/);
  await t.rejects(send({ to: [] }), /recipient/);
  t.equal(mx.peers.length, 0);
  const thrower = () => {
    throw new TypeError('a defect');
  };
  await t.rejects(send({ beforeDot: thrower }), TypeError);
  await eventually(async () => mx.peers[0]?.socket.destroyed);
  t.notMatch(mx.peers[0]?.received.toString(), message().toString());
});
