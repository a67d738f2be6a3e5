import { createHash, X509Certificate } from 'node:crypto';
import t from 'tap';
import { ValidatingResolver } from '../../src/smtp/dns/validating-resolver.ts';
import { daneRule, type TlsaRecord, usable } from '../../src/smtp/policies/dane.ts';
import { DanePolicies } from '../../src/smtp/policies/dane-policies.ts';
import { TlsPolicies } from '../../src/smtp/policies/tls-policies.ts';
import type { TlsDemand } from '../../src/smtp/policies/tls-policy.ts';
import { type Credentials, createAuthority } from '../support/authority.ts';
import { startSink } from '../support/mx.ts';
import { startZone, type ZoneEntry } from '../support/zone.ts';
import { countWaits, resultOf, startScene } from './scene.ts';

const authority = createAuthority();
const past = { from: new Date(Date.now() - 10_000), to: new Date(Date.now() - 1_000) };
const own = authority.issue(['mx.example.test']);
const verified: TlsDemand = { level: 'verified', by: 'the TLS setting of this email' };

function tlsa(usage: number, selector: number, matchingType: number, certificate: X509Certificate): TlsaRecord {
  const bytes = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  const hash = [null, 'sha256', 'sha512'][matchingType];
  return { usage, selector, matchingType, certificate: hash ? createHash(hash).update(bytes).digest() : bytes };
}

const someone = tlsa(3, 1, 1, createAuthority().x509);

interface Options {
  credentials?: Credentials | null;
  records?: TlsaRecord[];
  zone?: (tlsaName: string) => Record<string, ZoneEntry>;
  sts?: boolean;
  trusted?: boolean;
}

/**
 * A signed zone whose MX host has these records. The authority that issues its certificate is trusted only by tests
 * that ask for it.
 */
async function start(
  t: Parameters<typeof startScene>[0],
  { credentials = own, records = [], zone, sts, trusted = false }: Options,
) {
  const sink = await startSink(credentials ? { credentials } : {});
  t.teardown(() => sink.close());
  const name = `_${sink.port}._tcp.mx.example.test`;
  const signed = await startZone({
    'example.test': { MX: [[10, 'mx.example.test']] },
    'mx.example.test': { A: ['127.0.0.1'] },
    ...(records.length > 0 ? { [name]: { TLSA: records } } : {}),
    ...zone?.(name),
  });
  signed.sign();
  t.teardown(() => signed.close());
  const isSilent = Object.values(zone?.(name) ?? {}).includes('drop');
  const resolver = new ValidatingResolver(signed.address, { timeoutMs: isSilent ? 2_000 : 20_000, tries: 1 });
  const policy = {
    id: '1',
    mode: 'enforce' as const,
    mx: ['*.elsewhere.test'],
    maxAgeSeconds: 1_000,
    fetchedAt: new Date(),
  };
  const tlsPolicies = new TlsPolicies({
    dane: new DanePolicies(resolver, sink.port),
    sts: sts ? { find: async () => ({ policy, problem: null }) } : null,
  });
  const scene = await startScene(t, sink.port, {}, { tlsPolicies, ...(trusted ? { ca: authority.cert } : {}) });
  return { sink, name, signed, tlsPolicies, ...scene };
}

const daneHeld = [{ verification: 'dane', results: [{ outcome: 'delivered' }] }];

t.test('a server whose key the records name is authenticated, whoever issued its certificate', async (t) => {
  const expired = authority.issue(['mx.example.test'], past);
  const other = authority.issue(['other.test']);
  const good: Record<string, [Credentials, TlsaRecord[]]> = {};
  for (const selector of [0, 1])
    for (const type of [0, 1, 2]) {
      good[`3 ${selector} ${type}`] = [own, [someone, tlsa(3, selector, type, own.x509)]];
      good[`2 ${selector} ${type}`] = [own, [tlsa(2, selector, type, authority.x509)]];
    }
  good['3: the validity period does not count'] = [expired, [tlsa(3, 1, 1, expired.x509)]];
  good['3: the name does not count'] = [other, [tlsa(3, 1, 1, other.x509)]];
  const between = authority.issue(['An authority below'], { mayIssue: true });
  good['2: through an authority below'] = [
    authority.issue(['mx.example.test'], { by: between }),
    [tlsa(2, 0, 1, authority.x509)],
  ];
  good['2: the name of the domain'] = [authority.issue(['example.test']), [tlsa(2, 0, 1, authority.x509)]];
  for (const [name, [credentials, records]] of Object.entries(good)) {
    const { send, transport } = await start(t, { credentials, records });
    t.match((await send()).sessions, daneHeld, name);
    t.match(transport.tlsResults.take(), [{ type: 'tlsa', result: 'success', mx: ['mx.example.test'] }]);
  }
});

