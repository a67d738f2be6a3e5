import t, { type Test } from 'tap';
import { parseNetwork } from '../../src/ip.ts';
import { type LookUpOptions, resolveDestination, resolveHost } from '../../src/smtp/dns/mx.ts';
import { DnsCache } from '../../src/smtp/dns/resolver.ts';
import { startZone, type ZoneEntry } from '../support/zone.ts';

async function start(t: Test, zoneOf: Record<string, ZoneEntry>, options: Partial<LookUpOptions> = {}) {
  const zone = await startZone(zoneOf);
  t.teardown(() => zone.close());
  const all = { resolver: zone.resolver, ...options };
  return {
    zone,
    destination: (domain: string) => resolveDestination(domain, all),
    host: (name: string) => resolveHost(name, all),
  };
}

t.test('a host that could not even ask DNS is to blame itself', async (t) => {
  const full = async () => {
    throw Object.assign(new Error('query EMFILE'), { code: 'EMFILE' });
  };
  const resolver = Object.fromEntries(
    ['resolveMx', 'resolve4', 'resolve6', 'resolveTxt', 'resolve'].map((name) => [name, full]),
  ) as unknown as LookUpOptions['resolver'];
  const ours = { kind: 'temporary', enhanced: '4.4.3', class: 'sender' };
  const why = 'this server has no free file descriptors (EMFILE).';
  t.match(await resolveDestination('a.test', { resolver }), { ...ours, reason: `MX records of a.test: ${why}` });
  t.match(await resolveHost('a.test', { resolver }), { ...ours, reason: `Addresses of a.test: ${why}` });
});

t.test("where a domain's mail goes", async (t) => {
  const label = 'x'.repeat(63);
  const { destination } = await start(
    t,
    {
      'sorted.test': {
        MX: [
          [30, 'c.test'],
          [10, 'A.Test'],
          [20, 'b.test.'],
        ],
      },
      'implicit.test': { A: ['8.8.8.8'] },
      'implicit6.test': { AAAA: ['2606:4700::1'] },
      'null.test': { MX: [[0, '.']] },
      'null-and-more.test': {
        MX: [
          [0, '.'],
          [10, 'a.test'],
        ],
      },
      'empty.test': { TXT: ['nothing else'] },
      'broken.test': 'SERVFAIL',
      'refused.test': 'REFUSED',
      'silent.test': 'drop',
      'alias.test': { CNAME: 'sorted.test' },
      'loop.test': {
        MX: [
          [10, 'better.test'],
          [20, 'us.test'],
          [20, 'equal.test'],
          [30, 'worse.test'],
        ],
      },
      'only-us.test': {
        MX: [
          [10, 'US.test.'],
          [20, 'worse.test'],
        ],
      },
      'us.test': { A: ['8.8.8.8'] },
      'literal.test': {
        MX: [
          [10, '127.0.0.1'],
          [20, 'a.test'],
        ],
      },
      'all-literal.test': { MX: [[10, '127.0.0.1']] },
      'twice.test': {
        MX: [
          [30, 'a.test'],
          [20, 'b.test'],
          [10, 'a.test'],
        ],
      },
      'long.test': { MX: [[10, `${label}.${label}.${label}.test`]] },
    },
    { ownHosts: ['us.test'] },
  );
  const hosts = (...names: string[]) => ({ kind: 'hosts', hosts: names.map((name) => ({ name })) });
  const classes: Record<string, string> = { '5.4.4': 'network', '5.4.6': 'sender' };
  const permanent = (enhanced: string) => ({
    kind: 'permanent',
    enhanced,
    class: classes[enhanced] ?? 'bad_domain',
    reason: /\.$/,
  });
  const temporary = { kind: 'temporary', reason: /\.$/ };
  const table: [domain: string, expected: object][] = [
    ['sorted.test', hosts('a.test', 'b.test', 'c.test')],
    ['SORTED.test.', hosts('a.test', 'b.test', 'c.test')],
    ['alias.test', hosts('a.test', 'b.test', 'c.test')],
    ['implicit.test', hosts('implicit.test')],
    ['implicit6.test', hosts('implicit6.test')],
    ['null.test', permanent('5.1.10')],
    ['null-and-more.test', hosts('a.test')],
    ['empty.test', permanent('5.1.2')],
    ['unknown.test', permanent('5.1.2')],
    ['broken.test', temporary],
    ['refused.test', temporary],
    ['silent.test', temporary],
    ['loop.test', hosts('better.test')],
    ['only-us.test', permanent('5.4.6')],
    ['us.test', permanent('5.4.6')],
    ['literal.test', hosts('a.test')],
    ['all-literal.test', permanent('5.4.4')],
    ['twice.test', hosts('a.test', 'b.test')],
    ['long.test', hosts(`${label}.${label}.${label}.test`)],
    ['', permanent('5.1.2')],
    ['127.0.0.1', permanent('5.1.2')],
    ['[127.0.0.1]', permanent('5.1.2')],
    ['a b.test', permanent('5.1.2')],
    ['a\r\nb.test', permanent('5.1.2')],
    ['a..test', permanent('5.1.2')],
    [`${'x'.repeat(64)}.test`, permanent('5.1.2')],
  ];
  for (const [domain, expected] of table) {
    const found = await destination(domain);
    t.match(found, expected, JSON.stringify(domain));
    if ('hosts' in expected && found.kind === 'hosts') t.equal(found.hosts.length, (expected.hosts as object[]).length);
  }
});

