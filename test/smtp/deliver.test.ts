import { connect } from 'node:net';
import t from 'tap';
import { parseNetwork } from '../../src/ip.ts';
import { DnsCache } from '../../src/smtp/dns/resolver.ts';
import { SilentHosts } from '../../src/smtp/dns/silent-hosts.ts';
import type { Peer } from '../support/mx.ts';
import { freePort } from '../support/ports.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { countWaits, resultOf, startMx, startScene, twoHosts } from './scene.ts';

const accept = async (peer: Peer) => {
  await peer.greet();
  await peer.message();
};

t.test('MX-09: if the first host fails, the second takes the mail in the same attempt', async (t) => {
  const bad: Record<string, (peer: Peer) => unknown> = {
    '554 greeting': (peer) => peer.send('554 no\r\n'),
    '421 greeting': (peer) => peer.send('421 busy\r\n'),
    'closed at once': (peer) => peer.socket.destroy(),
    'no greeting': () => {},
    'garbage greeting': (peer) => peer.send('HTTP/1.1 400 Bad Request\r\n'),
    'EHLO and HELO refused': async (peer) => {
      peer.send('220 hi\r\n');
      await peer.answer('550 no');
      await peer.answer('550 no');
    },
    '421 at MAIL': async (peer) => {
      await peer.greet();
      await peer.answer('421 going down');
    },
    '421 at RCPT': async (peer) => {
      await peer.greet('PIPELINING');
      for (const reply of ['250 ok', '421 going down']) await peer.answer(reply);
    },
    'closed at DATA': async (peer) => {
      await peer.greet();
      for (const reply of ['250 ok', '250 ok']) await peer.answer(reply);
      await peer.line();
      peer.socket.destroy();
    },
  };
  for (const [name, script] of Object.entries(bad)) {
    const first = await startMx(t, async (peer) => void (await script(peer)));
    const second = await startMx(t, accept, { host: '127.0.0.2', port: first.port });
    const { send } = await startScene(t, first.port, twoHosts, {
      deadlines: name === 'no greeting' ? { greeting: 1_500 } : {},
    });
    const { sessions } = await send();
    t.match(
      sessions,
      [
        { host: 'mx1.example.test', remoteAddress: '127.0.0.1', results: [{ outcome: 'deferred', uncertain: false }] },
        { host: 'mx2.example.test', remoteAddress: '127.0.0.2', results: [{ outcome: 'delivered' }] },
      ],
      name,
    );
    t.equal(second.peers.length, 1);
  }
});

t.test('a host of lower preference gets its turn, however many better ones do not answer', async (t) => {
  const mx = await startMx(t, accept, { host: '127.0.0.9' });
  const better = Array.from({ length: 3 }, (_, at): [number, string] => [10, `mx${at}.example.test`]);
  const zone: Record<string, ZoneEntry> = {
    'example.test': { MX: [...better, [20, 'backup.example.test']] },
    ...Object.fromEntries(
      better.map(([, name], at) => [name, { A: [`127.0.0.${2 * at + 2}`, `127.0.0.${2 * at + 3}`] }]),
    ),
    'backup.example.test': { A: ['127.0.0.9'] },
  };
  const { send } = await startScene(t, mx.port, zone);
  const { sessions } = await send();
  t.match(sessions.at(-1), { host: 'backup.example.test', results: [{ outcome: 'delivered' }] });
});

t.test(
  'the best of five preferences is tried at three addresses, and each of the next two gets its turn',
  async (t) => {
    for (const alive of ['127.0.0.12', '127.0.0.20', '127.0.0.30']) {
      const mx = await startMx(t, accept, { host: alive });
      const { send } = await startScene(t, mx.port, {
        'example.test': { MX: [1, 2, 3, 4, 5].map((at) => [10 * at, `mx${at}.example.test`]) },
        'mx1.example.test': { A: ['127.0.0.10', '127.0.0.11', '127.0.0.12', '127.0.0.13'] },
        'mx2.example.test': { A: ['127.0.0.20', '127.0.0.21'] },
        'mx3.example.test': { A: ['127.0.0.30'] },
        'mx4.example.test': { A: ['127.0.0.40'] },
        'mx5.example.test': { A: ['127.0.0.50'] },
      });
      t.match((await send()).sessions.at(-1), { remoteAddress: alive, results: [{ outcome: 'delivered' }] });
    }
  },
);