t.test('any other certificate is refused, and so is clear text', async (t) => {
  const expired = authority.issue(['mx.example.test'], past);
  const early = authority.issue(['mx.example.test'], { from: new Date(Date.now() + 3_600_000) });
  const alone = authority.issue(['mx.example.test'], { withAuthority: false });
  // Whoever has a certificate of the authority cannot issue one for another name with its key.
  const byNobody = authority.issue(['mx.example.test'], { by: authority.issue(['other.test']) });
  const stranger = createAuthority().issue(['mx.example.test']);
  const anchor = tlsa(2, 0, 1, authority.x509);
  const forged = { ...stranger, cert: stranger.cert.split(/(?<=-----END CERTIFICATE-----\n)/)[0] + authority.cert };
  const refused: [string, Credentials | null, TlsaRecord[], reason: RegExp][] = [
    ['3 of another', own, [someone], /match its TLSA records/],
    ['3 of its authority', own, [tlsa(3, 0, 1, authority.x509)], /match its TLSA records/],
    ['2 of itself', own, [tlsa(2, 0, 1, own.x509)], /match its TLSA records/],
    ['2 expired', expired, [anchor], /has expired or is not valid/],
    ['2 not valid yet', early, [anchor], /has expired or is not valid/],
    ['2 issued by no authority', byNobody, [anchor], /match its TLSA records/],
    ['2 for another name', authority.issue(['other.test']), [anchor], /for another name/],
    ['2 without the anchor', alone, [anchor], /match its TLSA records/],
    ['2 beside a stranger', stranger, [anchor], /match its TLSA records/],
    ["2 with the anchor added to a stranger's certificate", forged, [anchor], /match its TLSA records/],
    ['no STARTTLS', null, [tlsa(3, 1, 1, own.x509)], /does not offer TLS/],
  ];
  for (const [name, credentials, records, reason] of refused) {
    const { send, sink } = await start(t, { credentials, records });
    const { sessions } = await send();
    t.match(sessions, [{ verification: 'dane', results: [{ outcome: 'deferred', phase: 'starttls', reason }] }], name);
    t.match(resultOf({ sessions }).reason, /the TLSA records \(DANE\) of mx\.example\.test/);
    t.equal(sink.messages.length, 0);
  }
});

t.test('a certificate whose kind of key is unknown here matches no record', async (t) => {
  const der = Buffer.from(authority.x509.raw);
  const curve = Buffer.from('2a8648ce3d030107', 'hex');
  der.writeUInt8(0x7f, der.indexOf(curve) + curve.length - 1);
  const unknown = new X509Certificate(der);
  t.throws(() => unknown.publicKey);
  const tls = { version: 'TLSv1.3', cipher: 'TLS_AES_128_GCM_SHA256', authorized: false, problem: null };
  for (const [usage, chain] of [
    [3, [unknown]],
    [2, [own.x509, unknown]],
  ] as const) {
    const rule = daneRule('mx.example.test', [tlsa(usage, 1, 1, authority.x509)], ['mx.example.test']);
    t.match(rule.mayUseConnection({ tls, certificates: () => [...chain] }), { failure: 'certificate-not-trusted' });
  }
});

t.test('records that SMTP cannot use require TLS, but no certificate', async (t) => {
  const unusable = [
    tlsa(0, 0, 1, own.x509),
    tlsa(1, 0, 1, own.x509),
    tlsa(4, 0, 1, own.x509),
    { ...tlsa(3, 0, 1, own.x509), selector: 2 },
    { ...tlsa(3, 0, 1, own.x509), matchingType: 3 },
    { ...tlsa(3, 0, 1, own.x509), certificate: Buffer.alloc(31) },
    { ...tlsa(3, 0, 0, own.x509), certificate: Buffer.alloc(0) },
  ];
  t.same(usable(unusable), []);
  const withTls = await start(t, { records: unusable });
  t.match((await withTls.send()).sessions, [{ verification: 'required', results: [{ outcome: 'delivered' }] }]);
  const clear = await start(t, { records: unusable, credentials: null });
  t.match(resultOf(await clear.send()), { outcome: 'deferred', reason: /does not offer TLS/ });
  const asked = await start(t, { records: unusable });
  t.match(
    resultOf(await asked.send({ tls: verified })),
    { outcome: 'deferred', reason: /no trusted authority/ },
    'whoever asks for one still gets it',
  );
  const sts = await start(t, { records: unusable, sts: true });
  t.match(resultOf(await sts.send()), { outcome: 'deferred', reason: /MTA-STS/ });
});

