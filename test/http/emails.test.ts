import t from 'tap';
import { buildKey, buildSender, buildVerifiedDomain } from '../support/build.ts';
import { at, attach, encryptionKey, type Fields, refuseAll, startMailer, stored } from './scene.ts';

const MB = 1024 * 1024;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const own = (fields: Fields): Fields => ({ headers: fields });
const b64 = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64');

t.test('an accepted email is answered with the documented record, and nothing more: DOS-05', async (t) => {
  const { node, send, fields, from, key } = await startMailer();
  const bare = await send({});
  t.equal(bare.status, 200);
  t.strictSame(Object.keys(bare.body), ['email']);
  t.match([bare.body.email.id, bare.body.email.created_at], [uuid, instant]);
  const record = {
    id: bare.body.email.id,
    status: 'queued',
    from,
    to: 'a@b.test',
    cc: [],
    bcc: [],
    reply_to: [],
    subject: 's',
    tags: [],
    type: 'transactional',
    created_at: bare.body.email.created_at,
    sent_at: null,
    error: null,
  };
  t.strictSame(bare.body.email, record);
  const waiting = { status: 'queued', attempts: 0, last_response: null, waiting_for: null };
  const read = await node.call('GET', `/api/v1/emails/${record.id}`, { key });
  t.match(read.body.email.recipients[0].next_attempt_at, instant);
  const next_attempt_at = read.body.email.recipients[0].next_attempt_at;
  const sentWith = await node.db.prisma.apiKey.findFirst({ where: { keyPrefix: key.slice(0, 12) } });
  t.strictSame(read.body, {
    email: {
      ...record,
      tls: 'opportunistic',
      on_uncertain: 'retry',
      api_key_id: sentWith?.id,
      recipients: [{ address: 'a@b.test', kind: 'to', ...waiting, next_attempt_at }],
      returns: [],
    },
  });
  t.strictSame((await node.call('GET', `/api/v1/emails/${record.id}/attempts`, { key })).body, { attempts: [] });

  const full = {
    from: `"Shop, Inc." <${from.toUpperCase()}>`,
    to: ['Ann <ann@B\u00fccher.TEST>', 'b@b.test', 'B@b.test'],
    cc: 'c@b.test',
    bcc: ['<d@b.test>', 'c@B.test'],
    reply_to: 'r@b.test',
    subject: 'Hello \u2713',
    html: '<p>',
    text: null,
    headers: { 'X-A': 'v' },
    tags: ['t', 't'],
    type: 'marketing',
    scheduled_at: at(60_000),
  };
  const { body } = await send(full);
  t.strictSame(body.email, {
    ...record,
    id: body.email.id,
    created_at: body.email.created_at,
    from: `"Shop, Inc." <SENDER@${from.split('@')[1]}>`,
    to: 'Ann <ann@xn--bcher-kva.test>',
    cc: ['c@b.test'],
    bcc: ['d@b.test', 'c@b.test'],
    reply_to: ['r@b.test'],
    subject: full.subject,
    tags: full.tags,
    type: 'marketing',
    scheduled_at: full.scheduled_at,
  });
  const again = await node.call('GET', `/api/v1/emails/${body.email.id}`, { key });
  t.strictSame(
    again.body.email.recipients,
    [
      ['ann@xn--bcher-kva.test', 'to'],
      ['b@b.test', 'to'],
      ['c@b.test', 'cc'],
      ['d@b.test', 'bcc'],
    ].map(([address, kind]) => ({ address, kind, ...waiting, next_attempt_at: full.scheduled_at })),
    'each address once, in its most visible place',
  );

  const before = await stored(node);
  const nulls = {
    cc: null,
    bcc: null,
    reply_to: null,
    html: null,
    headers: null,
    tags: null,
    attachments: null,
    scheduled_at: null,
    type: null,
    template: null,
  };
  const theirs = '01890000-0000-7000-8000-000000000000';
  const foreign = {
    id: theirs,
    account_id: theirs,
    accountId: theirs,
    status: 'sent',
    sent_at: at(0),
    created_at: at(0),
    error: 'x',
    message_id: 'x',
    unknown: { deep: [1] },
  };
  const odd = `{"__proto__":{"type":"marketing","polluted":1},"constructor":{"prototype":{"polluted":1}},${JSON.stringify(fields).slice(1)}`;
  for (const extra of [nulls, foreign, odd]) {
    const { status, body } = await send(extra);
    t.equal(status, 200, JSON.stringify(extra).slice(0, 40));
    t.not(body.email.id, theirs);
    t.strictSame(body.email, { ...record, id: body.email.id, created_at: body.email.created_at });
  }
  t.equal(({} as { polluted?: number }).polluted, undefined);
  t.equal(Number((await stored(node))?.emails), Number(before?.emails) + 3);
});

