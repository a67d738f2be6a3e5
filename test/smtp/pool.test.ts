import { mock } from 'node:test';
import t from 'tap';
import type { PoolOptions } from '../../src/smtp/connections/pool.ts';
import type { Peer } from '../support/mx.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { resultOf, startScene, startScripted } from './scene.ts';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Accepts any number of messages. */
async function acceptAll(peer: Peer): Promise<void> {
  await peer.greet();
  for (;;) await peer.message();
}

t.test('a connection carries the next message to the same host, even for another domain', async (t) => {
  const sink = await startSink({ tls: true });
  t.teardown(() => sink.close());
  const { send, transport } = await startScene(t, sink.port, { 'other.test': { MX: [[5, 'MX.example.test']] } });
  const first = await send();
  const second = await send();
  const third = await send({ destination: 'other.test' });
  t.same(
    [first, second, third].map(({ sessions }) => sessions[0]?.reused),
    [false, true, true],
  );
  t.ok(third.sessions[0]?.tls, 'what is known about the connection is reported again');
  t.equal(third.sessions[0]?.remoteAddress, '127.0.0.1');
  t.equal(sink.connections, 1);
  t.equal(sink.messages.length, 3);
  t.equal(transport.pool.size, 1);
});

t.test('a message takes only a connection that left from one of its own addresses', async (t) => {
  const { send, mx } = await startScripted(t, acceptAll);
  const from = async (ip: string) => {
    const [session] = (await send({ sendingIps: [ip] })).sessions;
    return [session?.localAddress, session?.reused];
  };
  t.same(await from('127.0.0.7'), ['127.0.0.7', false]);
  t.same(await from('127.0.0.8'), ['127.0.0.8', false]);
  t.same(await from('127.0.0.7'), ['127.0.0.7', true]);
  t.equal(mx.peers.length, 2);
});

t.test('simultaneous messages each have their own connection', async (t) => {
  const allHere = Promise.withResolvers<null>();
  let here = 0;
  // None of them ends before the last one has arrived.
  const onMessage = () => {
    here += 1;
    if (here === 8) allHere.resolve(null);
    return allHere.promise;
  };
  const sink = await startSink({ onMessage });
  t.teardown(() => sink.close());
  const { send, transport } = await startScene(t, sink.port, {}, { pool: { maxIdle: 3 } });
  await Promise.all(Array.from({ length: 8 }, () => send()));
  t.equal(sink.messages.length, 8);
  t.equal(sink.connections, 8);
  t.equal(transport.pool.size, 3, 'no more are kept than allowed');
});

t.test('if too many connections are idle, the one that has been idle longest is closed', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const names = ['a.test', 'b.test', 'c.test'];
  const zone = Object.fromEntries(
    names.flatMap((name) => [
      [name, { MX: [[5, `mx.${name}`]] }],
      [`mx.${name}`, { A: ['127.0.0.1'] }],
    ]),
  );
  const { send } = await startScene(t, sink.port, zone, { pool: { maxIdle: 2 } });
  for (const destination of names) await send({ destination });
  const again = [];
  for (const destination of ['c.test', 'b.test', 'a.test'])
    again.push((await send({ destination })).sessions[0]?.reused);
  t.same(again, [true, true, false]);
});

t.test('a connection is closed after its number of messages, its idle time and its age', async (t) => {
  const inUse = async (pool: PoolOptions) => {
    const { send, mx, transport } = await startScripted(t, acceptAll, { pool });
    await send();
    const kept = transport.pool.size;
    await send();
    await eventually(async () => transport.pool.size === 0);
    const { outcome } = resultOf(await send());
    const saysGoodbye = mx.peers[0]?.received.toString().endsWith('QUIT\r\n');
    return { kept, outcome, connections: mx.peers.length, saysGoodbye };
  };
  const expected = { kept: 1, outcome: 'delivered', connections: 2, saysGoodbye: true };
  t.match(await inUse({ maxTransactions: 2 }), expected);
  for (const bound of ['maxAgeMs', 'idleMs']) {
    // So that only this bound ends it.
    const others: PoolOptions = { maxAgeMs: 3_600_000, idleMs: 3_600_000 };
    let seen = await inUse({ ...others, [bound]: 300 });
    // On a slow machine it is closed before the second message.
    for (let ms = 600; ms < 10_000 && (seen.kept === 0 || seen.connections > 2); ms *= 2)
      seen = await inUse({ ...others, [bound]: ms });
    t.match(seen, expected, bound);
  }
});

t.test('a connection that carries a message is not closed when its idle time would have been over', async (t) => {
  const { send, transport } = await startScripted(t, acceptAll, { pool: { idleMs: 60_000 } });
  const [session] = (await send()).sessions;
  const take = () => transport.pool.take(session?.host ?? '', () => true);
  const connection = take();
  if (!connection) throw new Error('the connection is not idle');
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  transport.pool.release(connection);
  t.equal(take(), connection);
  const quits = t.capture(connection, 'quit', connection.quit);
  mock.timers.tick(60_000);
  t.strictSame(quits(), []);
  transport.pool.release(connection);
  mock.timers.tick(60_000);
  t.equal(quits().length, 1, 'as soon as it is idle for so long');
});

t.test('the age of a connection counts from when it was opened, not from the start of the process', async (t) => {
  const now = performance.now.bind(performance);
  const clock = mock.method(performance, 'now', () => 1e9 + now());
  t.teardown(() => clock.mock.restore());
  const { send, mx } = await startScripted(t, acceptAll);
  await send();
  t.match((await send()).sessions, [{ reused: true }]);
  t.equal(mx.peers.length, 1);
});