t.test('a domain without MX whose address is not known now takes mail later', async (t) => {
  const failing = (code: string) => async () => Promise.reject(Object.assign(new Error(code), { code }));
  const resolver = { resolveMx: failing('ENODATA'), resolve4: failing('ESERVFAIL'), resolve6: failing('ENODATA') };
  t.match(await resolveDestination('a.test', { resolver: resolver as unknown as LookUpOptions['resolver'] }), {
    kind: 'temporary',
    class: 'network',
    reason: /^Addresses of a\.test: .*SERVFAIL/,
  });
});

t.test('hosts of equal preference are shuffled among themselves', async (t) => {
  const { destination } = await start(t, {
    'a.test': {
      MX: [
        [10, 'x.test'],
        [10, 'y.test'],
        [5, 'first.test'],
        [20, 'last.test'],
      ],
    },
  });
  const orders = new Set<string>();
  for (let left = 100; left > 0; left--) {
    const found = await destination('a.test');
    orders.add(found.kind === 'hosts' ? found.hosts.map((host) => host.name[0]).join('') : '');
  }
  t.same([...orders].toSorted(), ['fxyl', 'fyxl']);
});

t.test('of a thousand MX records, thirty hosts are used', async (t) => {
  const MX = Array.from({ length: 1_000 }, (_, at): [number, string] => [at, `mx${at}.test`]);
  const { destination } = await start(t, { 'many.test': { MX } });
  const found = await destination('many.test');
  const preferences = Array.from({ length: 30 }, (_, at) => at);
  t.same(found.kind === 'hosts' && found.hosts.map((host) => host.preference), preferences);
});

t.test('the addresses of a host', async (t) => {
  const { host } = await start(
    t,
    {
      'both.test': { A: ['8.8.8.8', '8.8.4.4', '9.9.9.9'], AAAA: ['2606:4700::1'] },
      'mixed.test': { A: ['10.0.0.1', '8.8.8.8', '127.0.0.1'], AAAA: ['::1', '2606:4700::1'] },
      'inside.test': { A: ['10.0.0.1', '169.254.169.254', '0.0.0.0'], AAAA: ['::1', 'fe80::1', '::ffff:8.8.8.8'] },
      'own.test': { A: ['9.9.9.10'] },
      'own-too.test': { A: ['9.9.9.10', '8.8.8.8'] },
      'none.test': { TXT: ['x'] },
      'broken.test': 'SERVFAIL',
      'alias.test': { CNAME: 'inside.test' },
      'parked.test': { A: ['127.0.0.1', '0.0.0.0'], AAAA: ['::1', '::', '::ffff:127.0.0.1'] },
      'half-parked.test': { A: ['127.0.0.1', '10.0.0.1'] },
      'many.test': { A: Array.from({ length: 200 }, (_, at) => `8.8.1.${at}`) },
    },
    { ownAddresses: ['9.9.9.10'] },
  );
  const found = async (name: string) => {
    const answer = await host(name);
    return answer.kind === 'addresses' ? answer.addresses : [];
  };
  const both = await found('both.test');
  t.equal(both[0], '2606:4700::1');
  t.equal(both.length, 4);
  t.same((await found('mixed.test')).toSorted(), ['2606:4700::1', '8.8.8.8']);
  t.equal((await found('many.test')).length, 10);
  t.match(await host('inside.test'), { kind: 'temporary', enhanced: '4.4.4', reason: /ALLOW_PRIVATE_NETWORKS/ });
  t.match(await host('alias.test'), { kind: 'temporary', enhanced: '4.4.4' });
  t.match(await host('parked.test'), {
    kind: 'permanent',
    enhanced: '5.4.4',
    class: 'network',
    reason: /reaches itself/,
  });
  t.match(await host('half-parked.test'), { kind: 'temporary', enhanced: '4.4.4' });
  t.match(await host('own.test'), { kind: 'permanent', enhanced: '5.4.6', class: 'sender', ours: true });
  t.match(await host('own-too.test'), { kind: 'addresses', addresses: ['8.8.8.8'], ours: true });
  t.match(await host('both.test'), { ours: false });
  t.match(await host('none.test'), { kind: 'permanent', enhanced: '5.4.4', class: 'network' });
  t.match(await host('unknown.test'), { kind: 'permanent', enhanced: '5.4.4', class: 'network' });
  t.match(await host('broken.test'), { kind: 'temporary' });

  const closed = await start(
    t,
    { 'inside.test': { A: ['10.0.0.1'] } },
    { allowPrivate: true, ownAddresses: ['10.0.0.1'] },
  );
  t.match(await closed.host('inside.test'), { kind: 'addresses', addresses: ['10.0.0.1'], ours: false });
});