t.test('exactly the limit is accepted, and one more is not: DOS-04', async (t) => {
  const service = await startMailer();
  const { node, account, send } = service;
  const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `a${from + n}@b.test`);
  const file = (bytes: number) => ({ filename: 'f', content: b64(bytes) });
  const taken: [what: string, fields: Fields][] = [
    ['100 recipients', { to: many(50), cc: many(25, 50), bcc: many(25, 75) }],
    ['100 in one field', { to: many(100) }],
    ['the longest subject', { subject: 'x'.repeat(998) }],
    ['a subject of spaces', { subject: '  ' }],
    ['the longest text and html', { text: 'x'.repeat(5 * MB), html: '\u00e9'.repeat(5 * MB) }],
    ['tags', { tags: Array(50).fill('x'.repeat(256)) }],
    ['headers', own(Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`X-${n}`, 'x'.repeat(2_000)])))],
    ['header names', own({ ['x'.repeat(76)]: 'v', 'List-Unsubscribe': '<https://a.test/>', In_Reply: 'x' })],
    ['names of Object.prototype', own(JSON.parse('{"__proto__":"x","constructor":"y","toString":"z"}'))],
    ['10 files', { attachments: Array(10).fill(file(1)) }],
    ['a file of 10 MB', { attachments: [file(10 * MB)] }],
    ['two files, 20 MB', { attachments: [file(10 * MB), file(10 * MB)] }],
    [
      'base64 of every kind',
      { attachments: ['', 'YQ==', 'aGk=', 'aGkh', '+/+/'].map((content) => ({ filename: 'f', content })) },
    ],
    ['inline', attach({ content_type: 'Text/HTML; charset="utf-8"', content_id: 'logo@a.test' })],
    ['a file called __proto__', attach({ filename: '__proto__' })],
    ['an html body alone', { text: undefined, html: '<p>' }],
  ];
  for (const [what, fields] of taken) {
    const { status, body } = await send(fields);
    t.equal(status, 200, `${what} ${body.detail ?? ''}`);
  }
  await refuseAll(t, service, [
    [{ to: many(50), cc: many(25), bcc: many(26) }, 'to: must have at most 100 addresses together with cc and bcc'],
    [{ attachments: Array(11).fill(file(1)) }, 'attachments: must have at most 10 entries'],
    [{ attachments: [file(10 * MB + 1)] }, 'attachments[0].content: is larger than 10 MB'],
    [{ attachments: [file(10 * MB), file(10 * MB), file(1)] }, 'attachments: are larger than 20 MB in total'],
  ]);
  const kept = await node.db.prisma.attachment.findMany({ where: { accountId: account.id } });
  t.strictSame(
    kept.map((row) => row.content.length).sort((a, b) => a - b),
    [0, 1, 1, 2, 3, 3, 10 * MB],
    'repeated bytes are stored once',
  );

  const today = Date.now();
  const dayIn = (days: number) => new Date(today + days * 86_400_000).toISOString().slice(0, 10);
  for (const [given, shown] of [
    [at(-50_000), null],
    [at(3_600_000), null],
    [at(365 * 86_400_000), null],
    [`${dayIn(9)}T04:05:06z`, `${dayIn(9)}T04:05:06.000Z`],
    [`${dayIn(9)}t04:05:06.123456789+05:30`, `${dayIn(8)}T22:35:06.123Z`],
    [`${dayIn(9)}T23:59:59-23:59`, `${dayIn(10)}T23:58:59.000Z`],
  ] as const) {
    const { status, body } = await send({ scheduled_at: given });
    t.match([status, body.email.scheduled_at, body.email.status], [200, shown ?? given, 'queued'], given);
  }
});

