import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Connection } from '../../src/smtp/connections/connection.ts';
import { defaultDeadlines } from '../../src/smtp/connections/deadlines.ts';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import { prepareContent } from '../../src/smtp/transaction/content.ts';
import { transact } from '../../src/smtp/transaction/transaction.ts';
import type { Peer } from '../support/mx.ts';
import { freePort } from '../support/ports.ts';
import { message, resultOf, startMx, startScene, startScripted } from './scene.ts';

type Script = (peer: Peer) => Promise<unknown>;

const pipelining = async (peer: Peer) => peer.greet('PIPELINING', 'ENHANCEDSTATUSCODES');
const plain = async (peer: Peer) => peer.greet();

t.test('MX-10: a break in the middle of the message leaves no doubt', async (t) => {
  const big = message('x'.repeat(70).concat('\r\n').repeat(200_000));
  const endings: Record<string, (peer: Peer) => unknown> = {
    'a reset': (peer) => peer.socket.resetAndDestroy(),
    'a closed connection': (peer) => peer.socket.destroy(),
    'a server that stops reading': (peer) => peer.socket.pause(),
  };
  for (const [name, ending] of Object.entries(endings)) {
    const { send } = await startScripted(
      t,
      async (peer) => {
        await plain(peer);
        for (const reply of ['250 ok', '250 ok', '354 go']) await peer.answer(reply);
        await peer.until('x\r\n');
        ending(peer);
      },
      { deadlines: name === 'a server that stops reading' ? { content: 1 } : {} },
    );
    t.match(resultOf(await send({ message: big })), { outcome: 'deferred', phase: 'data', uncertain: false }, name);
  }
});

t.test('a reply in the middle of the message is a refusal or is not understood, but never a success', async (t) => {
  const big = message('x'.repeat(70).concat('\r\n').repeat(200_000));
  const table: [reply: string, expected: Partial<RecipientResult>][] = [
    ['552 5.3.4 too big', { outcome: 'bounced', class: 'content' }],
    ['452 4.3.1 disk full', { outcome: 'deferred' }],
    ['421 going down', { outcome: 'deferred' }],
    ['250 ok', { outcome: 'deferred', class: 'protocol' }],
  ];
  for (const [reply, expected] of table) {
    const { send } = await startScripted(t, async (peer) => {
      await plain(peer);
      for (const each of ['250 ok', '250 ok', '354 go']) await peer.answer(each);
      await peer.until('x\r\n');
      peer.send(`${reply}\r\n`);
    });
    let asked = 0;
    const beforeDot = () => {
      asked += 1;
      return true;
    };
    t.match(resultOf(await send({ message: big, beforeDot })), { ...expected, phase: 'data', uncertain: false }, reply);
    t.equal(asked, 0, 'no dot is written, so none is noted');
  }
});

t.test('a connection that is gone before the dot is no reason to ask for it', async (t) => {
  const { mx } = await startScripted(t, async (peer) => {
    peer.send('250 ok\r\n250 ok\r\n354 go\r\n');
    peer.socket.end();
  });
  const connection = new Connection({ host: 'mx.example.test', address: '127.0.0.1', port: mx.port });
  await connection.open(20_000);
  // The replies arrived ahead of their commands.
  await new Promise<void>((resolve) => connection.whenLost(resolve));
  let asked = 0;
  const { results } = await transact(connection, {
    envelope: { from: 'a@sender.test', recipients: ['b@example.test'], smtpUtf8: false },
    content: prepareContent([message()]),
    beforeDot: () => {
      asked += 1;
      return true;
    },
    afterDot: () => undefined,
    deadlines: defaultDeadlines,
  });
  t.match(results, [{ outcome: 'deferred', phase: 'data', class: 'network', uncertain: false }]);
  t.equal(asked, 0, 'no dot is written, so none is noted');
});

t.test('without the right to send, the message is not completed', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    await pipelining(peer);
    await peer.message({ rcpt: ['250 ok', '250 ok'] });
  });
  const delivery = await send({ beforeDot: () => false, to: ['r0@example.test', 'r1@example.test'] });
  t.match(resultOf(delivery, 'r0@example.test'), {
    outcome: 'deferred',
    phase: 'local',
    reply: null,
    uncertain: false,
  });
  t.equal(delivery.sessions.length, 1);
  t.notMatch(mx.peers[0]?.received.toString('latin1'), /\r\n\.\r\n/);
});

t.test('whoever was asked for the dot is told what came of it, also if it was not written', async (t) => {
  const endings: [name: string, ending: (peer: Peer | undefined) => unknown, expected: Partial<RecipientResult>][] = [
    ['no right to send', () => false, { phase: 'local' }],
    ['a reply meanwhile', (peer) => peer?.send('452 4.3.1 disk full\r\n'), { phase: 'data' }],
    ['the end of the connection meanwhile', (peer) => peer?.socket.resetAndDestroy(), { phase: 'data' }],
  ];
  for (const [name, ending, expected] of endings) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await pipelining(peer);
      await peer.message({ rcpt: ['250 ok', '550 5.1.1 no such user'] });
    });
    const told: RecipientResult[][] = [];
    await send({
      to: ['r0@example.test', 'r1@example.test'],
      beforeDot: async () => {
        if (ending(mx.peers[0]) === false) return false;
        // What the server did has arrived by then.
        await sleep(100);
        return true;
      },
      afterDot: (results) => told.push(results),
    });
    t.match(told, [[{ recipient: 'r0@example.test', outcome: 'deferred', uncertain: false, ...expected }]], name);
    t.equal(told.flat().length, 1, 'and only about those whom the dot was for');
  }
});