t.test('a host that does not answer is waited for by one message a minute, if another takes the mail', async (t) => {
  const silent = await startMx(t, () => new Promise<void>(() => {}));
  const acceptAll = async (peer: Peer) => {
    await peer.greet();
    for (;;) await peer.message();
  };
  const second = await startMx(t, acceptAll, { host: '127.0.0.2', port: silent.port });
  const { send } = await startScene(t, silent.port, twoHosts, { deadlines: { greeting: 400 } });
  t.match((await send()).sessions, [{ host: 'mx1.example.test' }, { host: 'mx2.example.test' }]);
  const { sessions } = await send();
  t.match(sessions, [{ host: 'mx2.example.test', results: [{ outcome: 'delivered' }] }]);
  t.equal(sessions.length, 1);
  const notes = sessions[0]?.conversation.map(({ text }) => text);
  t.ok(notes?.includes('tried last, because it did not answer lately: mx1.example.test'));
  t.equal(silent.peers.length, 1);

  await second.close();
  const { sessions: both } = await send();
  t.match(
    both.map(({ host }) => host),
    ['mx2.example.test', 'mx1.example.test'],
    'the others have their turn nevertheless',
  );
  await silent.close();
  await startMx(t, acceptAll, { port: silent.port });
  t.match((await send()).sessions, [{ host: 'mx2.example.test' }, { host: 'mx1.example.test' }]);
  await startMx(t, acceptAll, { host: '127.0.0.2', port: silent.port });
  t.match((await send()).sessions, [{ host: 'mx1.example.test' }], 'once it answers, it is in its place again');
});

t.test('a host whose name servers do not answer is waited for by one message a minute too', async (t) => {
  const { port } = await startMx(
    t,
    async (peer) => {
      await peer.greet();
      for (;;) await peer.message();
    },
    { host: '127.0.0.2' },
  );
  const { send } = await startScene(t, port, { ...twoHosts, 'mx1.example.test': 'drop' });
  t.match((await send()).sessions, [{ host: 'mx1.example.test', results: [{ phase: 'dns' }] }, {}]);
  const { sessions } = await send();
  t.match(sessions, [{ host: 'mx2.example.test', results: [{ outcome: 'delivered' }] }]);
  t.equal(sessions.length, 1);
});

t.test('that a silent host did not get its turn ends no delivery', async (t) => {
  const silent = await startMx(t, () => new Promise<void>(() => {}));
  const zone: Record<string, ZoneEntry> = {
    'example.test': {
      MX: [
        [10, 'mx1.example.test'],
        [20, 'us.test'],
      ],
    },
    'mx1.example.test': { A: ['127.0.0.1'] },
    'us.test': { A: ['127.0.0.9'] },
  };
  const { send } = await startScene(t, silent.port, zone, {
    deadlines: { greeting: 400 },
    ownAddresses: ['127.0.0.9'],
    allowPrivate: [parseNetwork('127.0.0.0/8')],
  });
  t.match(resultOf(await send()), { outcome: 'deferred' });
  const again = await send();
  t.match(again.sessions, [{ host: 'us.test' }]);
  t.match(resultOf(again), { outcome: 'deferred' });
});

t.test('a silent host comes last for a minute, and then one attempt has it in its turn', async (t) => {
  let now = 0;
  const hosts = ['a', 'b', 'c'].map((name, at) => ({ name, preference: at }));
  const silent = new SilentHosts(() => now);
  const order = () => {
    const { first, last } = silent.split(hosts);
    return [...first, ...last].map(({ name }) => name).join('');
  };
  t.equal(order(), 'abc');
  silent.note('a');
  t.equal(order(), 'bca');
  now = 60_000;
  t.equal(order(), 'abc');
  t.equal(order(), 'bca', 'only one');
  silent.answered('a');
  t.equal(order(), 'abc');
});

t.test('MX-09: an address that refuses the connection costs nothing', async (t) => {
  const mx = await startMx(t, accept, { host: '127.0.0.2' });
  const { send } = await startScene(t, mx.port, twoHosts);
  const { sessions } = await send();
  t.match(sessions, [
    {
      localAddress: null,
      results: [{ outcome: 'deferred', phase: 'connect', class: 'network', reason: /ECONNREFUSED/ }],
    },
    { results: [{ outcome: 'delivered' }] },
  ]);
});

