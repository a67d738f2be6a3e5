import t from 'tap';
import { sealContext } from '../../src/core/domains/domains.ts';
import { Keyring, open } from '../../src/crypto/seal.ts';
import { sharedNode } from '../support/shared-node.ts';
import { encryptionKey, manageDomains } from './scene.ts';

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const noRoom = 'domain: longer than 231 characters, which leaves no room for its DKIM record';
const label63 = `${'x'.repeat(63)}.`;

t.test('registering a domain', async (t) => {
  const node = await sharedNode('api');
  const { call } = await manageDomains(node);
  const before = await node.db.prisma.domain.count();
  for (const [domain, detail] of [
    [undefined, 'domain: is required'],
    ...[null, 7, true, ['a.test'], { domain: 'a.test' }].map((value) => [value, 'domain: must be a string'] as const),
    ['', 'domain: must not be empty'],
    ['x'.repeat(1_001), 'domain: must have at most 1,000 characters'],
    ...['a.test\r\nX', 'a\0.test', 'a.test\u0085', 'a.test\u2028', 'a\ttest.test'].map(
      (value) => [value, 'domain: contains control characters'] as const,
    ),
    ['a\ud800.test', 'domain: is not well-formed Unicode'],
    ...['localhost', 'com', 'test', 'a'].map((value) => [value, 'domain: needs a dot, as in example.com'] as const),
    ...['co.uk', 'com.au', 'github.io', 's3.amazonaws.com', '\u516c\u53f8.cn'].map(
      (value) => [value, 'domain: a public suffix cannot be a sending domain'] as const,
    ),
    ...['127.0.0.1', '1.2', 'a.0x7f', 'a.123'].map(
      (value) => [value, 'domain: is an IP address or ends in a number'] as const,
    ),
    ...(
      [
        ['*.a.test', '*'],
        ['_dmarc.a.test', '_'],
        ['a_b.test', '_'],
        ['a.test/', '/'],
        ['a.test:25', ':'],
        ['ftp://a.test', ':'],
        ['a.test?x', '?'],
        ['[::1]', '['],
        ['%61.test', '%'],
        ['<a.test>', '<'],
      ] as const
    ).map(([value, bad]) => [value, `domain: contains "${bad}", which is not allowed`] as const),
    ...['a b.test', ' a.test'].map((value) => [value, 'domain: contains a space'] as const),
    ...['user@a.test', '@a.test', 'Ann <user@a.test>'].map(
      (value) => [value, 'domain: must be a domain, not an email address'] as const,
    ),
    ['http://a.test', 'domain: must be a domain, without http://'],
    ['HTTPS://a.test/x@y', 'domain: must be a domain, without https://'],
    ['a.test.', 'domain: ends with a dot'],
    ['a.test\u3002', 'domain: ends with a dot'],
    ...['.a.test', 'a..test', '.'].map((value) => [value, /^domain: (has an empty label|ends with a dot)/] as const),
    ...['-a.test', 'a-.test', 'a.-b.test'].map(
      (value) => [value, 'domain: has a label that begins or ends with a hyphen'] as const,
    ),
    [`${'x'.repeat(64)}.test`, 'domain: has a label of more than 63 characters'],
    ['xn--a.test', 'domain: has an xn-- label that is not valid'],
    ['a\u200b.test', 'domain: contains an invisible character'],
    [`${label63.repeat(4).slice(0, 250)}.test`, 'domain: is longer than 253 characters'],
    [`${label63.repeat(4).slice(0, 248)}.test`, noRoom],
    [`${label63.repeat(4).slice(0, 227)}.test`, noRoom],
  ] as const) {
    const { status, body } = await call('POST', '', { domain });
    const what = JSON.stringify(domain ?? null)
      .slice(0, 60)
      .replaceAll(/[^ -~]/g, '?');
    t.match([status, body.error, body.detail], [400, 'invalid request', detail], what);
    t.strictSame(Object.keys(body), ['error', 'detail'], what);
  }
  t.equal(await node.db.prisma.domain.count(), before, 'nothing is stored');

  const names: string[] = [];
  for (const [given, name, again] of [
    ['Shop.Example.COM', 'shop.example.com', 'SHOP.example.com'],
    ['B\u00fccher.example', 'xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['XN--MNCHEN-3YA.example', 'xn--mnchen-3ya.example', 'm\u00fcnchen\u3002example'],
    // Cyrillic: not the domain that it looks like.
    ['ex\u0430mple.com', 'xn--exmple-4nf.com', 'xn--exmple-4nf.com'],
    ['example.com', 'example.com', '\uff45xample.com'],
    [
      `${label63.repeat(4).slice(0, 226)}.test`,
      `${label63.repeat(4).slice(0, 226)}.test`,
      `${label63.repeat(4).slice(0, 226)}.TEST`,
    ],
  ] as const) {
    const { status, body } = await call('POST', '', {
      domain: given,
      id: 'mine',
      status: 'verified',
      verified_at: '2020-01-01T00:00:00Z',
    });
    t.equal(status, 200, given.slice(0, 60));
    t.strictSame(body.domain, {
      id: body.domain.id,
      domain: name,
      status: 'pending',
      dkim_selector: body.domain.dkim_selector,
      verified_at: null,
      dns_warning: null,
      tls: 'opportunistic',
      pool: null,
      created_at: body.domain.created_at,
    });
    t.match(
      [body.domain.id, body.domain.dkim_selector, body.domain.created_at],
      [/^[0-9a-f-]{36}$/, /^[a-z0-9]+$/, instant],
    );
    t.match(body.dns_records, {
      verification: { name: `_sendwright.${name}`, type: 'TXT', value: /^sendwright-verification=[0-9a-f]{40}$/ },
      dkim: {
        name: `${body.domain.dkim_selector}._domainkey.${name}`,
        type: 'TXT',
        value: /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/]+=*$/,
      },
      spf: { name, type: 'TXT', value: /^v=spf1 include:\S+ ~all$/ },
    });
    const twice = await call('POST', '', { domain: again });
    const had = { error: 'domain already exists', detail: `domain: this account already has ${name}` };
    t.strictSame([twice.status, twice.body], [400, had], again.slice(0, 60));
    names.unshift(name);

    const row = await node.db.prisma.domain.findUniqueOrThrow({ where: { id: body.domain.id } });
    const secret = open(new Keyring(encryptionKey), Buffer.from(row.dkimPrivateKey), sealContext(row.id)).subarray(
      300,
      340,
    );
    const [dump] = await node.db.query<{ text: string }>({
      text: 'SELECT d::text AS text FROM domains d WHERE id = $1',
      values: [row.id],
    });
    t.notMatch(dump?.text, secret.toString('hex'), 'the private key is not stored in clear');
    t.notMatch(JSON.stringify(body), /PRIVATE|private/);
  }
  const listed = await call('GET', '');
  t.strictSame(Object.keys(listed.body), ['domains']);
  t.strictSame(
    listed.body.domains.map((domain: { domain: string }) => domain.domain),
    names,
    'newest first',
  );
  t.strictSame(Object.keys(listed.body.domains[0]), [
    'id',
    'domain',
    'status',
    'dkim_selector',
    'verified_at',
    'dns_warning',
    'tls',
    'pool',
    'created_at',
  ]);

  const racing = await Promise.all(Array.from({ length: 5 }, () => call('POST', '', { domain: 'race.test' })));
  t.strictSame(racing.map((answer) => answer.body.error ?? 'taken').sort(), [
    ...Array(4).fill('domain already exists'),
    'taken',
  ]);

  const other = await manageDomains(node);
  t.strictSame((await other.call('GET', '')).body, { domains: [] });
  const { domains: all } = (await call('GET', '')).body;
  t.ok(all.length > 2);
  t.strictSame((await call('GET', '?limit=1&offset=1')).body, { domains: [all[1]] });
  const { id } = listed.body.domains[0];
  t.equal(
    (await other.call('POST', '', { domain: names[0] })).status,
    200,
    'another account may be the one that owns it',
  );
  for (const wrong of [id, '01890000-0000-7000-8000-000000000000', 'x', '%00', `${id}%00`, "'--", 'x'.repeat(5_000)]) {
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/verify'],
    ] as const) {
      const answer = await other.call(method, `/${wrong}${path}`);
      t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], `${method} ${wrong.slice(0, 60)}`);
    }
  }
  const read = await call('GET', `/${id}`);
  t.strictSame(read.body.domain, listed.body.domains[0]);
  t.match(read.body.dns_records, { verification: {}, dkim: {}, spf: {} });
  const removed = await call('DELETE', `/${id}`);
  t.strictSame([removed.status, Object.keys(removed.body), typeof removed.body.message], [200, ['message'], 'string']);
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/verify'],
  ] as const)
    t.equal((await call(method, `/${id}${path}`)).status, 404, `${method} after it was removed`);
  t.strictSame(
    (await call('GET', '')).body.domains,
    all.filter((one: { id: string }) => one.id !== id),
    'nothing else',
  );
  t.equal((await other.call('GET', '')).body.domains.length, 1);
  t.equal((await call('POST', '', { domain: names[0] })).status, 200, 'it can be registered again');
});

t.test('a new domain can have its settings from the start', async (t) => {
  const node = await sharedNode('api');
  const { call } = await manageDomains(node);
  const before = await node.db.prisma.domain.count();
  const { status, body } = await call('POST', '', { domain: 'strict.test', tls: 'required', pool: null });
  t.match([status, body.domain], [200, { tls: 'required', pool: null }]);
  t.match((await call('GET', `/${body.domain.id}`)).body.domain, { tls: 'required' });
  for (const [fields, detail] of [
    [{ tls: 'nonsense' }, /^tls: /],
    [{ pool: 5 }, 'pool: must be a string or null'],
    [{ pool: 'bulk' }, /^pool: bulk is not configured on this node/],
  ] as const)
    t.match(await call('POST', '', { domain: 'other.test', ...fields }), { status: 400, body: { detail } });
  t.equal(await node.db.prisma.domain.count(), before + 1, 'nothing is stored');
  const change = (fields: object) => call('PATCH', `/${body.domain.id}`, fields);
  t.match(await change({ ...body.domain, tls: 'verified' }), { status: 200, body: { domain: { tls: 'verified' } } });
});