t.test('only a verified domain of the account may send', async (t) => {
  const service = await startMailer();
  const { node, send, account, domain, key, fields } = service;
  const other = await buildSender(node.db, encryptionKey);
  const international = (await buildVerifiedDomain(node.db, account.id, encryptionKey, 'xn--bcher-kva.test')).domain;
  const pending = 'pending.test';
  const { body: login } = await node.call('POST', '/api/v1/auth/login', { body: account });
  t.equal((await node.call('POST', '/api/v1/domains', { token: login.token, body: { domain: pending } })).status, 200);
  const before = await stored(node);
  for (const [name, shown] of [
    ['unregistered.test', 'unregistered.test'],
    [pending, pending],
    [other.domain, other.domain],
    [`sub.${domain}`, `sub.${domain}`],
    // With a Cyrillic letter in its last label: U+0435 for e.
    [domain.replace('.test', '.t\u0435st'), /^[0-9a-f]+\.xn--/],
    ['b\u00fcchеr.test', /^xn--/],
  ] as const) {
    const { status, body } = await send({ from: `a@${name}` });
    t.match(
      [status, body.error, body.detail],
      [400, 'from domain not verified', 'is not a verified domain of this account: '],
      name,
    );
    const next =
      name === pending ? /: it is added; publish its DNS records and verify it$/ : /: add it first, then verify it$/;
    t.match(body.detail, next, name);
    const dry = await node.call('POST', '/api/v1/emails?dry_run=true', { key, body: { ...fields, from: `a@${name}` } });
    t.match(dry, { status, body }, name);
    t.match(body.detail.split(' ')[1], shown);
  }
  const reader = await buildKey(node.db, account.id, { scopes: ['read'] });
  const restricted = await buildKey(node.db, account.id, { domains: [international] });
  const over = await buildKey(node.db, account.id, { expiresAt: new Date(Date.now() - 1) });
  for (const [by, status, error] of [
    [reader, 403, 'forbidden'],
    [restricted, 403, 'forbidden'],
    [over, 401, 'unauthorized'],
    [undefined, 401, 'unauthorized'],
  ] as const) {
    const answer = await node.call('POST', '/api/v1/emails', { key: by, body: fields });
    t.strictSame([answer.status, answer.body], [status, { error }]);
  }
  t.strictSame(await stored(node), before, 'nothing is stored');
  for (const [by, from, shown] of [
    [key, `a@${domain.toUpperCase()}`, `a@${domain}`],
    [restricted, 'B <b@B\u00fccher.test>', 'B <b@xn--bcher-kva.test>'],
    [restricted, 'b@b\u00fccher\u3002test', 'b@xn--bcher-kva.test'],
    [key, 'b@XN--BCHER-KVA.test', 'b@xn--bcher-kva.test'],
  ] as const) {
    const { status, body } = await node.call('POST', '/api/v1/emails', { key: by, body: { ...fields, from } });
    t.match([status, body.email?.from], [200, shown], `${body.detail}`);
  }
});

