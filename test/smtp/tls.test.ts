import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext, TLSSocket } from 'node:tls';
import t from 'tap';
import { type Peer, startSink } from '../support/mx.ts';
import { certificate } from '../support/sink.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { resultOf, startMx, startScene, startScripted, twoHosts } from './scene.ts';

t.test('STARTTLS is used if offered; a certificate that nobody signed is accepted', async (t) => {
  const sink = await startSink({ tls: true });
  t.teardown(() => sink.close());
  const { send } = await startScene(t, sink.port);
  const { sessions } = await send();
  t.match(sessions, [
    { tls: { version: 'TLSv1.3', cipher: /^TLS_/, authorized: false }, results: [{ outcome: 'delivered' }] },
  ]);
  t.match(sink.messages, [{ tls: true, from: 'a@sender.test', to: ['b@example.test'] }]);
});

t.test('inside TLS the server is asked again what it can do', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    await peer.greet('STARTTLS', 'SIZE 1', 'PIPELINING');
    await peer.answer('220 go');
    await peer.startTls();
    await peer.answer('250 mx.example.test');
    await peer.message();
  });
  t.match(resultOf(await send()), { outcome: 'delivered' });
  t.match(mx.peers[0]?.received.toString(), /STARTTLS\r\nEHLO client\.test\r\nMAIL FROM:<a@sender\.test>\r\n/);
});

t.test('an old version of TLS is better than none, unless TLS is asked for', async (t) => {
  for (const version of ['TLSv1', 'TLSv1.1'] as const) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet('STARTTLS');
      await peer.answer('220 go');
      await peer.startTls({ minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' });
      await peer.answer('250 mx.example.test');
      await peer.message();
      await peer.answer('250 reset');
    });
    t.match((await send()).sessions, [{ tls: { version }, results: [{ outcome: 'delivered' }] }], version);
    const asked = await send({ tls: { level: 'required', by: 'the email' } });
    t.match(asked.sessions, [{ tls: null, reused: false, results: [{ outcome: 'deferred', phase: 'starttls' }] }]);
    t.equal(mx.peers.length, 2, 'the kept connection is not used for it');
  }
});

t.test('SMG-06: clear text sent along with the reply to STARTTLS ends the session', async (t) => {
  const injections = ['250-mx.example.test\r\n250 SIZE 1\r\n', '250 ok\r\n', '250', 'x'];
  for (const injected of injections) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet('STARTTLS');
      await peer.answer(`220 go\r\n${injected}`.replace(/\r\n$/, ''));
      await peer.until('never');
    });
    const { sessions } = await send();
    t.match(
      sessions,
      [{ tls: null, results: [{ outcome: 'deferred', phase: 'starttls', class: 'protocol' }] }],
      JSON.stringify(injected),
    );
    t.equal(mx.peers.length, 1);
    t.ok(mx.peers[0]?.received.toString().endsWith('STARTTLS\r\n'), 'not even a handshake');
  }
});

t.test('if TLS fails, one new connection goes without it', async (t) => {
  const refused = { 454: '454 4.7.0 not now', 554: '554 no' };
  const failures = {
    ...refused,
    'no handshake': '220 go',
    'a broken handshake': '220 go',
    'a closed connection': '220 go',
    'a closed connection instead of an answer': null,
  };
  for (const [name, reply] of Object.entries(failures)) {
    const { send, mx } = await startScripted(
      t,
      async (peer, number) => {
        await peer.greet('STARTTLS');
        if (number > 0) {
          await peer.message();
          return;
        }
        if (reply === null) await peer.line();
        else await peer.answer(reply);
        if (name === 'no handshake') await peer.until('never');
        if (name === 'a broken handshake') peer.send('this is not TLS at all, and never was\r\n');
        if (name.startsWith('a closed connection')) peer.socket.destroy();
      },
      { deadlines: name === 'no handshake' ? { starttls: 400 } : {} },
    );
    const { sessions } = await send();
    t.match(
      sessions,
      [
        { host: 'mx.example.test', tls: null, results: [{ outcome: 'deferred', phase: 'starttls' }] },
        { host: 'mx.example.test', tls: null, results: [{ outcome: 'delivered', phase: 'dot' }] },
      ],
      name,
    );
    t.equal(mx.peers.length, 2);
    t.notMatch(mx.peers[1]?.received.toString(), 'STARTTLS');
  }
});

