import PostalMime from 'postal-mime';
import t from 'tap';
import { harmless, refused, show } from '../mail/payloads.ts';
import { eventually } from '../support/node.ts';
import { at, attach, type Fields, type Refusal, refuseAll, startMailer } from './scene.ts';

const MB = 1024 * 1024;
const notDated = 'scheduled_at: must be an RFC 3339 timestamp such as 2027-01-31T09:00:00Z';
const own = (fields: Fields): Fields => ({ headers: fields });

/** Values of every wrong type, with the detail that they are refused with. */
const wrongTypes = (field: string, words: string, right: string[] = []): Refusal[] =>
  Object.entries({
    null: null,
    number: 7,
    boolean: true,
    string: 'x',
    array: [],
    object: {},
    like: { 0: 'a@b.test', length: 1 },
  }).flatMap(([type, value]): Refusal[] => (right.includes(type) ? [] : [[{ [field]: value }, `${field}: ${words}`]]));

t.test('an invalid field is named with the reason, and nothing is stored: DOS-04', async (t) => {
  const service = await startMailer();
  const addresses = ['to', 'cc', 'bcc', 'reply_to'].flatMap((field): Refusal[] => [
    ...wrongTypes(field, 'must be a string or an array of strings', [
      'string',
      'array',
      ...(field === 'to' ? [] : ['null']),
    ]),
    [{ [field]: [7] }, `${field}[0]: must be a string, such as "Ann <ann@mail.example>"`],
    [{ [field]: ['a@b.test', null] }, `${field}[1]: must be a string`],
    [{ [field]: [['a@b.test']] }, `${field}[0]: must be a string`],
    [{ [field]: '' }, `${field}[0]: must not be empty`],
    ...[
      'a@b.test, c@d.test',
      'a@b.test,c@d.test',
      'a@b.test; c@d.test',
      'Ann <a@b.test>, Bob <c@d.test>',
      '"Ann, A" <a@b.test>, c@d.test',
    ].flatMap((several): Refusal[] => [
      [
        { [field]: several },
        `${field}[0]: is more than one address: send several as an array, ["a@b.example", "c@d.example"]`,
      ],
      [{ [field]: ['a@b.test', several] }, `${field}[1]: is more than one address: send several as an array, [`],
    ]),
    [{ [field]: 'a@b@c.test' }, `${field}[0]: contains more than one @`],
    [{ [field]: 'Ann, Bob <a@b.test>' }, `${field}[0]: the name needs quotes`],
    [{ [field]: Array(101).fill('a@b.test') }, `${field}: must have at most 100 addresses`],
  ]);
  await refuseAll(t, service, [
    ...addresses,
    ...['a@b.test, c@d.test', 'Ann <a@b.test>; Bob <c@d.test>'].map(
      (from): Refusal => [{ from }, 'from: is more than one address: give only one'],
    ),
    [{ from: 'a@b@c.test' }, 'from: contains more than one @'],
    ...wrongTypes('from', 'must be a string, such as "Ann <ann@mail.example>"', ['string']),
    ...wrongTypes('subject', 'must be a string', ['string']),
    ...wrongTypes('html', 'must be a string', ['string', 'null']),
    ...wrongTypes('text', 'must be a string', ['string', 'null']),
    ...wrongTypes('headers', 'must be an object, such as {"X-Order": "501"}', ['object', 'like', 'null', 'array']),
    ...[[{}], [{ 'X-A': 'x' }]].map(
      (headers): Refusal => [{ headers }, 'headers: must be an object, such as {"X-Order": "501"}'],
    ),
    ...wrongTypes('tags', 'must be an array, such as ["orders"]', ['array', 'null']),
    ...wrongTypes('attachments', 'must be an array', ['array', 'null']),
    ...wrongTypes('scheduled_at', 'must be an RFC 3339 timestamp such as 2027-01-31T09:00:00Z', ['string', 'null']),
    ...wrongTypes('type', 'must be one of transactional, marketing', ['null']),
    ...['', 'Marketing', 'marketing ', '__proto__'].map(
      (type): Refusal => [{ type }, 'type: must be one of transactional, marketing'],
    ),
    ...['from', 'to', 'subject'].map((field): Refusal => [{ [field]: undefined }, `${field}: is required`]),
    [{ to: [] }, 'to: must name at least one recipient'],
    [{ to: [], cc: 'a@b.test' }, 'to: must name at least one recipient'],
    [{ subject: '' }, 'subject: must not be empty'],
    [{ subject: 'x'.repeat(999) }, 'subject: must have at most 998 characters'],
    [{ text: undefined }, 'html: html, text or template is required'],
    [{ text: '', html: '' }, 'html: html, text or template is required'],
    [{ text: null, html: null }, 'html: html, text or template is required'],
    [{ text: 'a\0b' }, 'text: contains a NUL character'],
    [{ html: 'a\ud800b' }, 'html: contains half of a surrogate pair'],
    [{ text: 'x'.repeat(5 * MB + 1) }, 'text: must have at most 5,242,880 characters'],
    ...wrongTypes('template', '', ['null']).map(([fields]): Refusal => [{ ...fields, text: null }, /^template/]),
    ...[7, { name: 'kind', value: 'order' }].map(
      (tag): Refusal => [{ tags: [tag] }, 'tags[0]: must be a string, such as "orders" or "kind:order"'],
    ),
    [{ tags: [''] }, 'tags[0]: must not be empty'],
    [{ tags: ['x'.repeat(257)] }, 'tags[0]: must have at most 256 characters'],
    [{ tags: Array(51).fill('x') }, 'tags: must have at most 50 entries'],
    ...[
      'DKIM-Signature',
      'return-path',
      'Received',
      'Message-ID',
      'Content-Type',
      'Resent-To',
      'Sender',
      'ARC-Seal',
      'Date',
      'Mime-Version',
      'X-Sendwright-Id',
    ].map((name): Refusal => [own({ [name]: 'x' }), `headers.${name}: is set by Sendwright`]),
    ...[
      ['From', 'from'],
      ['to', 'to'],
      ['CC', 'cc'],
      ['BCC', 'bcc'],
      ['Subject', 'subject'],
      ['Reply-To', 'reply_to'],
    ].map(([name = '', field]): Refusal => [own({ [name]: 'x' }), `headers.${name}: use the field ${field} instead`]),
    ...[
      ['Idempotency-key', 'x', 'is a header of the call, not of the email'],
      ['Resend-Idempotency-Key', 'x', 'is a header of the call, not of the email'],
      ['X-PM-Message-Stream', 'broadcast', 'must be the field type'],
      ['X-Mailgun-Deliver-At', 'Fri, 01 Jan 2031 09:00:00 GMT', 'must be the field scheduled_at'],
      ['X-Mailgun-Time-Zone-Localize', '09:00AM', 'must be the field scheduled_at'],
      ['X-Mailgun-Require-TLS', 'yes', 'must be the field tls'],
      ['X-MC-BccAddress', 'c@b.test', 'must be the field bcc'],
      ['X-SMTPAPI', '{"to": ["a@b.test"]}', '"to" must be the field to'],
      ['X-Mailgun-Drop-Message', 'yes', /Message: asks for a test, but the email would be sent: use POST /],
    ].map(([name, value, words]): Refusal => {
      const refusal = typeof words === 'string' ? `headers.${name}: ${words}` : (words as RegExp);
      return [own({ [String(name)]: value }), refusal];
    }),
    ...['X A', 'X:A', 'X\r\nY', 'X\0', 'X\u00e9'].map(
      (name): Refusal => [own({ [name]: 'x' }), /^headers(\.\S.*)?: is not a header name$/],
    ),
    [own({ 'X-Größe': 'x' }), 'headers.X-Größe: is not a header name'],
    [own({ 'X\u202eY\ud83d': 'x' }), 'headers.X?Y?: is not a header name'],
    [own({ [`${'x'.repeat(191)}\u{1f600}`]: 'x' }), /^headers\.x{191}: is not a header name$/],
    [own({ ['x'.repeat(77)]: 'y' }), /^headers\.x+: has a name of more than 76 characters$/],
    ...[7, null, ['x'], {}, true].map((value): Refusal => [own({ 'X-A': value }), 'headers.X-A: must be a string']),
    [own({ 'X-A': '' }), 'headers.X-A: is empty'],
    [own({ 'X-A': 'x'.repeat(2_001) }), 'headers.X-A: must have at most 2,000 characters'],
    [own({ References: '<a@b.test> '.repeat(910) }), 'headers.References: must have at most 10,000 characters'],
    [own({ 'X-A': 'x', 'x-a': 'y' }), 'headers.x-a: is the same header as X-A'],
    [
      own(Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`X-${n}`, 'x']))),
      'headers: must have at most 50 entries',
    ],
    ...[7, null, 'x', []].map((value): Refusal => [{ attachments: [value] }, 'attachments[0]: must be an object']),
    [attach({ filename: undefined }), 'attachments[0].filename: is required'],
    ...['filename', 'content', 'content_type', 'content_id'].flatMap((field) =>
      [7, ['x'], {}].map(
        (value): Refusal => [
          attach({ [field]: value }),
          new RegExp(`^attachments\\[0\\]\\.${field}: must be a (base64 )?string(, as .*)?$`),
        ],
      ),
    ),
    ...['filename', 'content_type', 'content_id'].map(
      (field): Refusal => [attach({ [field]: '' }), `attachments[0].${field}: must not be empty`],
    ),
    ...['folder/', 'C:\\', '..', '../..', '.'].map(
      (filename): Refusal => [attach({ filename }), 'attachments[0].filename: is empty'],
    ),
    [attach({ filename: 'x'.repeat(256) }), 'attachments[0].filename: is longer than 255 characters'],
    [
      attach({ filename: 'photo\u202egpj.exe' }),
      'attachments[0].filename: contains characters that reverse the direction of text',
    ],
    [{ attachments: [{ path: '/etc/passwd' }] }, 'attachments[0].filename: is required'],
    ...[
      { path: '/etc/passwd' },
      { href: 'http://169.254.169.254/' },
      { raw: 'x' },
      { url: 'file:///etc/passwd' },
    ].flatMap((fields): Refusal[] => [
      [
        attach({ content: undefined, ...fields }),
        'raw' in fields
          ? 'attachments[0].content: is required'
          : `attachments[0].${Object.keys(fields)[0]}: is not fetched: send the bytes of the file as content, in base64`,
      ],
      [
        attach({ content: fields }),
        "attachments[0].content: must be a base64 string, as buffer.toString('base64') makes it",
      ],
    ]),
    ...[
      'text',
      'text/',
      '/plain',
      'text/plain; charset',
      'text/plain; boundary="a\nb"',
      'te xt/plain',
      'x'.repeat(501),
    ].map((type): Refusal => [attach({ content_type: type }), /^attachments\[0\]\.content_type: /]),
    [
      attach({ content_type: 'multipart/mixed; boundary=x' }),
      'attachments[0].content_type: must not be a multipart type',
    ],
    ...['<a@b>', 'a b', 'é', 'x'.repeat(201)].map(
      (id): Refusal => [attach({ content_id: id }), /^attachments\[0\]\.content_id: /],
    ),
    [
      {
        attachments: ['one', null, 'two', 'one'].map((id) => ({ filename: 'a.txt', content: 'aGk=', content_id: id })),
      },
      'attachments[3].content_id: is already used by attachments[0]',
    ],
    [attach({ content_id: 'cid:logo' }), 'attachments[0].content_id: must be without cid:, which is for the html'],
    ...[
      '!!!',
      '!!!aGVs',
      'aGk',
      'aGk==',
      'aGl=',
      'aG=k',
      'aGk=\n',
      ' aGk=',
      'aG k=',
      'a',
      '=',
      '====',
      '_-8=',
      'aGk=aGk=',
      'data:text/plain;base64,aGk=',
      'aGk\0',
      '\u0141\u0141\u0141\u0141',
      // Behind what is compared at once.
      `${'aGkh'.repeat(20_000)}aG k`,
    ].map((content): Refusal => [attach({ content }), 'attachments[0].content: is not base64']),
    ...[
      'tomorrow',
      '',
      '2027-01-31',
      '2027-01-31T09:00:00',
      '2027-01-31 09:00Z',
      '2027-02-30T09:00:00Z',
      '2027-02-29T09:00:00Z',
      '2027-13-01T09:00:00Z',
      '2027-00-01T09:00:00Z',
      '2027-01-00T09:00:00Z',
      '2026-12-31T23:59:60Z',
      '2027-01-31T24:00:00Z',
      '2027-01-31T09:60:00Z',
      '2027-01-31T09:00:00+0100',
      '2027-01-31T09:00:00+24:00',
      '2027-01-31T09:00:00+01:60',
      '2027-01-31T09:00:00.Z',
      '+002027-01-31T09:00:00Z',
      '2027-01-31T09:00:00Z\n',
      '1800000000',
      '2027-01-31T09:00:00Z\0',
      '\u0662027-01-31T09:00:00Z',
    ].map((time): Refusal => [{ scheduled_at: time }, notDated]),
    [{ scheduled_at: at(-61_000) }, 'scheduled_at: is in the past'],
    [{ scheduled_at: '1999-12-31T23:59:59Z' }, 'scheduled_at: is in the past'],
    [{ scheduled_at: at(366 * 86_400_000 + 600_000) }, 'scheduled_at: is more than a year ahead'],
    [{ scheduled_at: '9999-12-31T23:59:59Z' }, 'scheduled_at: is more than a year ahead'],
  ]);
});