t.test('the list is newest first, in pages of at most 100', async (t) => {
  const { node, fields, key } = await startMailer();
  const emails = Array.from({ length: 105 }, (_, n) => ({ ...fields, subject: `number ${n}` }));
  t.equal((await node.call('POST', '/api/v1/emails/batch', { key, body: { emails } })).status, 200);
  const newest = emails.map(({ subject }) => subject).reverse();
  const list = (query: string) => node.call('GET', `/api/v1/emails${query}`, { key });
  for (const [query, from, to] of [
    ['', 0, 50],
    ['?limit=', null, null],
    ['?limit=1', 0, 1],
    ['?limit=0', 0, 0],
    ['?limit=007', 0, 7],
    ['?limit=100', 0, 100],
    ['?limit=101', 0, 100],
    ['?limit=999999999999999', 0, 100],
    [`?limit=${'9'.repeat(30)}`, 0, 100],
    ['?offset=100', 100, 105],
    ['?offset=105', 105, 105],
    ['?offset=999999999999999', 105, 105],
    [`?offset=${'9'.repeat(30)}`, 105, 105],
    ['?limit=2&offset=3', 3, 5],
    ['?unknown=1', null, null],
    ['?limit[]=1', null, null],
    ...['limit', 'offset'].flatMap((name) => [
      ...['abc', '-1', '1.5', '1e3', '0x10', '+1', '%201', '1%00', '%D9%A1', '1;select', "1'--", 'NaN', 'null'].map(
        (value) => [`?${name}=${value}`, null, null] as const,
      ),
      [`?${name}=1&${name}=2`, null, null] as const,
    ]),
  ] as const) {
    const { status, body } = await list(query);
    if (from === null) {
      t.match(
        [status, body],
        [400, { error: 'invalid request', detail: /^(limit|offset|unknown|limit\[\]): / }],
        query,
      );
      continue;
    }
    t.equal(status, 200, query);
    t.strictSame(Object.keys(body), ['emails', 'count', 'count_exact', 'next_cursor'], query);
    t.equal(body.count, emails.length, query);
    t.strictSame(
      body.emails.map((email: { subject: string }) => email.subject),
      newest.slice(from, to),
      query,
    );
  }
  const [first] = (await list('?limit=1')).body.emails;
  t.strictSame(Object.keys(first), [
    'id',
    'status',
    'from',
    'to',
    'cc',
    'bcc',
    'reply_to',
    'subject',
    'tags',
    'type',
    'created_at',
    'sent_at',
    'error',
    'returned',
    'recipient_count',
    'held',
  ]);
});

t.test('emails of another account and invalid ids are not found', async (t) => {
  const { node, send, key, account } = await startMailer();
  const other = await buildSender(node.db, encryptionKey);
  const { id } = (await send({ scheduled_at: at(3_600_000) })).body.email;
  const { body: login } = await node.call('POST', '/api/v1/auth/login', { body: account });
  const routes = (of: string): [method: string, path: string, body?: unknown][] => [
    ['GET', `/api/v1/emails/${of}`],
    ['GET', `/api/v1/emails/${of}/attempts`],
    ['DELETE', `/api/v1/emails/${of}`],
    ['PATCH', `/api/v1/emails/${of}`, { scheduled_at: at(7_200_000) }],
  ];
  for (const [method, path, body] of routes(id)) {
    const answer = await node.call(method, path, { key: other.key, body });
    t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], `${method} ${path}`);
  }
  t.strictSame((await node.call('GET', '/api/v1/emails', { key: other.key })).body, {
    emails: [],
    count: 0,
    count_exact: true,
    next_cursor: null,
  });
  const none = [
    '01890000-0000-7000-8000-000000000000',
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    'x',
    '1',
    '%00',
    `${id}%00`,
    `${id}%0a`,
    `%20${id}`,
    `%7B${id}%7D`,
    `urn:uuid:${id}`,
    id.replaceAll('-', ''),
    `${id}x`,
    id.slice(1),
    "'%20OR%201=1--",
    '..%2f..%2fkeys',
    '%E0%A4%A',
    '%ED%A0%80',
    '\u{1f600}',
    'x'.repeat(8_000),
  ];
  for (const wrong of none) {
    for (const [method, path, body] of routes(wrong)) {
      const answer = await node.call(method, path, { key, body });
      t.strictSame(
        [answer.status, answer.body],
        [404, { error: 'not found' }],
        `${method} ${path.slice(0, 80).replaceAll(/[^ -~]/g, '?')}`,
      );
    }
    for (const path of [`/api/v1/sandbox/messages/${wrong}`, `/api/v1/domains/${wrong}`]) {
      const answer = await node.call('GET', path, { token: login.token });
      t.strictSame(
        [answer.status, answer.body],
        [404, { error: 'not found' }],
        path.slice(0, 80).replaceAll(/[^ -~]/g, '?'),
      );
    }
  }
  const mine = await node.call('GET', `/api/v1/emails/${id.toUpperCase()}`, { key });
  t.match(
    [mine.status, mine.body.email],
    [200, { id, status: 'queued', recipients: [{ address: 'a@b.test' }] }],
    'it is unchanged',
  );
});