t.test('a verdict is final: no other host is asked', async (t) => {
  const verdicts = [
    { mail: '550 no' },
    // They want less mail, and another of their hosts would not want more.
    { mail: '451 4.7.1 Rate limit exceeded for 192.0.2.1' },
    { data: '450 4.7.1 Too many messages, slow down' },
    { data: '452 4.5.3 Too many recipients' },
    { rcpt: ['550 no'] },
    { rcpt: ['451 later'] },
    { data: '554 no' },
    { dot: '451 later' },
    { dot: '421 closing' },
    { dot: '554 no' },
  ];
  for (const replies of verdicts) {
    const first = await startMx(t, async (peer) => {
      await peer.greet();
      await peer.message(replies);
    });
    const second = await startMx(t, accept, { host: '127.0.0.2', port: first.port });
    const { send } = await startScene(t, first.port, twoHosts);
    t.not(resultOf(await send()).outcome, 'delivered', JSON.stringify(replies));
    t.equal(second.peers.length, 0);
  }
});

t.test('MX-09: if MAIL or DATA is deferred, the next host is tried, and both are in the report', async (t) => {
  const to = ['r0', 'r1', 'r2'].map((name) => `${name}@example.test`);
  const [r0 = '', r1 = '', r2 = ''] = to;
  const rcpt = ['250 ok', '550 5.1.1 no such user', '250 ok'];
  const unreached = '503 no sender';
  const table: [phase: 'mail' | 'data', replies: NonNullable<Parameters<Peer['message']>[0]>, moved: string[]][] = [
    ['mail', { mail: '451 4.3.0 later', rcpt: to.map(() => unreached), data: unreached }, to],
    ['data', { rcpt, data: '451 4.3.0 later' }, [r0, r2]],
  ];
  for (const [phase, replies, moved] of table) {
    for (const keywords of [[], ['PIPELINING']]) {
      const put = async (peer: Peer) => {
        await peer.greet(...keywords);
        await peer.message(replies);
      };
      const first = await startMx(t, put);
      const where = { host: '127.0.0.2', port: first.port };
      const second = await startMx(
        t,
        async (peer) => {
          await peer.greet(...keywords);
          await peer.message({ rcpt: moved.map(() => '250 ok') });
        },
        where,
      );
      const { send } = await startScene(t, first.port, twoHosts);
      const delivery = await send({ to });
      const later = { outcome: 'deferred', phase, reply: { code: 451 }, uncertain: false };
      const [one, two] = delivery.sessions;
      for (const recipient of moved)
        t.match(
          one?.results.find((result) => result.recipient === recipient),
          later,
        );
      t.match(two, {
        host: 'mx2.example.test',
        results: moved.map((recipient) => ({ recipient, outcome: 'delivered' })),
      });
      if (phase === 'data') t.match(resultOf(delivery, r1), { outcome: 'bounced', phase: 'rcpt' });
      t.same([delivery.sessions.length, first.peers.length, second.peers.length], [2, 1, 1]);
    }
  }
});

t.test('if every host defers MAIL, two are tried, even if their connections were already open', async (t) => {
  const zone = {
    'example.test': { MX: [1, 2, 3].map((at): [number, string] => [at, `mx${at}.example.test`]) },
    ...Object.fromEntries([1, 2, 3].map((at) => [`mx${at}.example.test`, { A: [`127.0.0.${at}`] }])),
    ...Object.fromEntries(
      [1, 2, 3].map((at) => [`only${at}.test`, { MX: [[1, `mx${at}.example.test`]] as [number, string][] }]),
    ),
  };
  // The kept connection is dropped, because it may be the only one that had enough.
  const put = async (peer: Peer, number: number) => {
    await peer.greet();
    if (number === 0) await peer.message();
    for (;;) await peer.answer('451 4.3.0 later');
  };
  const first = await startMx(t, put);
  for (const host of ['127.0.0.2', '127.0.0.3']) await startMx(t, put, { host, port: first.port });
  const { send } = await startScene(t, first.port, zone);
  for (const at of [1, 2, 3])
    t.match(resultOf(await send({ destination: `only${at}.test` })), { outcome: 'delivered' });
  const later = { reused: false, results: [{ outcome: 'deferred', phase: 'mail', reply: { code: 451 } }] };
  const { sessions } = await send();
  t.match(sessions, [
    { host: 'mx1.example.test', ...later },
    { host: 'mx2.example.test', ...later },
  ]);
  t.equal(sessions.length, 2);
});