t.test('an aborted attempt defers, and is in doubt only after the dot', async (t) => {
  const table: [name: string, script: Script, uncertain: boolean][] = [
    ['at the greeting', async () => {}, false],
    [
      'at RCPT',
      async (peer) => {
        await plain(peer);
        await peer.answer('250 ok');
      },
      false,
    ],
    [
      'after the dot',
      async (peer) => {
        await plain(peer);
        await peer.message({ dot: null });
      },
      true,
    ],
  ];
  for (const [name, script, uncertain] of table) {
    const ended = new AbortController();
    const { send } = await startScripted(t, async (peer) => {
      await script(peer);
      setTimeout(() => ended.abort(), 20);
    });
    const started = performance.now();
    t.match(resultOf(await send({ signal: ended.signal })), { outcome: 'deferred', uncertain }, name);
    t.ok(performance.now() - started < 15_000, 'at once');
  }
  const ended = new AbortController();
  const kept = await startScripted(t, async (peer) => {
    await plain(peer);
    await peer.message();
    await peer.message({ dot: null });
    setTimeout(() => ended.abort(), 20);
  });
  t.match(resultOf(await kept.send()), { outcome: 'delivered' });
  const started = performance.now();
  t.match((await kept.send({ signal: ended.signal })).sessions, [
    { reused: true, results: [{ outcome: 'deferred', uncertain: true }] },
  ]);
  t.ok(performance.now() - started < 15_000, 'at once over a kept connection, too');
  const { send, mx } = await startScripted(t, () => {});
  t.match(resultOf(await send({ signal: AbortSignal.abort() })), { outcome: 'deferred', phase: 'local' });
  t.equal(mx.peers.length, 0);
});

t.test('what a server said about EHLO is not why an attempt ended that waits for HELO', async (t) => {
  const ended = new AbortController();
  const { send } = await startScripted(t, async (peer) => {
    peer.send('220 mx\r\n');
    await peer.answer('502 no');
    await peer.until('HELO');
    ended.abort();
  });
  t.match(resultOf(await send({ signal: ended.signal })), { outcome: 'deferred', reply: null, class: 'other' });
});

t.test('an aborted attempt does not wait for DNS', { timeout: 30_000 }, async (t) => {
  const never = () => new Promise<never>(() => {});
  for (const silent of [{ resolveMx: never }, { resolve4: never, resolve6: never }]) {
    const ended = new AbortController();
    const scene = await startScene(t, 25);
    Object.assign(scene.transport.resolver, silent);
    setTimeout(() => ended.abort(), 100);
    t.match(resultOf(await scene.send({ signal: ended.signal })), {
      outcome: 'deferred',
      phase: 'local',
      class: 'other',
      uncertain: false,
    });
  }
});

t.test('an attempt aborted before every host was asked decides nothing for good', async (t) => {
  const mx = await startMx(t, () => {});
  const scene = await startScene(t, mx.port, {
    'example.test': {
      MX: [
        [10, 'gone.example.test'],
        [20, 'mx.example.test'],
      ],
    },
  });
  const ended = new AbortController();
  const { resolver } = scene.transport;
  const { resolve4 } = resolver;
  resolver.resolve4 = (name) => {
    if (name === 'mx.example.test') ended.abort();
    return resolve4(name);
  };
  const { sessions } = await scene.send({ signal: ended.signal });
  t.match(sessions, [{ host: 'gone.example.test', results: [{ outcome: 'deferred', enhanced: '5.4.4' }] }]);
  t.equal(sessions.length, 1);
  t.equal(mx.peers.length, 0);
});

t.test('an attempt that begins when its time is over waits for no name server', async (t) => {
  const scene = await startScene(t, await freePort());
  scene.transport.resolver.resolveMx = () => new Promise(() => undefined);
  const result = resultOf(await scene.send({ signal: AbortSignal.abort() }));
  t.match(result, { outcome: 'deferred', phase: 'local', class: 'other' });
});

t.test('MX-10: a transaction that was slow up to the dot still waits the full time for its reply', async (t) => {
  const once = async (times: number) => {
    const { send } = await startScripted(
      t,
      async (peer) => {
        const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms * times));
        await plain(peer);
        for (const [end, ms, reply] of [
          ['\r\n', 350, '250 ok'],
          ['\r\n', 350, '250 ok'],
          ['DATA\r\n', 0, '354 go'],
          ['\r\n.\r\n', 3_500, '250 taken'],
        ] as const) {
          await peer.until(end);
          await later(ms);
          peer.send(`${reply}\r\n`);
        }
      },
      { deadlines: { transaction: 3_000 * times, dot: 60_000 } },
    );
    return resultOf(await send());
  };
  let result = await once(1);
  // If the machine stalled, time may run out before the dot.
  for (let times = 2; times < 8 && result.phase !== 'dot'; times *= 2) result = await once(times);
  t.match(result, { outcome: 'delivered', phase: 'dot' });
});

t.test('a large message gets the time that a slow link needs, beyond the deadline of its transaction', async (t) => {
  const { send } = await startScripted(
    t,
    async (peer) => {
      await plain(peer);
      for (const reply of ['250 ok', '250 ok', '354 go']) await peer.answer(reply);
      peer.socket.pause();
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      peer.socket.resume();
      await peer.until('\r\n.\r\n');
      peer.send('250 taken\r\n');
    },
    { deadlines: { transaction: 1_500, minBytesPerSecond: 100_000 } },
  );
  const big = message('x'.repeat(70).concat('\r\n').repeat(200_000));
  t.match(resultOf(await send({ message: big })), { outcome: 'delivered', phase: 'dot' });
});