t.test('TLS that failed once keeps no mail in clear for long', async (t) => {
  const takesAll = async (peer: Peer) => {
    for (;;) await peer.message();
  };
  const withoutTls = async (peer: Peer, number: number) => {
    await peer.greet('STARTTLS');
    // Each second connection goes without it.
    if (number % 2 === 0) await peer.answer('454 4.7.0 not now');
    await takesAll(peer);
  };
  const first = await startMx(t, withoutTls);
  const withTls = async (peer: Peer) => {
    await peer.greet('STARTTLS');
    await peer.answer('220 go');
    await peer.startTls();
    await peer.answer('250 mx.example.test');
    await takesAll(peer);
  };
  await startMx(t, withTls, { host: '127.0.0.2', port: first.port });
  const equal: ZoneEntry = {
    MX: [
      [10, 'mx1.example.test'],
      [10, 'mx2.example.test'],
    ],
  };
  let drawn = 0;
  let isSecondFirst = false;
  const random = () => (isSecondFirst && drawn++ % 2 === 0 ? 1 : 0);
  const { send } = await startScene(t, first.port, { ...twoHosts, 'example.test': equal }, { random });
  const sendOne = async () => (await send()).sessions;
  const inClear = { host: 'mx1.example.test', tls: null, results: [{ outcome: 'delivered' }] };
  t.match(await sendOne(), [{ results: [{ phase: 'starttls' }] }, inClear]);
  t.match(await sendOne(), [{ ...inClear, reused: true }], 'the same draw: another message goes the same way');
  isSecondFirst = true;
  const byTls = { host: 'mx2.example.test', tls: { version: 'TLSv1.3' }, results: [{ outcome: 'delivered' }] };
  t.match(await sendOne(), [{ ...byTls, reused: false }], 'a connection in clear attracts none from an equal host');
  isSecondFirst = false;
  t.match(await sendOne(), [{ ...byTls, reused: true }], 'one with TLS does');

  // The third connection has TLS: mail that asks for it takes none in clear.
  const mended = await startScripted(t, (peer, number) => (number < 2 ? withoutTls(peer, number) : withTls(peer)));
  await mended.send();
  const required = { level: 'required', by: 'the TLS setting of this email' } as const;
  t.match((await mended.send({ tls: required })).sessions, [{ reused: false, tls: { version: 'TLSv1.3' } }]);
  const { pool } = mended.transport;
  const inUse = pool.take('mx.example.test', ({ tls }) => tls === null);
  if (inUse) pool.release(inUse);
  t.equal(pool.size, 2, 'the one in clear was used last');
  t.match((await mended.send()).sessions, [{ reused: true, tls: { version: 'TLSv1.3' } }], 'of two to one host, too');

  const acrossConnections = async (clearForMs: number) => {
    const pool = { maxAgeMs: 3_600_000, idleMs: 3_600_000, clearForMs };
    const { send, transport } = await startScripted(t, withoutTls, { pool });
    await send();
    const kept = transport.pool.size;
    // As long as it takes until it is closed.
    for (let waits = 0; transport.pool.size > 0 && clearForMs < 60_000 && waits < 500; waits += 1) await sleep(20);
    return { kept, left: transport.pool.size, sessions: (await send()).sessions.length };
  };
  t.same(await acrossConnections(3_600_000), { kept: 1, left: 1, sessions: 1 });
  let short = await acrossConnections(500);
  // On a slow machine it was never kept.
  for (let ms = 1_000; ms < 20_000 && short.kept === 0; ms *= 2) short = await acrossConnections(ms);
  t.same(short, { kept: 1, left: 0, sessions: 2 }, 'after a while TLS is tried again');
});

t.test('a connection that is lost before TLS was offered is no reason to go without it', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    peer.send('220 hi\r\n');
    await peer.line();
    peer.socket.destroy();
  });
  t.match(await send(), { sessions: [{ results: [{ outcome: 'deferred', phase: 'ehlo' }] }] });
  t.equal(mx.peers.length, 1);
});

t.test('if TLS breaks before the server has said anything inside it, one new connection goes without it', async (t) => {
  // With TLS 1.3 a client that has no certificate learns only after its handshake that the server wants one.
  const askForCertificate = async (peer: Peer) => {
    const { key, cert } = certificate();
    peer.socket.removeAllListeners('data');
    const secureContext = createSecureContext({ key, cert, minVersion: 'TLSv1.3' });
    const options = { isServer: true, requestCert: true, rejectUnauthorized: true, secureContext };
    peer.socket = new TLSSocket(peer.socket, options).on('error', () => peer.socket.destroy());
    await once(peer.socket, 'close');
  };
  const failures: Record<string, (peer: Peer) => Promise<unknown>> = {
    'a certificate of the client is missing': askForCertificate,
    'a closed connection': async (peer) => {
      await peer.startTls();
      await peer.line();
      peer.socket.destroy();
    },
    silence: async (peer) => {
      await peer.startTls();
      await peer.until('never');
    },
  };
  for (const [name, fail] of Object.entries(failures)) {
    const { send, mx, transport } = await startScripted(
      t,
      async (peer, number) => {
        await peer.greet('STARTTLS');
        if (number === 0 || number === 2) {
          await peer.answer('220 go');
          await fail(peer);
        }
        await peer.message();
      },
      { deadlines: name === 'silence' ? { ehlo: 400 } : {} },
    );
    const { sessions } = await send();
    t.match(
      sessions,
      [
        { host: 'mx.example.test', tls: { version: /^TLS/ }, results: [{ outcome: 'deferred', phase: 'ehlo' }] },
        { host: 'mx.example.test', tls: null, results: [{ outcome: 'delivered', phase: 'dot' }] },
      ],
      name,
    );
    const required = await send({ tls: { level: 'required', by: 'the TLS setting of this email' } });
    t.match(
      resultOf(required),
      { outcome: 'deferred', class: 'protocol', reason: /, and TLS is required by the TLS setting of this email\.$/ },
      `${name}, but TLS is required`,
    );
    t.match(transport.tlsResults.take(), [{ result: 'validation-failure', sessions: 2 }]);
    t.equal(mx.peers.length, 3);
  }
});