t.test('nothing that could start a line gets into a header, an address or a tag', async (t) => {
  const service = await startMailer();
  const { domain, from } = service;
  const places: [field: string, fields: (payload: string) => Fields][] = [
    ['from', (x) => ({ from: `a${x}@${domain}` })],
    ['from', (x) => ({ from: `Shop${x} <${from}>` })],
    ['from', (x) => ({ from: `a@${domain}${x}` })],
    ['from', (x) => ({ from: `"Shop${x}" <${from}>` })],
    ...['to', 'cc', 'bcc', 'reply_to'].flatMap((field): typeof places => [
      [`${field}[0]`, (x) => ({ [field]: `a${x}@b.test` })],
      [`${field}[1]`, (x) => ({ [field]: ['a@b.test', `Ann${x} <a@b.test>`] })],
      [`${field}[0]`, (x) => ({ [field]: [`a@b.test${x}`] })],
    ]),
    ['subject', (x) => ({ subject: `s${x}` })],
    ['headers.X-A', (x) => own({ 'X-A': `v${x}` })],
    ['headers', (x) => own({ [`X-A${x}`]: 'v' })],
    ['tags[0]', (x) => ({ tags: [`t${x}`] })],
    ['attachments[0].filename', (x) => attach({ filename: `f${x}` })],
    ['attachments[0].content_type', (x) => attach({ content_type: `text/plain${x}` })],
    ['attachments[0].content_id', (x) => attach({ content_id: `i${x}` })],
  ];
  await refuseAll(
    t,
    service,
    places.flatMap(([field, fields]) =>
      refused.map(
        (payload): Refusal => [fields(payload), new RegExp(`^${field.replaceAll(/[[\].]/g, '\\$&')}(\\..*)?: `)],
      ),
    ),
  );
  const hostile = [
    'a@b@c.test',
    'a>@b.test',
    '<a@b.test',
    '"a b"@c.test',
    '"a@evil.test x"@b.test',
    'a@b.test(@evil.test)',
    '<@x.test:a@b.test>',
    '<a@evil.test>b@b.test',
    'g:a@b.test;',
    'a@[127.0.0.1]',
    'a@127.0.0.1',
    'a@localhost',
    'a@b.test.',
    'a@.test',
    'a..b@c.test',
    '.a@c.test',
    'a@b_c.test',
    'a@-b.test',
    `${'x'.repeat(65)}@b.test`,
    `a@${'x'.repeat(64)}.test`,
    `a@${'x.'.repeat(130)}test`,
    'a@b.test SIZE=1',
    'a @b.test',
    'Ann, Bob <a@b.test>',
    'a\uff20evil.test@b.test',
    'a@xn--a.test',
  ];
  await refuseAll(
    t,
    service,
    ['from', 'to', 'cc', 'bcc', 'reply_to'].flatMap((field) =>
      hostile.map((address): Refusal => [{ [field]: address }, new RegExp(`^${field}(\\[0\\])?: `)]),
    ),
  );
});