t.test('closing says QUIT on all connections and keeps none afterwards', async (t) => {
  const { send, mx, transport } = await startScripted(t, acceptAll);
  await send();
  await transport.close();
  t.ok(mx.peers[0]?.received.toString().endsWith('QUIT\r\n'));
  t.equal(transport.pool.size, 0);
  await send();
  t.equal(transport.pool.size, 0);
});

t.test('closing does not wait for a server that ignores QUIT', async (t) => {
  const { send, transport } = await startScripted(t, async (peer) => {
    await peer.greet();
    await peer.message();
    await peer.until('never');
  });
  await send();
  const started = performance.now();
  await transport.close();
  t.ok(performance.now() - started < 15_000);
});

t.test('MX-11: a failure of one message does not affect the next', async (t) => {
  const troubles: Record<string, Parameters<Peer['message']>[0]> = {
    'MAIL refused': { mail: '550 no' },
    'RCPT refused': { rcpt: ['550 no'] },
    'DATA refused': { data: '554 no' },
    'message refused': { dot: '554 no' },
  };
  for (const [name, replies] of Object.entries(troubles)) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet('PIPELINING');
      await peer.answer(replies?.mail ?? '250 ok');
      await peer.answer(replies?.rcpt?.[0] ?? '250 ok');
      await peer.answer(replies?.data ?? (replies?.mail || replies?.rcpt ? '503 no' : '354 go'));
      if (replies?.dot) {
        await peer.until('\r\n.\r\n');
        peer.send(`${replies.dot}\r\n`);
      }
      await peer.answer('250 reset');
      for (;;) await peer.message();
    });
    t.not(resultOf(await send()).outcome, 'delivered', name);
    const { sessions } = await send();
    t.match(sessions, [{ reused: true, results: [{ outcome: 'delivered' }] }], name);
    await send();
    t.equal(mx.peers.length, 1);
    t.equal(mx.peers[0]?.received.toString().match(/RSET\r\n/g)?.length, 1, 'and none after a message that went well');
  }
});

t.test('MX-11: if a server refuses to forget a message, the next one goes over another connection', async (t) => {
  const { send, mx } = await startScripted(
    t,
    async (peer, number) => {
      if (number > 0) return acceptAll(peer);
      await peer.greet();
      for (const reply of ['250 ok', '550 no', '502 what?']) await peer.answer(reply);
      await peer.until('never');
    },
    { deadlines: { mail: 5_000 } },
  );
  t.equal(resultOf(await send()).outcome, 'bounced');
  t.equal(resultOf(await send()).outcome, 'delivered');
  t.equal(mx.peers.length, 2);
  t.equal(mx.peers[0]?.received.toString().match(/MAIL FROM/g)?.length, 1, 'its recipients could get the next one');
});

t.test('MX-11: a connection that died while idle is replaced unnoticed', async (t) => {
  const deaths: Record<string, (peer: Peer) => Promise<unknown>> = {
    'closed at the next MAIL': async (peer) => {
      await peer.line();
      peer.socket.end();
    },
    'reset at the next MAIL': async (peer) => {
      await peer.line();
      peer.socket.resetAndDestroy();
    },
    '421 to the next MAIL': (peer) => peer.answer('421 4.4.2 idle for too long'),
    'no answer': (peer) => peer.until('never'),
    garbage: (peer) => peer.answer('what'),
    'closed while idle': async (peer) => peer.socket.end(),
    '421 while idle': async (peer) => peer.socket.end('421 4.4.2 idle for too long\r\n'),
  };
  for (const [name, death] of Object.entries(deaths)) {
    const once = async (mail: number) => {
      const { send, mx } = await startScripted(
        t,
        async (peer, number) => {
          if (number > 0) return acceptAll(peer);
          await peer.greet();
          await peer.message();
          await death(peer);
          await sleep(1_000);
        },
        { deadlines: { mail } },
      );
      await send();
      if (name.includes('while idle')) await sleep(20);
      return { ...(await send()), connections: mx.peers.length };
    };
    const expected = { sessions: [{ reused: false, results: [{ outcome: 'delivered' }] }], connections: 2 };
    let seen = await once(name === 'no answer' ? 1_000 : 20_000);
    // If the machine stalled, another MAIL got no answer either.
    for (
      let ms = 4_000;
      name === 'no answer' && ms < 20_000 && seen.sessions[0]?.results[0]?.outcome !== 'delivered';
      ms *= 4
    )
      seen = await once(ms);
    t.match(seen, expected, name);
  }
});

t.test('MX-11: if a host cannot reset, the message goes over a new connection', async (t) => {
  const ways: Record<string, (peer: Peer) => Promise<unknown>> = {
    refused: (peer) => peer.answer('502 what'),
    closed: async (peer) => {
      await peer.line();
      peer.socket.end();
    },
  };
  for (const [name, way] of Object.entries(ways)) {
    const { send, mx } = await startScripted(t, async (peer, number) => {
      if (number > 0) return acceptAll(peer);
      await peer.greet();
      await peer.message({ dot: '554 no' });
      await way(peer);
      await peer.until('never');
    });
    await send();
    t.match(resultOf(await send()), { outcome: 'delivered' }, name);
    t.equal(mx.peers.length, 2);
  }
});

t.test('if a used connection breaks later in the message, that is reported', async (t) => {
  const { send } = await startScripted(t, async (peer, number) => {
    await peer.greet();
    await peer.message();
    if (number > 0) return;
    await peer.answer('250 ok');
    await peer.line();
    peer.socket.destroy();
  });
  await send();
  const { sessions } = await send();
  t.match(sessions[0], { reused: true, results: [{ outcome: 'deferred', phase: 'rcpt', uncertain: false }] });
});
