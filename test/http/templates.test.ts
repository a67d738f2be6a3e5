import t from 'tap';
import { buildKey, buildSender } from '../support/build.ts';
import { eventually, type TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

const noId = '01890000-0000-7000-8000-000000000000';

/** A node with an account that can send and is logged in. */
async function start() {
  const node = await sharedNode('api,mta');
  return { node, ...(await buildTenant(node)) };
}

async function buildTenant(node: TestNode) {
  const sender = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: sender.account })).body;
  const create = async (body: object) =>
    (await node.call('POST', '/api/v1/templates', { token, body: { name: 'n', ...body } })).body.template;
  const publish = (id: string) => node.call('POST', `/api/v1/templates/${id}/publish`, { token });
  return { ...sender, token, create, publish };
}

t.test('from a draft to an email, and from an edit to the next one', async (t) => {
  const { node, token, key, domain } = await start();
  const created = await node.call('POST', '/api/v1/templates', {
    token,
    body: {
      name: 'Order shipped',
      alias: 'order-shipped',
      from: `{{SHOP}} <orders@${domain}>`,
      subject: 'Order {{{NUMBER}}} for {{NAME}}',
      reply_to: `help@${domain}`,
      html: '<p>Hello {{NAME}}, {{{BANNER}}} order {{NUMBER}}, {{UNDECLARED}}</p>',
      text: 'Hello {{NAME}}, order {{NUMBER}}',
      variables: [
        { key: 'NAME', type: 'string', fallback_value: 'you' },
        { key: 'NUMBER', type: 'number' },
        { key: 'BANNER', type: 'string', fallback_value: '' },
      ],
    },
  });
  t.equal(created.status, 201);
  const { template } = created.body;
  t.match(template, {
    id: String,
    name: 'Order shipped',
    alias: 'order-shipped',
    status: 'draft',
    has_unpublished_changes: true,
    reply_to: [`help@${domain}`],
    published_at: null,
    created_at: /Z$/,
    variables: [{ key: 'NAME', fallback_value: 'you' }, { key: 'NUMBER', fallback_value: null }, {}],
  });
  const path = `/api/v1/templates/${template.id}`;
  t.strictSame((await node.call('GET', path, { key })).body.template, template);

  const use = { alias: 'order-shipped', variables: { NAME: '<Ann> {{NUMBER}}', NUMBER: 7, SHOP: 'Shop, Inc.' } };
  const values = { ...use.variables, UNDECLARED: 'u', BANNER: '<b>Sale</b>' };
  const send = (template: object, more: object = {}) =>
    node.call('POST', '/api/v1/emails', { key, body: { to: 'ann@customers.test', template, ...more } });
  t.match((await send(use)).body, {
    error: 'invalid request',
    detail: 'template: it is a draft that was never published: publish it with POST /api/v1/templates/:id/publish',
  });

  const drafted = await node.call('POST', `${path}/render`, { key, body: { variables: values } });
  t.strictSame(drafted.body, {
    subject: 'Order 7 for <Ann> {{NUMBER}}',
    from: `"Shop, Inc." <orders@${domain}>`,
    reply_to: [`help@${domain}`],
    html: '<p>Hello &lt;Ann&gt; {{NUMBER}}, <b>Sale</b> order 7, u</p>',
    text: 'Hello <Ann> {{NUMBER}}, order 7',
  });
  const early = await node.call('POST', `${path}/render`, { key, body: { version: 'published' } });
  t.match([early.status, early.body.detail], [400, 'version: the template was never published']);

  const published = await node.call('POST', `${path}/publish`, { token });
  t.match([published.status, published.body.template.status], [200, 'published']);
  t.equal(published.body.template.has_unpublished_changes, false);
  t.match((await send(use)).body.detail, 'template.variables.UNDECLARED: is required');
  const sent = await send({ ...use, variables: values });
  t.match([sent.status, sent.body.email], [200, { subject: drafted.body.subject, from: drafted.body.from }]);

  const renamed = await node.call('PATCH', path, { key, body: { name: 'Order shipped' } });
  const { updated_at } = renamed.body.template;
  t.strictSame(renamed.body.template, { ...published.body.template, updated_at }, 'what is not named stays');
  const cleared = { subject: null, reply_to: null, variables: null };
  const edited = await node.call('PATCH', path, { key, body: { html: '<p>New</p>', ...cleared } });
  const without = { subject: null, reply_to: [], variables: [] };
  t.match(edited.body.template, { html: '<p>New</p>', ...without, name: 'Order shipped' });
  t.strictSame(
    [edited.body.template.text, edited.body.template.alias],
    [template.text, 'order-shipped'],
    'the rest stays',
  );
  t.equal(edited.body.template.has_unpublished_changes, true);
  t.equal(
    (await send({ ...use, variables: values })).body.email.subject,
    drafted.body.subject,
    'only the draft changed',
  );
  const old = await node.call('POST', `${path}/render`, { token, body: { variables: values, version: 'published' } });
  t.strictSame(old.body, drafted.body);
  t.equal((await node.call('POST', `${path}/publish`, { key })).status, 200);
  t.match(
    (await send({ ...use, variables: values })).body.detail,
    'subject: is required, because the template has none',
  );
  const overridden = await send(
    { id: template.id.toUpperCase(), variables: { NAME: 'Ann', NUMBER: 8 } },
    { from: `me@${domain}`, subject: 'Mine', reply_to: 'other@customers.test', html: null, text: null },
  );
  t.match(overridden.body.email, { subject: 'Mine', from: `me@${domain}`, reply_to: ['other@customers.test'] });

  t.match((await node.call('DELETE', path, { token })).body, { message: String });
  t.equal((await node.call('GET', path, { token })).status, 404);
  t.match((await send(use)).body.detail, 'template.alias: no template of this account has it');

  const arrived = await eventually(async () => {
    const { body } = await node.call('GET', '/api/v1/sandbox/messages', { token });
    return body.count === 3 && body.messages;
  });
  const [raw, last] = [sent.body, overridden.body].map(
    ({ email }) => arrived.find((message: { email_id: string }) => message.email_id === email.id)?.raw,
  );
  t.match(raw, `From: "Shop, Inc." <orders@${domain}>\r\n`);
  t.match(raw, `Reply-To: help@${domain}\r\n`);
  t.match(raw, '<p>Hello &lt;Ann&gt; {{NUMBER}}, <b>Sale</b> order 7, u</p>');
  t.match(raw, 'Hello <Ann> {{NUMBER}}, order 7');
  t.match(last, 'Subject: Mine\r\n');
  t.match(last, '<p>New</p>');
  t.match(last, 'Hello Ann, order 8', 'declarations may be removed; their values are still used');
});