t.test('without DNSSEC the records count for nothing', async (t) => {
  const where: Record<string, NonNullable<Options['zone']>> = {
    'of the MX': () => ({ 'example.test': { MX: [[10, 'mx.example.test']], secure: false } }),
    'of the address': () => ({ 'mx.example.test': { A: ['127.0.0.1'], secure: false } }),
    'of the records': (name) => ({ [name]: { TLSA: [someone], secure: false } }),
    // RFC 7672 section 2.1.3: name servers of unsigned zones often fail for TLSA, and are not asked.
    'of an alias': (name) => ({
      'mx.example.test': { CNAME: 'real.example.test', secure: false },
      'real.example.test': { A: ['127.0.0.1'], secure: false },
      [name]: 'SERVFAIL',
    }),
  };
  for (const [name, zone] of Object.entries(where)) {
    const { send } = await start(t, { records: [someone], zone });
    t.match((await send()).sessions, [{ verification: 'opportunistic', results: [{ outcome: 'delivered' }] }], name);
  }
});

t.test('if a lookup fails, something may be hidden: the mail waits', async (t) => {
  for (const failure of ['SERVFAIL', 'REFUSED', 'drop'] as const) {
    const { send, sink } = await start(t, { zone: (name) => ({ [name]: failure }) });
    t.match(resultOf(await send()), { outcome: 'deferred', reason: /its TLSA records: the name server/ }, failure);
    t.equal(sink.connections, 0);
  }
  for (const [unanswered, reason] of Object.entries({
    MX: /its MX records: no/,
    A: /its addresses: no/,
    CNAME: /its addresses: no/,
  })) {
    const { send, sink, signed, transport } = await start(t, {
      zone: () => ({
        'mx.example.test': { CNAME: 'real.example.test' },
        'real.example.test': { A: ['127.0.0.1'], secure: false },
      }),
    });
    const known = new ValidatingResolver(signed.address, { timeoutMs: 20_000, tries: 1 });
    const query: ValidatingResolver['query'] = async (name, type) =>
      type === unanswered ? { kind: 'temporary', reason: 'no', untried: false } : known.query(name, type);
    const dane = new DanePolicies(Object.assign(Object.create(known), { query }), sink.port);
    Object.assign(transport, { tlsPolicies: new TlsPolicies({ dane }) });
    t.match(resultOf(await send()), { outcome: 'deferred', reason }, unanswered);
    t.equal(sink.connections, 0);
  }
});

t.test('a domain without MX records is its own host, whose records count', async (t) => {
  const zone = { 'bare.test': { A: ['127.0.0.1'] } };
  const right = await start(t, {
    zone: (name) => ({ ...zone, [name.replace('mx.example', 'bare')]: { TLSA: [tlsa(3, 1, 1, own.x509)] } }),
  });
  const wrong = await start(t, {
    zone: (name) => ({ ...zone, [name.replace('mx.example', 'bare')]: { TLSA: [someone] } }),
  });
  for (const { zone: unsigned } of [right, wrong]) unsigned.set('bare.test', { A: ['127.0.0.1'] });
  const mail = { destination: 'bare.test', to: ['b@bare.test'] };
  t.match((await right.send(mail)).sessions, daneHeld);
  t.match((await wrong.send(mail)).sessions, [{ results: [{ reason: /does not match its TLSA records/ }] }]);
});

t.test('only hosts that the signed MX records name are used', async (t) => {
  const { send, sink, zone } = await start(t, { records: [someone] });
  // What somebody made the ordinary resolver believe.
  zone.set('example.test', { MX: [[10, 'evil.example.test']] });
  zone.set('evil.example.test', { A: ['127.0.0.1'] });
  const { sessions } = await send();
  t.match(sessions, [{ host: 'evil.example.test', verification: 'dane' }]);
  t.match(resultOf({ sessions }), { outcome: 'deferred', reason: /do not name this host/ });
  t.equal(sink.connections, 0);
});

