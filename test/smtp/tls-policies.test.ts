import t from 'tap';
import type { StsPolicy } from '../../src/smtp/policies/mta-sts.ts';
import { type PublishedPolicy, TlsPolicies } from '../../src/smtp/policies/tls-policies.ts';
import type { TlsDemand } from '../../src/smtp/policies/tls-policy.ts';
import { TlsResults } from '../../src/smtp/reports/tls-results.ts';
import type { TransportOptions } from '../../src/smtp/transport.ts';
import { type Credentials, createAuthority } from '../support/authority.ts';
import { type SinkOptions, startSink } from '../support/mx.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { resultOf, startMx, startScene, startScripted } from './scene.ts';

const authority = createAuthority();
const valid = authority.issue(['mx.example.test']);
const past = { from: new Date(Date.now() - 10_000), to: new Date(Date.now() - 1_000) };
const bad: Record<string, [Credentials, words: RegExp, failure: string]> = {
  'another name': [authority.issue(['other.example.test']), /for another name/, 'certificate-host-mismatch'],
  expired: [authority.issue(['mx.example.test'], past), /has expired/, 'certificate-expired'],
  'a stranger': [
    createAuthority('Stranger').issue(['mx.example.test']),
    /no trusted authority/,
    'certificate-not-trusted',
  ],
};

const required: TlsDemand = { level: 'required', by: 'the TLS setting of this email' };
const verified: TlsDemand = { level: 'verified', by: 'the TLS setting of this email' };
const demands = { required, verified };

/** The policy of these domains, as if it had been found. */
function published(mode: StsPolicy['mode'], mx = ['mx.example.test'], options: Partial<TransportOptions> = {}) {
  const policy: StsPolicy = { id: '1', mode, mx, maxAgeSeconds: 1_000, fetchedAt: new Date() };
  return { tlsPolicies: new TlsPolicies({ sts: { find: async () => ({ policy, problem: null }) } }), ...options };
}

async function startSecure(
  t: Parameters<typeof startScene>[0],
  sinkOptions: SinkOptions,
  options: Partial<TransportOptions> = {},
  zone: Record<string, ZoneEntry> = {},
) {
  const sink = await startSink(sinkOptions);
  t.teardown(() => sink.close());
  return { sink, ...(await startScene(t, sink.port, zone, { ca: authority.cert, ...options })) };
}

t.test('SMG-07: without STARTTLS nothing is sent if TLS is required', async (t) => {
  const sts = published('enforce');
  const cases: [TlsDemand | undefined, Partial<TransportOptions>, name: string, source: RegExp][] = [
    [required, {}, 'required', /the TLS setting of this email/],
    [verified, {}, 'verified', /the TLS setting of this email/],
    [undefined, sts, 'mta-sts', /the MTA-STS policy of example\.test/],
    [required, sts, 'mta-sts', /the MTA-STS policy of example\.test/],
  ];
  for (const [tls, options, verification, source] of cases) {
    const { send, sink, transport } = await startSecure(t, {}, options);
    const { sessions } = await send(tls ? { tls } : {});
    t.match(
      sessions,
      [
        {
          tls: null,
          verification,
          results: [{ outcome: 'deferred', phase: 'starttls', class: 'protocol', reply: null }],
        },
      ],
      verification,
    );
    t.match(sessions[0]?.results[0]?.reason, source);
    t.match(sessions[0]?.results[0]?.reason, /^mx\.example\.test does not offer TLS \(STARTTLS\): refused by .*\.$/);
    t.equal(sink.messages.length, 0);
    t.match(transport.tlsResults.take(), [{ result: 'starttls-not-supported', host: 'mx.example.test', sessions: 1 }]);
  }
});

t.test('SMG-08: broken TLS is not followed by clear text if TLS is required', async (t) => {
  const ways: Record<string, string> = { refused: '454 4.7.0 not now', broken: '220 go' };
  for (const [name, reply] of Object.entries(ways)) {
    for (const [level, tls] of Object.entries(demands)) {
      const { send, mx } = await startScripted(t, async (peer) => {
        await peer.greet('STARTTLS');
        await peer.answer(reply);
        if (name === 'broken') peer.send('this is not TLS at all, and never was\r\n');
        await peer.until('MAIL');
      });
      const { sessions } = await send({ tls });
      t.match(
        sessions,
        [{ tls: null, verification: level, results: [{ outcome: 'deferred', phase: 'starttls' }] }],
        name,
      );
      t.match(resultOf({ sessions }).reason, /, and TLS is required by the TLS setting of this email\.$/);
      t.not(resultOf({ sessions }).class, 'network', 'mail of other emails does not wait for it');
      t.equal(mx.peers.length, 1);
    }
  }
});