t.test('who may do what', async (t) => {
  const { node, token, key, create, publish, account } = await start();
  const mine = await create({ alias: 'mine', from: 'a@b.test', subject: 's', html: 'h' });
  await publish(mine.id);
  await node.call('PATCH', `/api/v1/templates/${mine.id}`, { token, body: { html: 'unpublished' } });
  const other = await buildTenant(node);
  const theirs = await other.create({ alias: 'mine', text: 'another account may have the same alias' });
  const reader = await buildKey(node.db, account.id, { scopes: ['read'] });
  const calls = (id: string): [method: string, path: string, body: unknown, reads: boolean][] => [
    ['GET', `/api/v1/templates/${id}`, undefined, true],
    ['POST', `/api/v1/templates/${id}/render`, {}, true],
    ['PATCH', `/api/v1/templates/${id}`, { name: 'changed' }, false],
    ['POST', `/api/v1/templates/${id}/publish`, {}, false],
    ['DELETE', `/api/v1/templates/${id}`, undefined, false],
  ];

  t.test('another account finds nothing: AUTH-08', async (t) => {
    for (const id of [mine.id, noId, 'nonsense', '%00', 'mine', "' OR 1=1"]) {
      for (const [method, path, body] of calls(id)) {
        for (const by of [{ token: other.token }, { key: other.key }]) {
          const answer = await node.call(method, path, { ...by, body });
          t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], `${method} ${path}`);
        }
      }
    }
    const sent = await node.call('POST', '/api/v1/emails', {
      key: other.key,
      body: { from: other.from, to: 'a@b.test', subject: 's', template: { id: mine.id } },
    });
    t.strictSame([sent.status, sent.body.detail], [400, 'template.id: no template of this account has it']);
    const listed = await node.call('GET', '/api/v1/templates', { key: other.key });
    t.strictSame([listed.body.count, listed.body.templates.map(({ id }: { id: string }) => id)], [1, [theirs.id]]);
    const { template } = (await node.call('GET', `/api/v1/templates/${mine.id}`, { token })).body;
    t.match(template, { name: 'n', html: 'unpublished', has_unpublished_changes: true });
  });

  t.test('a login, a key with send, and for reading a key with read', async (t) => {
    for (const [method, path, body, reads] of [
      ['GET', '/api/v1/templates', undefined, true] as const,
      ['POST', '/api/v1/templates', { name: 'by a key' }, false] as const,
      ...calls(mine.id),
    ]) {
      const what = `${method} ${path}`;
      for (const nobody of [
        {},
        { key: 'sk_live_x' },
        { token: 'x' },
        { key: token },
        { token: key },
        { key: '', token: key },
      ])
        t.match(
          await node.call(method, path, { ...nobody, body }),
          { status: 401, body: { error: 'unauthorized' } },
          what,
        );
      t.equal(
        (await node.call(method, path, { key: 'sk_live_x', token, body })).status,
        401,
        'a login does not make up for a wrong key',
      );
      const { status } = await node.call(method, path, { key: reader, body });
      t.equal(status, reads ? 200 : 403, what);
      if (method !== 'DELETE') t.ok((await node.call(method, path, { token, body })).status < 300, what);
      t.ok((await node.call(method, path, { key, body })).status < 300, what);
    }
  });
});