t.test('TLSA records may be behind an alias, but only a signed alias counts', async (t) => {
  const record = tlsa(3, 1, 1, own.x509);
  const alias = { CNAME: 'real.example.test' };
  const named = (name: string) => name.replace('mx.', 'real.');
  const real = { A: ['127.0.0.1'] };
  const expanded = await start(t, {
    zone: (name) => ({ 'mx.example.test': alias, 'real.example.test': real, [named(name)]: { TLSA: [record] } }),
  });
  t.match((await expanded.send()).sessions, daneHeld, 'at its end');
  const twice = await start(t, {
    zone: (name) => ({
      'mx.example.test': { CNAME: 'middle.example.test' },
      'middle.example.test': { CNAME: 'real.example.test' },
      'real.example.test': real,
      [named(name)]: { TLSA: [record] },
    }),
  });
  t.match((await twice.send()).sessions, daneHeld, 'at the end of two');
  const both = await start(t, {
    records: [record],
    zone: () => ({ 'mx.example.test': alias, 'real.example.test': real }),
  });
  t.match((await both.send()).sessions, daneHeld, 'at its beginning, if there are none at its end');
  const original = await start(t, {
    records: [record],
    zone: () => ({ 'mx.example.test': alias, 'real.example.test': { ...real, secure: false } }),
  });
  t.match((await original.send()).sessions, daneHeld, 'at its beginning, where only that is signed');
});

t.test(
  'a connection opened with the certificate of one name is not used for mail that needs another name',
  async (t) => {
    const credentials = authority.issue(['real.example.test']);
    const { send, sink, zone, transport } = await start(t, {
      credentials,
      trusted: true,
      zone: (name) => ({
        'mx.example.test': { CNAME: 'real.example.test' },
        'real.example.test': { A: ['127.0.0.1'] },
        [name.replace('mx.', 'real.')]: { TLSA: [tlsa(2, 0, 1, authority.x509)] },
        'unsigned.test': { MX: [[10, 'mx.example.test']], secure: false },
      }),
    });
    zone.set('unsigned.test', { MX: [[10, 'mx.example.test']] });
    t.match((await send()).sessions, daneHeld);
    t.equal(transport.pool.size, 1);
    const { sessions } = await send({ destination: 'unsigned.test', to: ['b@unsigned.test'], tls: verified });
    t.match(sessions, [{ reused: false, verification: 'verified', results: [{ reason: /for another name/ }] }]);
    t.match((await send()).sessions, [{ reused: true, verification: 'dane' }]);
    t.equal(sink.messages.length, 2);
  },
);

t.test('DANE is enough for "verified", and MTA-STS does not matter then', async (t) => {
  const { send } = await start(t, { records: [tlsa(3, 1, 1, own.x509)], sts: true });
  t.match((await send({ tls: verified })).sessions, daneHeld);
  const without = await start(t, { sts: true });
  t.match(
    resultOf(await without.send()),
    { outcome: 'deferred', reason: /MTA-STS/ },
    'but it does where there are no records',
  );
});

t.test('answers too large for a datagram come over TCP; answers from others are ignored', async (t) => {
  const many = Array.from({ length: 30 }, (_, at) => ({
    ...someone,
    certificate: createHash('sha256').update(`${at}`).digest(),
  }));
  const { signed, name } = await start(t, { records: many });
  const resolver = new ValidatingResolver(signed.address, { timeoutMs: 20_000, tries: 1 });
  const answer = await resolver.query(name, 'TLSA');
  t.match(answer, { kind: 'records', records: [{ secure: true }] });
  t.equal(answer.kind === 'records' && answer.records[0]?.records.length, 30);
  t.match(await resolver.query('nothing.test', 'TLSA'), { kind: 'records', records: [{ secure: true, records: [] }] });
  const nobody = new ValidatingResolver('127.0.0.1:1', { timeoutMs: 300, tries: 1 });
  t.match(await nobody.query(name, 'TLSA'), { kind: 'temporary', reason: /could not be reached|in time/ });
});

t.test('an aborted attempt does not wait for the records of a host', { timeout: 30_000 }, async (t) => {
  const { send, transport, signed, sink } = await start(t, { records: [tlsa(3, 1, 1, own.x509)] });
  t.match((await send()).sessions, daneHeld);
  const known = new ValidatingResolver(signed.address, { timeoutMs: 20_000, tries: 1 });
  for (const silent of ['A', 'TLSA']) {
    const asked = Promise.withResolvers<void>();
    const query: ValidatingResolver['query'] = (name, type) => {
      if (type !== silent) return known.query(name, type);
      asked.resolve();
      return new Promise(() => undefined);
    };
    const dane = new DanePolicies(Object.assign(Object.create(known), { query }), sink.port);
    Object.assign(transport, { tlsPolicies: new TlsPolicies({ dane }) });
    const ended = new AbortController();
    const sending = send({ signal: ended.signal });
    await asked.promise;
    ended.abort();
    t.match(resultOf(await sending), { outcome: 'deferred', phase: 'local', class: 'other', uncertain: false }, silent);
  }
  t.equal(sink.messages.length, 1, 'and sends nothing without them');
});