t.test('non-public addresses count only if they are in allowed networks: SSRF-08', async (t) => {
  const { host } = await start(
    t,
    {
      'mixed.test': { A: ['10.1.2.3', '10.2.0.1', '8.8.8.8'], AAAA: ['fd00::1', '::ffff:10.1.0.1', '::ffff:10.2.0.1'] },
      'outside.test': { A: ['10.2.0.1', '127.0.0.1'] },
      'own.test': { A: ['10.1.9.9'], AAAA: ['::ffff:10.1.9.9'] },
    },
    { allowPrivate: ['10.1.0.0/16', 'fd00::/8'].map(parseNetwork), ownAddresses: ['10.1.9.9'] },
  );
  const mixed = await host('mixed.test');
  const addresses = mixed.kind === 'addresses' ? mixed.addresses.toSorted() : [];
  t.same(addresses, ['10.1.2.3', '8.8.8.8', 'fd00::1']);
  t.match(await host('outside.test'), { kind: 'temporary', enhanced: '4.4.4', reason: /ALLOW_PRIVATE_NETWORKS/ });
  t.match(await host('own.test'), { kind: 'permanent', enhanced: '5.4.6' }, 'our own addresses are not among them');
});

t.test('answers are cached for a while, failures are not, and simultaneous lookups share one', async (t) => {
  let now = 0;
  const cache = new DnsCache({ now: () => now, maxEntries: 3 });
  const { zone, destination } = await start(
    t,
    { 'a.test': { MX: [[10, 'mx.test']] }, 'broken.test': 'SERVFAIL', 'c.test': { MX: [[1, 'x.test']] } },
    { cache },
  );
  const asked = async (...domains: string[]) => {
    zone.queries.length = 0;
    await Promise.all(domains.map((domain) => destination(domain)));
    return zone.queries.filter((query) => query.startsWith('mx')).length;
  };
  t.equal(await asked('a.test', 'a.test', 'A.TEST', 'a.test.'), 1);
  t.equal(await asked('a.test'), 0);
  now = 59_999;
  t.equal(await asked('a.test'), 0);
  now = 60_001;
  t.equal(await asked('a.test'), 1);
  t.equal(await asked('gone.test'), 1);
  t.equal(await asked('gone.test'), 0);
  now += 10_001;
  t.equal(await asked('gone.test'), 1);
  t.ok((await asked('broken.test')) > 0);
  t.ok((await asked('broken.test')) > 0);
  await asked('x1.test', 'x2.test', 'x3.test');
  t.equal(await asked('a.test'), 1, 'the oldest entry is gone');
});

t.test('a bug in the resolver is not taken for an answer', async (t) => {
  const { resolver } = (await start(t, {})).zone;
  const defect = { ...resolver, resolveMx: () => Promise.reject(new TypeError('a defect')) };
  await t.rejects(resolveDestination('a.test', { resolver: defect }), TypeError);
});