t.test('invalid fields are named, and nothing is stored', async (t) => {
  const { node, token, create } = await start();
  const existing = await create({ alias: 'taken', html: 'h' });
  const edited = await create({ alias: 'edited', html: 'h' });
  const dump = () => node.db.query({ text: 'SELECT t::text FROM templates t ORDER BY id' });
  const before = await dump();
  const many = (length: number) => Array.from({ length }, (_, index) => ({ key: `K${index}`, type: 'string' }));
  const variable = { key: 'K', type: 'string' };
  const noPlaceholder =
    'which is not a placeholder: write {{KEY}}, where KEY has at most 64 letters, digits and _, the first not a digit';
  const anAlias = 'alias: must have only letters, digits, dots, underscores and hyphens';
  const fields: [fields: Record<string, unknown>, detail: string | RegExp][] = [
    [{ name: '' }, 'name: must not be empty'],
    [{ name: ' \u00a0\u3000' }, 'name: must not be blank'],
    [{ name: null }, 'name: must be a string'],
    [{ name: 7 }, 'name: must be a string'],
    [{ name: 'x'.repeat(201) }, 'name: must have at most 200 characters'],
    [{ name: 'a\0' }, 'name: contains control characters'],
    [{ name: '\ud800' }, 'name: is not well-formed Unicode'],
    [{ alias: '' }, 'alias: must not be empty'],
    [{ alias: 'two words' }, anAlias],
    [{ alias: 'a/b' }, anAlias],
    [{ alias: 'ä' }, anAlias],
    [{ alias: 'a\n' }, /^alias: /],
    [{ alias: 'x'.repeat(101) }, 'alias: must have at most 100 characters'],
    [{ alias: ['a'] }, 'alias: must be a string'],
    [{ alias: 'taken' }, 'alias: is used by another template'],
    [{ from: 'nonsense' }, 'from: not an email address'],
    [{ from: '{{A}} <nonsense>' }, 'from: not an email address'],
    [{ from: 'A <a@b.test>\r\nBcc: c@d.test' }, 'from: contains control characters'],
    [{ from: {} }, 'from: must be a string'],
    [{ subject: '' }, 'subject: must not be empty'],
    [{ subject: 'a\r\nBcc: c@d.test' }, 'subject: contains control characters'],
    [{ subject: 'x'.repeat(999) }, 'subject: must have at most 998 characters'],
    [{ subject: 1 }, 'subject: must be a string'],
    [{ reply_to: 'nonsense' }, 'reply_to[0]: not an email address'],
    [{ reply_to: ['a@b.test', 'nonsense'] }, 'reply_to[1]: not an email address'],
    [
      { reply_to: 'a@b.test, {{A}} <c@d.test>' },
      /^reply_to\[0\]: is more than one address: send several as an array, /,
    ],
    [{ reply_to: 7 }, 'reply_to: must be a string or an array of strings'],
    [{ reply_to: Array(101).fill('a@b.test') }, 'reply_to: must have at most 100 addresses'],
    [{ html: 7 }, 'html: must be a string'],
    [{ html: 'a\0' }, 'html: contains a NUL character'],
    [{ html: 'x'.repeat(5 * 1024 * 1024 + 1) }, 'html: must have at most 5,242,880 characters'],
    [{ html: '{{A}}'.repeat(1_001) }, 'html: must have at most 1,000 placeholders'],
    [{ subject: 'Hello {{user.name}}' }, `subject: contains {{user.name}}, ${noPlaceholder}`],
    [{ html: '<p>{{NAME}} {{{ first name }}}' }, `html: contains {{{ first name }}}, ${noPlaceholder}`],
    [{ text: '{{#each ITEMS}}' }, `text: contains {{#each ITEMS}}, ${noPlaceholder}`],
    [{ text: 'Gr\u00fc\u00dfe {{Gr\u00f6\u00dfe\n1}}' }, `text: contains {{Größe?1}}, ${noPlaceholder}`],
    [{ text: `{{${'K'.repeat(65)}}}` }, `text: contains {{${'K'.repeat(65)}}}, ${noPlaceholder}`],
    [{ from: '{{shop.name}} <a@b.test>' }, `from: contains {{shop.name}}, ${noPlaceholder}`],
    [{ reply_to: ['a@b.test', '{{1st}} <a@b.test>'] }, `reply_to[1]: contains {{1st}}, ${noPlaceholder}`],
    [{ text: ['t'] }, 'text: must be a string'],
    [{ text: '\udc00' }, 'text: contains half of a surrogate pair'],
    [{ text: '{{A}}'.repeat(1_001) }, 'text: must have at most 1,000 placeholders'],
    [{ variables: {} }, 'variables: must be an array'],
    [{ variables: ['K'] }, 'variables[0]: must be an object'],
    [{ variables: many(51) }, 'variables: must have at most 50 entries'],
    [{ variables: [{ type: 'string' }] }, 'variables[0].key: is required'],
    [
      { variables: [{ ...variable, key: '1K' }] },
      'variables[0].key: must have only letters, digits and _, and not begin with a digit',
    ],
    [{ variables: [{ ...variable, key: 'K-K' }] }, /^variables\[0\]\.key: must have only letters/],
    [{ variables: [{ ...variable, key: 'K'.repeat(65) }] }, 'variables[0].key: must have at most 64 characters'],
    [{ variables: [variable, variable] }, 'variables[1].key: is declared twice'],
    [{ variables: [{ key: 'K' }] }, 'variables[0].type: is required'],
    [{ variables: [{ key: 'K', type: 'list' }] }, 'variables[0].type: must be one of string, number'],
    [{ variables: [{ key: 'K', type: ['string'] }] }, /^variables\[0\]\.type: must be one of string, number$/],
    [{ variables: [{ ...variable, fallback_value: 7 }] }, 'variables[0].fallback_value: must be a string'],
    [
      { variables: [{ key: 'K', type: 'number', fallback_value: '7' }] },
      'variables[0].fallback_value: must be a number',
    ],
    [
      { variables: [{ key: 'K', type: 'number', fallback_value: 2 ** 53 }] },
      'variables[0].fallback_value: has too many digits for a number: send it as a string',
    ],
    [{ variables: [{ ...variable, fallback_value: {} }] }, 'variables[0].fallback_value: must be a string or a number'],
    [
      { variables: [{ ...variable, fallback_value: 'x'.repeat(2_001) }] },
      'variables[0].fallback_value: must have at most 2,000 characters',
    ],
    [{ variables: [{ ...variable, fallback_value: 'a\0' }] }, 'variables[0].fallback_value: contains a NUL character'],
  ];
  for (const [body, detail] of fields) {
    const what = JSON.stringify(body).slice(0, 60);
    for (const answer of [
      await node.call('POST', '/api/v1/templates', { token, body: { name: 'n', ...body } }),
      await node.call('PATCH', `/api/v1/templates/${edited.id}`, { token, body }),
    ])
      t.match([answer.status, answer.body], [400, { error: 'invalid request', detail }], what);
  }
  t.match((await node.call('POST', '/api/v1/templates', { token, body: {} })).body.detail, 'name: is required');
  for (const [body, detail] of [
    [{ variables: ['A'] }, 'variables: must be an object'],
    [{ variables: { A: true } }, 'variables.A: must be a string or a number'],
    [{ variables: { A: { B: 1 } } }, 'variables.A: must be a string or a number'],
    [{ variables: { A: 'x'.repeat(102_401) } }, 'variables.A: must have at most 102,400 characters'],
    [{ variables: { A: 'a\0' } }, 'variables.A: contains a NUL character'],
    [{ variables: { A: '\ud800' } }, 'variables.A: contains half of a surrogate pair'],
    ['{"variables": {"A": 1e400}}', 'variables.A: must be a finite number'],
    [
      { variables: Object.fromEntries(many(101).map(({ key }) => [key, 1])) },
      'variables: must have at most 100 entries',
    ],
    [{ version: 'latest' }, 'version: must be one of draft, published'],
  ] as const) {
    const answer = await node.call('POST', `/api/v1/templates/${existing.id}/render`, { token, body });
    t.match([answer.status, answer.body], [400, { error: 'invalid request', detail }]);
  }
  const most = Object.fromEntries(many(100).map(({ key }, n) => [key, n === 0 ? 'x'.repeat(102_400) : n]));
  const full = await node.call('POST', `/api/v1/templates/${existing.id}/render`, { token, body: { variables: most } });
  t.equal(full.status, 200, 'a hundred values');
  const bare = await create({ subject: 'no body', html: '' });
  const refused = await node.call('POST', `/api/v1/templates/${bare.id}/publish`, { token });
  t.match(
    [refused.status, refused.body.detail],
    [400, 'html: html or text is required before a template is published'],
  );
  await node.call('DELETE', `/api/v1/templates/${bare.id}`, { token });
  t.strictSame(await dump(), before);
  const again = await node.call('PATCH', `/api/v1/templates/${existing.id}`, { token, body: { alias: 'taken' } });
  t.equal(again.status, 200, 'its own alias is not a duplicate');
  t.equal(
    (await node.call('PATCH', `/api/v1/templates/${existing.id}`, { token, body: { alias: null } })).body.template
      .alias,
    null,
  );
  t.equal((await create({ alias: 'taken' })).alias, 'taken', 'an alias that was given up is free');
  t.strictSame([(await create({})).alias, (await create({})).alias], [null, null], 'null is not a duplicate');
});