t.test('"required" takes any certificate, "verified" and MTA-STS only a valid one', async (t) => {
  for (const [name, [credentials, words, failure]] of Object.entries(bad)) {
    const { send, sink, transport } = await startSecure(t, { credentials });
    t.match(
      (await send({ tls: required })).sessions,
      [{ verification: 'required', results: [{ outcome: 'delivered' }] }],
      name,
    );
    const { sessions } = await send({ tls: verified });
    t.match(
      sessions,
      [{ tls: { authorized: false }, verification: 'verified' }],
      'the kept connection could not be used',
    );
    t.match(resultOf({ sessions }), { outcome: 'deferred', phase: 'starttls', class: 'protocol', reason: words });
    t.equal(sink.messages.length, 1);
    t.match(transport.tlsResults.take(), [{ type: 'no-policy-found', result: 'success', sessions: 2 }]);

    const sts = await startSecure(t, { credentials }, published('enforce'));
    t.match(resultOf(await sts.send()), { outcome: 'deferred', reason: words }, name);
    t.equal(sts.sink.messages.length, 0);
    t.match(sts.transport.tlsResults.take(), [{ type: 'sts', result: failure, sessions: 1, address: '127.0.0.1' }]);
  }
  const { send, sink } = await startSecure(t, { credentials: valid }, published('enforce'));
  for (const tls of [undefined, required, verified]) {
    t.match((await send(tls ? { tls } : {})).sessions, [
      { verification: 'mta-sts', results: [{ outcome: 'delivered' }] },
    ]);
  }
  t.equal(sink.messages.length, 3);
  t.equal(sink.connections, 1, 'a suitable one is reused');
});

t.test('"verified" was met without a published policy', async (t) => {
  const { send } = await startSecure(t, { credentials: valid });
  t.match((await send({ tls: verified })).sessions, [
    { tls: { authorized: true, problem: null }, verification: 'verified', results: [{ outcome: 'delivered' }] },
  ]);
});

t.test('a clear-text connection is not reused for mail that needs TLS', async (t) => {
  const { send, sink, transport } = await startSecure(t, {});
  t.match((await send()).sessions, [{ verification: 'none', results: [{ outcome: 'delivered' }] }]);
  t.equal(transport.pool.size, 1);
  t.match(resultOf(await send({ tls: required })), { outcome: 'deferred', phase: 'starttls' });
  t.match((await send()).sessions, [{ reused: true, results: [{ outcome: 'delivered' }] }], 'for other mail it is');
  t.equal(sink.messages.length, 2);
});

t.test('a host that the policy does not name is skipped, and the next one tried', async (t) => {
  const zone = {
    'example.test': { MX: [[5, 'evil.example.test'] as [number, string], [10, 'mx.example.test'] as [number, string]] },
    'evil.example.test': { A: ['127.0.0.1'] },
  };
  const { send, sink, transport } = await startSecure(t, { credentials: valid }, published('enforce'), zone);
  const { sessions } = await send();
  t.match(sessions, [
    {
      host: 'evil.example.test',
      remoteAddress: null,
      verification: 'mta-sts',
      results: [{ outcome: 'deferred', phase: 'dns', class: 'protocol' }],
    },
    { host: 'mx.example.test', verification: 'mta-sts', results: [{ outcome: 'delivered' }] },
  ]);
  t.match(
    sessions[0]?.results[0]?.reason,
    /evil\.example\.test is not a host that it names: refused by the MTA-STS policy of/,
  );
  t.equal(sink.connections, 1);
  t.match(
    transport.tlsResults.take().map(({ host, result }) => [host, result]),
    [
      ['evil.example.test', 'validation-failure'],
      ['mx.example.test', 'success'],
    ],
  );
});

t.test('if no host is named, all mail waits, however many hosts there are', async (t) => {
  const mx = Array.from({ length: 8 }, (_, at): [number, string] => [at, `mx${at}.example.test`]);
  const { send, sink } = await startSecure(t, {}, published('enforce', ['*.elsewhere.test']), {
    'example.test': { MX: mx },
  });
  const { sessions } = await send();
  t.equal(sessions.length, 8);
  t.match(resultOf({ sessions }), { outcome: 'deferred', reason: /MTA-STS/ });
  t.equal(sink.connections, 0);
});

