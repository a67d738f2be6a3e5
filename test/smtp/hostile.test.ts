import t from 'tap';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import type { Peer } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { message, resultOf, startScripted } from './scene.ts';

const big = message('x'.repeat(70).concat('\r\n').repeat(200_000));

/** Sends this over and over until the connection is gone. */
async function drip(peer: Peer, bytes: string, everyMs: number): Promise<void> {
  while (!peer.socket.destroyed) {
    peer.send(bytes);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

const afterEhlo = async (peer: Peer, ...replies: string[]) => {
  await peer.greet();
  for (const reply of replies) await peer.answer(reply);
};

const table: [
  name: string,
  script: (peer: Peer) => Promise<unknown>,
  expected: Partial<RecipientResult>,
  content?: Buffer,
][] = [
  ['no greeting', async () => {}, { phase: 'greeting' }],
  ['a greeting byte by byte', (peer) => drip(peer, '2', 20), { phase: 'greeting' }],
  ['an endless banner, slowly', (peer) => drip(peer, '220-hello\r\n', 20), { phase: 'greeting' }],
  [
    'an endless banner, fast',
    (peer) => drip(peer, '220-hello\r\n'.repeat(2_000), 0),
    { phase: 'greeting', class: 'protocol' },
  ],
  ['an endless line', (peer) => drip(peer, 'x'.repeat(65_536), 0), { phase: 'greeting', class: 'protocol' }],
  ['an endless 220 line', (peer) => drip(peer, `220 ${'x'.repeat(65_536)}`, 0), { phase: 'ehlo', class: 'protocol' }],
  [
    'EHLO in drips',
    async (peer) => {
      peer.send('220 hi\r\n');
      await peer.line();
      await drip(peer, '250-X\r\n', 20);
    },
    { phase: 'ehlo' },
  ],
  [
    'no reply to EHLO',
    async (peer) => {
      peer.send('220 hi\r\n');
    },
    { phase: 'ehlo' },
  ],
  [
    'MAIL in drips',
    async (peer) => {
      await afterEhlo(peer);
      await drip(peer, '250-ok\r\n', 20);
    },
    { phase: 'mail' },
  ],
  [
    'RCPT in drips',
    async (peer) => {
      await afterEhlo(peer, '250 ok');
      await peer.line();
      await drip(peer, '250-ok\r\n', 20);
    },
    { phase: 'rcpt' },
  ],
  [
    'DATA in drips',
    async (peer) => {
      await afterEhlo(peer, '250 ok', '250 ok');
      await peer.line();
      await drip(peer, '354-go\r\n', 20);
    },
    { phase: 'data' },
  ],
  [
    'a flood of replies',
    async (peer) => {
      await afterEhlo(peer);
      await peer.line();
      await drip(peer, '250 ok\r\n'.repeat(1_000), 0);
    },
    { class: 'protocol' },
  ],
  [
    'never reads the message',
    async (peer) => {
      await afterEhlo(peer, '250 ok', '250 ok', '354 go');
      peer.socket.pause();
    },
    { phase: 'data' },
    big,
  ],
  [
    'answers the dot in drips',
    async (peer) => {
      await peer.greet();
      await peer.message({ dot: null });
      await drip(peer, '250-ok\r\n', 20);
    },
    { phase: 'dot', uncertain: true },
  ],
];

t.test('DOS-10: no server can hold a delivery beyond its deadlines', async (t) => {
  for (const [name, script, expected, content = message()] of table) {
    const once = async (ms: number) => {
      const each = { greeting: ms, ehlo: ms, mail: ms, rcpt: ms, data: ms, dot: ms };
      const { send } = await startScripted(
        t,
        async (peer) => {
          await script(peer);
          await peer.until('never');
        },
        { deadlines: { ...each, transaction: 4 * ms } },
      );
      const started = performance.now();
      const result = resultOf(await send({ message: content }));
      return { result, took: performance.now() - started };
    };
    let ms = 150;
    let { result, took } = await once(ms);
    // If the machine stalls, it may be an earlier step that times out.
    const isFine = () =>
      took < 5_000 && Object.entries(expected).every(([name, value]) => ({ ...result })[name as 'phase'] === value);
    for (; ms < 4_000 && !isFine(); ms *= 3) ({ result, took } = await once(3 * ms));
    t.match(result, { outcome: 'deferred', uncertain: false, ...expected }, name);
    t.ok(took < Math.max(5_000, 10 * ms), `${name}: ${Math.round(took)} ms`);
  }
});

t.test('DOS-10: a transaction has its own deadline', async (t) => {
  const to = Array.from({ length: 50 }, (_, at) => `r${at}@example.test`);
  const once = async (ms: number) => {
    let answered = 0;
    const { send } = await startScripted(
      t,
      async (peer) => {
        await peer.greet();
        for (;;) {
          await peer.line();
          await new Promise((resolve) => setTimeout(resolve, ms / 5));
          peer.send('250 ok\r\n');
          answered += 1;
        }
      },
      { deadlines: { transaction: ms } },
    );
    return { result: resultOf(await send({ to }), 'r49@example.test'), answered };
  };
  let ms = 1_500;
  let seen = await once(ms);
  // If the machine stalled, time may run out before the first recipient.
  for (; ms < 10_000 && seen.result.phase !== 'rcpt'; ms *= 3) seen = await once(3 * ms);
  t.match(seen.result, { outcome: 'deferred', phase: 'rcpt' });
  t.ok(seen.answered < 10, `${seen.answered} of fifty replies`);
});

t.test('DOS-10: two hundred hostile servers do not slow down a good one', async (t) => {
  // They hold on for as long as they can.
  const forAsLong = { deadlines: { greeting: 600_000 } };
  const hostile = await startScripted(t, (peer) => drip(peer, '220-hello\r\n', 20), forAsLong);
  const good = await startScripted(t, async (peer) => {
    await peer.greet();
    await peer.message();
  });
  let over = 0;
  const enough = new AbortController();
  const slow = Array.from({ length: 200 }, () => hostile.send({ signal: enough.signal }).finally(() => (over += 1)));
  while (hostile.mx.peers.length < 200) await new Promise((resolve) => setTimeout(resolve, 10));
  t.match(resultOf(await good.send()), { outcome: 'delivered' });
  t.equal(over, 0, 'before any of them is given up');
  enough.abort();
  for (const delivery of await Promise.all(slow)) t.equal(resultOf(delivery).outcome, 'deferred');
});

t.test('a server that greets us with our own name is us', async (t) => {
  const { send } = await startScripted(t, async (peer) => peer.send('220 Client.TEST ESMTP\r\n'));
  t.match(resultOf(await send()), { outcome: 'bounced', phase: 'greeting', enhanced: '5.4.6' });
});

t.test('a server that talks after the message is not used again', async (t) => {
  const speaks = Promise.withResolvers<void>();
  const pool = { idleMs: 600_000 };
  const ways: Record<string, (peer: Peer) => Promise<unknown>> = {
    'with its reply': (peer) => peer.message({ dot: '250 ok\r\n250 by the way' }),
    'while it waits': async (peer) => {
      await peer.message();
      await speaks.promise;
      peer.send('250 by the way\r\n');
    },
  };
  for (const [name, talk] of Object.entries(ways)) {
    const script = async (peer: Peer) => {
      await peer.greet();
      await talk(peer);
      await peer.until('never');
    };
    const { send, transport, mx } = await startScripted(t, script, { pool });
    await send();
    if (name === 'while it waits') t.equal(transport.pool.size, 1);
    speaks.resolve();
    await eventually(async () => transport.pool.size === 0);
    t.match(resultOf(await send()), { outcome: 'delivered' }, name);
    t.equal(mx.peers.length, 2);
  }
});