t.test('text that only looks like a line end arrives unchanged', async (t) => {
  const { node, send, account, from, key } = await startMailer('api,mta');
  const token = (await node.call('POST', '/api/v1/auth/login', { body: account })).body.token;
  const sent = new Map<string, { payload: string; name: string; filename: string }>();
  for (const payload of harmless) {
    // A name must not reverse the direction of text.
    const name = `N${payload.replace('\u202e', '')}`;
    // A file name must not contain what its reader would decode.
    const filename = name.replaceAll('=?', '');
    const { status, body } = await send({
      from: `"${name}" <${from}>`,
      to: ['\u010a\u560a@b.test', `"${name}" <b@b.test>`],
      subject: `s${payload}`,
      headers: { 'X-Own': `v${payload}` },
      tags: [`t${payload}`],
      ...attach({ filename }),
    });
    t.equal(status, 200, show(payload));
    t.match(body.email, { subject: `s${payload}`, tags: [`t${payload}`] });
    sent.set(body.email.id, { payload, name, filename });
  }
  const arrived = await eventually(async () => {
    const { body } = await node.call('GET', '/api/v1/sandbox/messages?limit=100', { token });
    return body.count === sent.size && body.messages;
  }, 60_000);
  for (const message of arrived) {
    const { payload, name, filename } = sent.get(message.email_id) ?? { payload: '', name: '', filename: '' };
    const what = show(payload);
    t.strictSame(message.rcpt_to, ['\u010a\u560a@b.test', 'b@b.test'], what);
    t.notMatch(message.raw, /[^\r]\n|\r[^\n]|^X-Evil/m, what);
    const parsed = await PostalMime.parse(message.raw);
    t.equal(parsed.subject, `s${payload}`, what);
    t.strictSame(
      parsed.to?.map((to) => [to.name, to.address]),
      [
        ['', '\u010a\u560a@b.test'],
        [name, 'b@b.test'],
      ],
      what,
    );
    t.equal(parsed.from?.name, name, what);
    t.equal(parsed.attachments[0]?.filename, filename, what);
    t.strictSame(
      parsed.headers.filter((header) => /^x-/.test(header.key)).map((header) => header.key),
      ['x-own'],
      what,
    );
    await eventually(async () => {
      const { body } = await node.call('GET', `/api/v1/emails/${message.email_id}`, { key });
      return body.email.status === 'sent' && t.equal(body.email.subject, `s${payload}`, what);
    });
  }
});