t.test('hosts with a bad certificate do not use up the tries for good ones', async (t) => {
  const self = await startMx(
    t,
    async (peer) => {
      await peer.greet('STARTTLS');
      await peer.answer('220 go');
      await peer.startTls();
      await peer.until('never');
    },
    { host: '127.0.0.2' },
  );
  const good = await startSink({
    credentials: authority.issue(['mx4.example.test']),
    host: '127.0.0.3',
    port: self.port,
  });
  t.teardown(() => good.close());
  const { send } = await startScene(
    t,
    self.port,
    {
      'example.test': { MX: [1, 2, 3, 4].map((at): [number, string] => [at, `mx${at}.example.test`]) },
      'mx1.example.test': { A: ['127.0.0.2'] },
      'mx2.example.test': { A: ['127.0.0.2'] },
      'mx3.example.test': { A: ['127.0.0.2'] },
      'mx4.example.test': { A: ['127.0.0.3'] },
    },
    { ca: authority.cert },
  );
  t.match(resultOf(await send({ tls: verified })), { outcome: 'delivered' });
});

t.test('a policy in testing mode is reported but refuses nothing; one of mode none does neither', async (t) => {
  const [credentials] = bad.expired as [Credentials, RegExp, string];
  const testing = await startSecure(t, { credentials }, published('testing'));
  t.match((await testing.send()).sessions, [{ verification: 'opportunistic', results: [{ outcome: 'delivered' }] }]);
  const counted = { type: 'sts', lines: ['version: STSv1', 'mode: testing'], mx: ['mx.example.test'] };
  t.match(testing.transport.tlsResults.take(), [{ ...counted, result: 'certificate-expired', sessions: 1 }]);

  const stranger = await startSecure(t, { credentials: valid }, published('testing', ['other.test']));
  t.match(resultOf(await stranger.send()), { outcome: 'delivered' });
  t.match(stranger.transport.tlsResults.take(), [{ type: 'sts', result: 'validation-failure', sessions: 1 }]);

  const old = await startScripted(
    t,
    async (peer) => {
      await peer.greet('STARTTLS');
      await peer.answer('220 go');
      await peer.startTls({ ...valid, maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' });
      await peer.answer('250 mx.example.test');
      await peer.message();
    },
    { ca: authority.cert, ...published('testing') },
  );
  t.match((await old.send()).sessions, [{ tls: { version: 'TLSv1.1', authorized: true } }], 'rather than none');
  t.match(
    old.transport.tlsResults.take(),
    [{ type: 'sts', result: 'validation-failure', reason: /TLSv1\.1/ }],
    'it would be refused if the policy were enforced',
  );

  const none = await startSecure(t, {}, published('none', []));
  t.match((await none.send()).sessions, [{ verification: 'none', results: [{ outcome: 'delivered' }] }]);
  t.match(none.transport.tlsResults.take(), [{ type: 'no-policy-found', result: 'starttls-not-supported' }]);
});

t.test('a session counts for reports if it came as far as TLS, and once', async (t) => {
  const { send, transport } = await startScripted(t, async (peer, number) => {
    if (number === 0) return peer.send('554 no\r\n');
    if (number === 1) {
      peer.send('220 mx.example.test\r\n');
      await peer.answer('421 busy');
      return;
    }
    await peer.greet();
    await peer.message();
  });
  for (const phase of ['greeting', 'ehlo']) {
    t.match(resultOf(await send()), { outcome: 'deferred', phase });
    t.strictSame(transport.tlsResults.take(), [], phase);
  }
  t.match(resultOf(await send()), { outcome: 'delivered' });
  t.match(transport.tlsResults.take(), [{ result: 'starttls-not-supported', sessions: 1 }]);
  t.strictSame(transport.tlsResults.take(), []);
});

t.test('DOS: results of very many hosts take a limited room', async (t) => {
  const results = new TlsResults();
  const published: PublishedPolicy = {
    type: 'sts',
    domain: 'example.test',
    lines: [],
    mx: [],
    rule: null,
    problem: null,
  };
  const note = (host: string) =>
    results.host(published, host, { failure: 'validation-failure', reason: 'is a stranger' });
  for (let n = 0; n <= 10_000; n += 1) note(`mx${n}.test`);
  note('mx0.test');
  const taken = results.take();
  t.equal(taken.length, 10_000);
  t.match(taken[0], { host: 'mx0.test', sessions: 2 }, 'those that are known still count');
});

t.test('if nobody can tell whether there is a policy, mail waits', async (t) => {
  const find = () => Promise.reject(new Error('the database is away'));
  const { send, sink } = await startSecure(
    t,
    { credentials: valid },
    { tlsPolicies: new TlsPolicies({ sts: { find } }) },
  );
  t.match(resultOf(await send()), { outcome: 'deferred', reason: /stored policies cannot be read now/ });
  t.equal(sink.connections, 0);
});