t.test(
  'the new connection without TLS belongs to the same session: even the last session of an attempt may use it',
  async (t) => {
    /** Offers TLS but fails at it; in clear text it takes mail, or is busy. */
    const withoutTls = (busy: boolean) => async (peer: Peer, number: number) => {
      await peer.greet('STARTTLS');
      if (number === 0) await peer.answer('454 4.7.0 not now');
      else if (busy) await peer.answer('421 4.3.2 busy');
      else await peer.message();
    };
    const table: [name: string, first: (peer: Peer, number: number) => unknown, connections: number][] = [
      ['the first host is busy', (peer) => peer.send('421 4.3.2 busy\r\n'), 1],
      ['the first host has no TLS either, and is busy in clear', withoutTls(true), 2],
    ];
    for (const [name, script, connections] of table) {
      const first = await startMx(t, async (peer, number) => void (await script(peer, number)));
      const second = await startMx(t, withoutTls(false), { host: '127.0.0.2', port: first.port });
      const { send } = await startScene(t, first.port, twoHosts);
      const { sessions } = await send();
      t.match(sessions.at(-1), { host: 'mx2.example.test', tls: null, results: [{ outcome: 'delivered' }] }, name);
      t.same([first.peers.length, second.peers.length], [connections, 2], name);
    }

    // The fifth address too.
    const port = (await startMx(t, withoutTls(false))).port;
    const dead = ['127.0.0.11', '127.0.0.12', '127.0.0.13', '127.0.0.14'];
    const { send } = await startScene(t, port, { 'mx.example.test': { A: [...dead, '127.0.0.1'] } });
    t.match(resultOf(await send()), { outcome: 'delivered' });
  },
);

t.test('a server that takes mail over TLS alone, and has none just now, has not refused it', async (t) => {
  const demands = '530 5.7.0 Must issue a STARTTLS command first';
  /** Its certificate cannot be read, say. */
  const broken = (offers: string, refusal: string) => async (peer: Peer, number: number) => {
    await (offers === '' ? peer.greet() : peer.greet(offers));
    if (number === 0 && offers) await peer.answer('454 4.7.0 TLS not available due to local problem');
    else await peer.answer(refusal);
  };
  const table: [offers: string, refusal: string, outcome: string][] = [
    ['STARTTLS', demands, 'deferred'],
    ['STARTTLS', '550 5.7.10 Encryption needed', 'deferred'],
    ['STARTTLS', '550 5.7.10 암호화', 'deferred'],
    ['STARTTLS', '530 5.7.0 Authentication required', 'bounced'],
    ['', demands, 'bounced'],
  ];
  for (const [offers, refusal, outcome] of table) {
    const { send } = await startScripted(t, async (peer, number) => void (await broken(offers, refusal)(peer, number)));
    t.match(resultOf(await send()), { outcome, phase: 'mail', class: 'policy' }, `${offers} ${refusal}`);
  }
  const first = await startMx(t, broken('STARTTLS', demands));
  await startMx(
    t,
    async (peer) => {
      await peer.greet();
      await peer.message();
    },
    { host: '127.0.0.2', port: first.port },
  );
  const { send } = await startScene(t, first.port, twoHosts);
  const { sessions } = await send();
  t.match(sessions.at(-1), { host: 'mx2.example.test', results: [{ outcome: 'delivered' }] }, 'another may have some');

  const mended = await startScripted(t, async (peer, number) => {
    await peer.greet('STARTTLS');
    if (number === 0) return void (await peer.answer('454 4.7.0 not now'));
    if (number === 1) for (const reply of [demands, '250 reset', demands]) await peer.answer(reply);
    await peer.answer('220 go');
    await peer.startTls();
    await peer.answer('250 mx.example.test');
    await peer.message();
  });
  t.match(resultOf(await mended.send()), { outcome: 'deferred' });
  const { sessions: next } = await mended.send();
  t.match(
    next,
    [{ tls: { version: 'TLSv1.3' }, reused: false, results: [{ outcome: 'delivered' }] }],
    'not in clear again',
  );
});

t.test('MX-10: TLS that breaks in the middle of the message leaves no doubt', async (t) => {
  const { send } = await startScripted(t, async (peer) => {
    await peer.greet('STARTTLS');
    await peer.answer('220 go');
    await peer.startTls();
    await peer.answer('250 mx.example.test');
    for (const reply of ['250 ok', '250 ok', '354 go']) await peer.answer(reply);
    await peer.until('x\r\n');
    peer.socket.end();
    peer.socket.pause();
    await peer.until('never');
  });
  const big = Buffer.from('x'.repeat(70).concat('\r\n').repeat(200_000));
  t.match(resultOf(await send({ message: big })), { outcome: 'deferred', phase: 'data', uncertain: false });
});