t.test('the References of a long thread are sent whole, in lines that servers accept', async (t) => {
  const { node, key, fields } = await startMailer();
  const references = Array.from({ length: 100 }, (_, n) => `<CAH${n}${'x'.repeat(70)}@mail.gmail.example>`).join(' ');
  t.ok(references.length > 9_000);
  const { status, body } = await node.call('POST', '/api/v1/emails?dry_run=true', {
    key,
    body: { ...fields, headers: { references } },
  });
  t.equal(status, 200, body.detail);
  const raw: string = body.message.raw;
  t.ok(raw.split('\r\n').every((line) => line.length <= 998));
  const [, written] = /^references: ((?:.|\r\n[ \t])*)\r\n/im.exec(raw) ?? [];
  t.equal(written?.replaceAll(/\r\n[ \t]/g, ' '), references);
});

t.test('an empty text is left out: as a part of its own a reader would show it instead of the other', async (t) => {
  const { node, send, account } = await startMailer('api,mta');
  const token = (await node.call('POST', '/api/v1/auth/login', { body: account })).body.token;
  const of = async (fields: Fields) => {
    const { body } = await send(fields);
    const arrived = await eventually(async () => {
      const { messages } = (await node.call('GET', '/api/v1/sandbox/messages?limit=10', { token })).body;
      return messages.find((message: { email_id: string }) => message.email_id === body.email.id);
    });
    return /^Content-Type: (\S+);/m.exec(arrived.raw)?.[1];
  };
  t.equal(await of({ html: '', text: 'hello' }), 'text/plain');
  t.equal(await of({ html: '<p>hello</p>', text: '' }), 'text/html');
});