t.test('recipients that only a later host rejects temporarily wait for the host that deferred them', async (t) => {
  const first = await startMx(t, async (peer) => {
    await peer.greet();
    await peer.message({ mail: '451 4.3.0 later' });
  });
  await startMx(t, (peer) => peer.greet('SIZE 10'), { host: '127.0.0.2', port: first.port });
  const { send } = await startScene(t, first.port, twoHosts);
  const { sessions } = await send();
  t.match(sessions, [
    { results: [{ outcome: 'deferred', phase: 'mail' }] },
    { results: [{ outcome: 'deferred', phase: 'local', enhanced: '5.3.4' }] },
  ]);
});

t.test('only recipients whose turn was cut short go to the next host', async (t) => {
  const first = await startMx(t, async (peer) => {
    await peer.greet('PIPELINING');
    for (const reply of ['250 ok', '250 ok', '550 5.1.1 no such user', '421 going down']) await peer.answer(reply);
  });
  const second = await startMx(
    t,
    async (peer) => {
      await peer.greet('PIPELINING');
      await peer.message();
      await peer.message();
    },
    { host: '127.0.0.2', port: first.port },
  );
  const { send } = await startScene(t, first.port, twoHosts);
  const delivery = await send({ to: ['r0@example.test', 'r1@example.test', 'r2@example.test'] });
  t.same(
    delivery.sessions.map(({ results }) => results.map((result) => result.recipient[1])),
    [
      ['0', '1', '2'],
      ['0', '2'],
    ],
  );
  t.equal(resultOf(delivery, 'r1@example.test').outcome, 'bounced');
  t.equal(resultOf(delivery, 'r2@example.test').outcome, 'delivered');
  t.notMatch(second.peers[0]?.received.toString(), 'r1@example.test');
});

t.test('DOS-11: an attempt makes at most two sessions and tries at most five addresses', async (t) => {
  const many = Array.from({ length: 100 }, (_, at): [number, string] => [at, `mx${at}.example.test`]);
  const names = many.map(([, name], at) => [name, { A: [`127.0.0.${at + 1}`] }]);
  const zone = { 'example.test': { MX: many }, ...Object.fromEntries(names) };

  const greeters = [await startMx(t, (peer) => peer.send('421 storm\r\n'))];
  for (let at = 2; at <= 10; at++) {
    greeters.push(
      await startMx(t, (peer) => peer.send('554 no\r\n'), { host: `127.0.0.${at}`, port: greeters[0]?.port ?? 0 }),
    );
  }
  const greeted = await startScene(t, greeters[0]?.port ?? 0, zone);
  const { sessions } = await greeted.send();
  t.equal(sessions.length, 2);
  t.match(sessions.at(-1), { results: [{ outcome: 'deferred', phase: 'greeting' }] });
  t.equal(
    greeters.reduce((sum, mx) => sum + mx.peers.length, 0),
    2,
  );

  const refused = await startScene(t, await freePort(), zone);
  t.equal((await refused.send()).sessions.length, 5);
});

t.test('hosts that have no address do not keep those behind them from getting their turn', async (t) => {
  const nowhere = Array.from({ length: 29 }, (_, at): [number, string] => [at, `gone${at}.example.test`]);
  const { port } = await startMx(t, accept);
  const { send } = await startScene(t, port, { 'example.test': { MX: [...nowhere, [50, 'mx.example.test']] } });
  t.match(resultOf(await send()), { outcome: 'delivered' });
});