t.test('an invalid placeholder is not published, and what was published before is sent as before', async (t) => {
  const { node, token, key, from, create, publish } = await start();
  const { id } = await create({ alias: 'old', subject: 's', from, html: '<p>{{NAME}}</p>', reply_to: 'r@b.test' });
  await publish(id);
  // As an earlier release stored it.
  const stored = (column: string, field: string, value: unknown) =>
    node.db.query({
      text: `UPDATE templates SET ${column} = jsonb_set(${column}, $2, $3::jsonb) WHERE id = $1`,
      values: [id, [field], JSON.stringify(value)],
    });
  await stored('published', 'html', '<p>{{NAME}}, {{user.name}}</p>');
  const sent = await node.call('POST', '/api/v1/emails', {
    key,
    body: { to: 'a@b.test', template: { alias: 'old', variables: { NAME: 'Ann' } } },
  });
  t.equal(sent.status, 200);
  const content = await node.call('GET', `/api/v1/emails/${sent.body.email.id}/content`, { key });
  t.equal(content.body.html, '<p>Ann, {{user.name}}</p>');

  const path = `/api/v1/templates/${id}`;
  for (const [field, value, detail] of [
    ['html', '<p>{{user.name}}</p>', 'html: contains {{user.name}}, which is not a placeholder'],
    ['text', '{{a b}}', 'text: contains {{a b}}, which is not a placeholder'],
    ['subject', '{{{1}}}', 'subject: contains {{{1}}}, which is not a placeholder'],
    ['from', '{{x.y}} <a@b.test>', 'from: contains {{x.y}}, which is not a placeholder'],
    ['replyTo', ['a@b.test', '{{x.y}} <a@b.test>'], 'reply_to[1]: contains {{x.y}}, which is not a placeholder'],
  ] as const) {
    const [before] = await node.db.query<{ draft: Record<string, unknown> }>({
      text: 'SELECT draft FROM templates WHERE id = $1',
      values: [id],
    });
    await stored('draft', field, value);
    t.equal((await node.call('POST', `${path}/render`, { token, body: { variables: { NAME: 'Ann' } } })).status, 200);
    t.match(await publish(id), { status: 400, body: { error: 'invalid request', detail } }, field);
    await stored('draft', field, before?.draft[field] ?? null);
  }
  t.equal((await publish(id)).status, 200);
  for (const text of ['{{}} {{ }} {{{}}} {A} }} {{', 'f({a: {b: 1}})', '{{ a {b} }}', `{{${'no '.repeat(40)}}}`])
    t.equal((await node.call('PATCH', path, { token, body: { text } })).status, 200, `${text} is text`);
});