t.test(
  'when the records of one host cannot be looked up, those of all that are left are, beside each other',
  async (t) => {
    const sink = await startSink({ credentials: own });
    t.teardown(() => sink.close());
    const names = Array.from({ length: 10 }, (_, at) => `mx${at}.example.test`);
    const MX = names.map((name, at): [number, string] => [at, name]);
    const asked: (() => void)[] = [];
    const query: ValidatingResolver['query'] = async (name, type) => {
      const records = MX.map(
        ([preference, exchange]) => ({ type: 'MX', name, data: { preference, exchange } }) as const,
      );
      if (type === 'A' && name !== names.at(-1)) await new Promise<void>((giveUp) => asked.push(giveUp));
      else return { kind: 'records', records: [{ secure: true, records: type === 'MX' ? records : [] }] };
      return { kind: 'temporary', reason: 'the name server did not answer in time', untried: false };
    };
    const dane = new DanePolicies(Object.assign(Object.create(ValidatingResolver.prototype), { query }), sink.port);
    const zone = { 'example.test': { MX }, 'mx9.example.test': { A: ['127.0.0.1'] } };
    const { send } = await startScene(t, sink.port, zone, { tlsPolicies: new TlsPolicies({ dane }) });
    const { waits, delivery } = await countWaits(send(), asked);
    t.equal(waits, 2);
    const { sessions } = delivery;
    t.same(
      sessions.map(({ host }) => host),
      names,
      'each has its turn',
    );
    t.match(sessions[0], { results: [{ reason: /its addresses: the name server did not answer in time/ }] });
    t.match(sessions.at(-1), { results: [{ outcome: 'delivered' }] });
  },
);

t.test('if the records of a host with a kept connection cannot be looked up, each is waited for once', async (t) => {
  const sink = await startSink({ credentials: own });
  t.teardown(() => sink.close());
  const names = Array.from({ length: 6 }, (_, at) => `mx${at}.example.test`);
  const equal = names.map((name): [number, string] => [10, name]);
  const zone = {
    'example.test': { MX: equal },
    ...Object.fromEntries(names.map((name, at) => [`only${at}.test`, { MX: [equal[at] ?? [10, name]] }])),
    ...Object.fromEntries(names.map((name) => [name, { A: ['127.0.0.1'] }])),
  } satisfies Record<string, ZoneEntry>;
  let alive = names;
  const asked: (() => void)[] = [];
  const questions: string[] = [];
  const query: ValidatingResolver['query'] = async (name, type) => {
    questions.push(`${type} ${name}`);
    const records = equal.map(
      ([preference, exchange]) => ({ type: 'MX', name, data: { preference, exchange } }) as const,
    );
    if (type === 'A' && !alive.includes(name)) await new Promise<void>((giveUp) => asked.push(giveUp));
    else return { kind: 'records', records: [{ secure: true, records: type === 'MX' ? records : [] }] };
    return { kind: 'temporary', reason: 'the name server did not answer in time', untried: false };
  };
  const dane = new DanePolicies(Object.assign(Object.create(ValidatingResolver.prototype), { query }), sink.port);
  // All draw the same, so that the hosts come in the order in which they are written.
  const { send } = await startScene(t, sink.port, zone, { tlsPolicies: new TlsPolicies({ dane }), random: () => 0 });
  const sendOne = async () => {
    questions.length = 0;
    const { waits, delivery } = await countWaits(send(), asked);
    return { waits, twice: questions.filter((one, at) => questions.indexOf(one) < at), ...delivery };
  };
  for (const at of names.keys()) await send({ destination: `only${at}.test` });

  alive = names.slice(-1);
  const last = await sendOne();
  t.match(last, {
    waits: 2,
    sessions: [{ host: 'mx5.example.test', reused: true, results: [{ outcome: 'delivered' }] }],
  });
  alive = [];
  const none = await sendOne();
  t.equal(none.waits, 2);
  t.same(none.twice, []);
  t.same(
    none.sessions.map(({ host }) => host),
    names,
    'each has its turn',
  );
  t.match(resultOf(none), { outcome: 'deferred', reason: /its addresses: the name server did not answer in time/ });
});

t.test('without a validating resolver DANE is not checked, and the report says so', async (t) => {
  const { notes } = await new TlsPolicies({}).describe('example.test', verified, []);
  t.ok(notes.includes('DANE is not checked: no validating resolver is configured.'));
  const { tlsPolicies } = await start(t, { records: [tlsa(3, 1, 1, own.x509)] });
  t.match(await tlsPolicies.describe('example.test', verified, ['mx.example.test']), {
    policy: 'dane',
    source: 'the TLSA records (DANE) of mx.example.test',
    notes: ['MTA-STS is not checked.'],
  });
});