t.test('SSRF-09: no connection ever goes to a private address or to ourselves', async (t) => {
  let dialled = 0;
  const zone = {
    'mx.test': { MX: [[10, 'inside.test']] as [number, string][] },
    'inside.test': {
      A: ['127.0.0.1', '10.0.0.1', '0.0.0.0', '169.254.169.254'],
      AAAA: ['::1', '::ffff:127.0.0.1', 'fd00::1'],
    },
    'a.test': { A: ['127.0.0.1'] },
    'own-host.test': { MX: [[10, 'client.test']] as [number, string][] },
    'own-ip.test': { MX: [[10, 'points-at-us.test']] as [number, string][] },
    'points-at-us.test': { A: ['9.9.9.9'] },
    'literal.test': { MX: [[10, '127.0.0.1']] as [number, string][] },
    'many.test': {
      MX: [
        [10, 'inside.test'],
        [20, 'a.test'],
        [30, 'gone.test'],
      ] as [number, string][],
    },
  };
  const mx = await startMx(t, accept);
  const { send } = await startScene(t, mx.port, zone, {
    allowPrivate: false,
    ownAddresses: ['9.9.9.9'],
    connect: (options) => {
      dialled += 1;
      return connect(options);
    },
  });
  const closed = { outcome: 'deferred', enhanced: '4.4.4', class: 'network' };
  const loop = { outcome: 'bounced', enhanced: '5.4.6', class: 'sender' };
  const table: [destination: string, expected: object][] = [
    ['mx.test', closed],
    ['a.test', { outcome: 'bounced', enhanced: '5.4.4', class: 'network' }],
    ['own-host.test', loop],
    ['client.test', { outcome: 'bounced', enhanced: '5.1.2', class: 'bad_domain' }],
    ['own-ip.test', loop],
    ['literal.test', { outcome: 'bounced', enhanced: '5.4.4', class: 'network' }],
    ['many.test', { outcome: 'deferred' }],
  ];
  for (const [destination, expected] of table) {
    const result = resultOf(await send({ destination }));
    t.match(result, { phase: 'dns', reply: null, ...expected }, destination);
  }
  t.equal(dialled, 0);
  t.equal(mx.peers.length, 0);
});

t.test('mail never goes past ourselves to a worse host, however we are recognized', async (t) => {
  const us: Record<string, { name: string; zone: ZoneEntry; greets?: string; outcome: string }> = {
    'by its name': { name: 'client.test', zone: { A: ['127.0.0.1'] }, outcome: 'bounced' },
    'by its greeting': { name: 'us.test', zone: { A: ['127.0.0.1'] }, greets: 'client.test', outcome: 'bounced' },
    'by its address': { name: 'us.test', zone: { A: ['127.0.0.9'] }, outcome: 'bounced' },
    'by one of its addresses': { name: 'us.test', zone: { A: ['127.0.0.9', '127.0.0.1'] }, outcome: 'deferred' },
  };
  for (const [how, { name, zone, greets = 'busy.test', outcome }] of Object.entries(us)) {
    const first = await startMx(t, (peer) => peer.send(greets === 'busy.test' ? '421 busy\r\n' : `220 ${greets}\r\n`));
    const worse = await startMx(t, accept, { host: '127.0.0.2', port: first.port });
    const { send } = await startScene(
      t,
      first.port,
      {
        'example.test': {
          MX: [
            [10, name],
            [20, 'mx2.example.test'],
          ],
        },
        [name]: zone,
        'mx2.example.test': { A: ['127.0.0.2'] },
      },
      { ownAddresses: ['127.0.0.9'], allowPrivate: [parseNetwork('127.0.0.0/8')] },
    );
    const result = resultOf(await send());
    t.match(result, { outcome, ...(outcome === 'bounced' ? { enhanced: '5.4.6', class: 'sender' } : {}) }, how);
    t.equal(worse.peers.length, 0, how);
  }
});

t.test('what DNS said a while ago does not make mail fail: it is asked again', async (t) => {
  const ours = await startMx(t, (peer) => peer.send('220 client.test\r\n'));
  const others = await startMx(t, accept, { host: '127.0.0.2', port: ours.port });
  const mxAt = (name: string): ZoneEntry => ({ MX: [[10, name]] });
  const wrong: Record<string, { zone: Record<string, ZoneEntry>; corrected: [name: string, entry: ZoneEntry] }> = {
    'the MX is our name': {
      zone: { 'example.test': mxAt('client.test') },
      corrected: ['example.test', mxAt('new.example.test')],
    },
    'the MX has our address': {
      zone: { 'example.test': mxAt('old.example.test'), 'old.example.test': { A: ['127.0.0.9'] } },
      corrected: ['example.test', mxAt('new.example.test')],
    },
    'the MX greets as ourselves': {
      zone: { 'example.test': mxAt('old.example.test'), 'old.example.test': { A: ['127.0.0.1'] } },
      corrected: ['example.test', mxAt('new.example.test')],
    },
    'the MX had our address': {
      zone: { 'example.test': mxAt('moved.example.test'), 'moved.example.test': { A: ['127.0.0.9'] } },
      corrected: ['moved.example.test', { A: ['127.0.0.2'] }],
    },
    'no mail was wanted': {
      zone: { 'example.test': mxAt('.') },
      corrected: ['example.test', mxAt('new.example.test')],
    },
  };
  for (const [how, { zone: zoneOf, corrected }] of Object.entries(wrong)) {
    const { zone, transport, send } = await startScene(
      t,
      ours.port,
      { ...zoneOf, 'new.example.test': { A: ['127.0.0.2'] } },
      { ownAddresses: ['127.0.0.9'], allowPrivate: [parseNetwork('127.0.0.0/8')] },
    );
    let now = 0;
    Object.assign(transport, { cache: new DnsCache({ now: () => now }) });
    t.equal(resultOf(await send()).outcome, 'bounced', how);
    zone.set(...corrected);
    zone.queries.length = 0;
    t.equal(resultOf(await send()).outcome, 'bounced', `${how}, a moment ago`);
    t.strictSame(zone.queries, [], `${how}, a moment ago`);
    now = 2_000;
    t.equal(resultOf(await send()).outcome, 'delivered', `${how}, two seconds ago`);
  }
  t.equal(others.peers.length, Object.keys(wrong).length);
});