t.test('lists have pages, newest first, without the contents', async (t) => {
  const { node, key, create } = await start();
  const ids = [];
  for (const name of ['one', 'two', 'three']) ids.unshift((await create({ name, html: 'h' })).id);
  const list = (query: string) => node.call('GET', `/api/v1/templates${query}`, { key });
  const { body } = await list('');
  t.strictSame([body.count, body.templates.map(({ id }: { id: string }) => id)], [3, ids]);
  t.strictSame(Object.keys(body.templates[0]).sort(), [
    'alias',
    'created_at',
    'id',
    'name',
    'published_at',
    'status',
    'updated_at',
  ]);
  t.match((await list('?limit=1&offset=1')).body, { count: 3, templates: [{ id: ids[1] }] });
  t.strictSame((await list('?offset=3')).body, { count: 3, templates: [] });
  t.equal((await list('?limit=1000')).status, 200);
  for (const query of ['?limit=-1', '?limit=x', '?offset=1.5', '?q=']) t.equal((await list(query)).status, 400, query);
  await create({ name: '50% off', alias: 'spring-sale' });
  for (const [q, found] of [
    ['T', ['three', 'two']],
    ['SPRING-s', ['50% off']],
    ['%', ['50% off']],
    ['_', []],
    ['two three', []],
  ] as const) {
    const { templates, count } = (await list(`?q=${encodeURIComponent(q)}`)).body;
    t.strictSame([count, templates.map(({ name }: { name: string }) => name)], [found.length, found], q);
  }
  t.match((await list('?q=t&limit=1&offset=1')).body, { count: 2, templates: [{ name: 'two' }] });
});