t.test('if no tries are left for the hosts that DNS names now, the mail waits for them', async (t) => {
  const ours = await startMx(t, (peer) => peer.send('220 client.test\r\n'), { host: '127.0.0.5' });
  const others = await startMx(t, accept, { host: '127.0.0.6', port: ours.port });
  const { zone, transport, send } = await startScene(t, ours.port, {
    'mx.example.test': { A: ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'] },
    'new.example.test': { A: ['127.0.0.6'] },
  });
  let now = 0;
  Object.assign(transport, { cache: new DnsCache({ now: () => now }) });
  t.match(resultOf(await send()), { outcome: 'bounced', enhanced: '5.4.6' });
  zone.set('example.test', { MX: [[10, 'new.example.test']] });
  now = 2_000;
  t.match(resultOf(await send()), { outcome: 'deferred' }, 'the fifth address of the old one has greeted as ourselves');
  t.equal(others.peers.length, 0);
  now = 4_000;
  t.equal(resultOf(await send()).outcome, 'delivered');
});

t.test('if DNS decides, it decides for every recipient, in one session', async (t) => {
  const { send } = await startScene(t, 9, {
    'null.test': { MX: [[0, '.']] },
    'broken.test': 'SERVFAIL',
    'broken-host.test': {
      MX: [
        [10, 'broken.test'],
        [20, 'gone.test'],
      ],
    },
  });
  const to = ['r0@x.test', 'r1@x.test'];
  const table: [destination: string, expected: object][] = [
    ['null.test', { outcome: 'bounced', enhanced: '5.1.10' }],
    ['gone.test', { outcome: 'bounced', enhanced: '5.1.2' }],
    ['broken.test', { outcome: 'deferred', class: 'network' }],
  ];
  for (const [destination, expected] of table) {
    const { sessions } = await send({ destination, to });
    t.equal(sessions.length, 1);
    t.match(sessions[0], {
      host: null,
      remoteAddress: null,
      results: to.map((recipient) => ({ recipient, phase: 'dns', ...expected })),
    });
  }
  const delivery = await send({ destination: 'broken-host.test', to });
  t.equal(resultOf(delivery, 'r1@x.test').outcome, 'deferred', 'one host may recover');
});

t.test('when DNS does not answer for a host, those that are left are looked up beside each other', async (t) => {
  const mx = await startMx(t, accept);
  const { transport, send } = await startScene(t, mx.port);
  const names = Array.from({ length: 10 }, (_, at) => `mx${at}.example.test`);
  const asked: (() => void)[] = [];
  const dead = (name: string, addresses: string[]) =>
    name === names.at(-1)
      ? Promise.resolve(addresses)
      : new Promise<never>((_, reject) =>
          asked.push(() => reject(Object.assign(new Error(name), { code: 'ETIMEOUT' }))),
        );
  Object.assign(transport.resolver, {
    resolveMx: async () => names.map((exchange, priority) => ({ exchange, priority })),
    resolve4: (name: string) => dead(name, ['127.0.0.1']),
    resolve6: (name: string) => dead(name, []),
  });
  const { waits, delivery } = await countWaits(send(), asked);
  t.equal(waits, 2);
  const { sessions } = delivery;
  t.same(
    sessions.map(({ host }) => host),
    names,
    'each has its turn',
  );
  t.match(sessions.at(-1), { results: [{ outcome: 'delivered' }] });
});
