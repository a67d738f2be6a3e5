import t from 'tap';
import { buildSender } from '../support/build.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

const noId = '01890000-0000-7000-8000-000000000000';

t.test('sending with a template', async (t) => {
  const node = await sharedNode('api');
  const { key, from } = await buildSender(node.db, encryptionKey);
  const create = async (body: object) =>
    (await node.call('POST', '/api/v1/templates', { key, body: { name: 'n', ...body } })).body.template;
  const publish = (id: string) => node.call('POST', `/api/v1/templates/${id}/publish`, { key });
  const { id } = await create({ from: `{{N}} <${from}>`, subject: 'For {{N}}', text: 'Hi {{N}} {{M}}' });
  await publish(id);
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    node.call('POST', path, { key, body, headers });
  const item = (template: unknown, more: object = {}) => ({ to: 'a@b.test', template, ...more });
  const stored = async () => [await node.db.prisma.email.count(), await node.db.prisma.recipient.count()];
  const good = { id, variables: { N: 'Ann', M: 1 } };

  t.test('a malformed request is refused, and the whole batch with it', async (t) => {
    const before = await stored();
    for (const [body, detail] of [
      [item({}), 'template.id: is required when alias is omitted'],
      [item({ id: 'x', alias: 'y' }), 'template.alias: must be omitted when id is given'],
      [item({ id: null, alias: null }), 'template.id: is required when alias is omitted'],
      [item({ id: 7 }), 'template.id: must be a string'],
      [item({ id: '' }), 'template.id: must not be empty'],
      [item({ alias: 'a\0' }), 'template.alias: contains control characters'],
      [item('mine'), 'template: must be an object, such as {"alias": "welcome"}'],
      [item([good]), 'template: must be an object'],
      [item({ id, variables: 'x' }), 'template.variables: must be an object, such as {"NAME": "Ann"}'],
      [item({ id, variables: ['x'] }), 'template.variables: must be an object, such as {"NAME": "Ann"}'],
      [item({ id, variables: { N: [] } }), 'template.variables.N: must be a string or a number'],
      [item({ id, variables: { N: 'a\0' } }), 'template.variables.N: contains a NUL character'],
      [item(good, { html: 'h' }), 'html: must be omitted when a template is used'],
      [item(good, { text: 't' }), 'text: must be omitted when a template is used'],
      [item(good, { from: 'x' }), 'from: not an email address'],
      [item(good, { subject: '' }), 'subject: must not be empty'],
      [item(good, { to: [] }), 'to: must name at least one recipient'],
      [{ template: good }, 'to: is required'],
      [item(null), 'from: is required'],
    ] as const) {
      t.match(await post('/api/v1/emails', body), { status: 400, body: { error: 'invalid request', detail } });
      const batch = await post('/api/v1/emails/batch', { emails: [item(good), body] });
      t.match(batch, { status: 400, body: { error: 'invalid request', detail: `emails[1].${detail}` } });
    }
    t.strictSame(await stored(), before);
  });

  t.test('an empty object may be an empty array, as PHP writes it', async (t) => {
    const plain = (await create({ from, subject: 's', text: 't' })).id;
    await publish(plain);
    const { status, body } = await post('/api/v1/emails', item({ id: plain, variables: [] }, { headers: [] }));
    t.equal(status, 200, body.detail);
    const rendered = await post(`/api/v1/templates/${plain}/render`, { variables: [] });
    t.match(rendered, { status: 200, body: { text: 't' } });
  });

  t.test('an email that does not fit its template is refused on its own', async (t) => {
    const before = await stored();
    const wrong: [template: object, detail: string][] = [
      [{ id: noId }, 'template.id: no template of this account has it'],
      [{ id: 'nonsense' }, 'template.id: no template of this account has it'],
      [{ alias: 'unknown' }, 'template.alias: no template of this account has it'],
      [{ id }, 'template.variables.N: is required'],
      [{ id, variables: { N: 'Ann', M: null } }, 'template.variables.M: is required'],
      ...['a\r\nBcc: x@evil.test', 'a\nb', 'a\rb', 'a\u2028b'].map((N): [object, string] => [
        { id, variables: { N, M: 1 } },
        'template.variables.N: contains control characters, and is used in from',
      ]),
      [{ id, variables: { N: 'x'.repeat(995), M: 1 } }, 'template.from: longer than 1,000 characters'],
    ];
    for (const [template, detail] of wrong)
      t.match(await post('/api/v1/emails', item(template)), {
        status: 400,
        body: { error: 'invalid request', detail },
      });
    const injected = item({ id, variables: { N: 'a\r\nBcc: x@evil.test', M: 1 } }, { from });
    t.match((await post('/api/v1/emails', injected)).body, {
      detail: 'template.variables.N: contains control characters, and is used in subject',
    });
    t.strictSame(await stored(), before, 'nothing is stored');
    const plain = { from, to: 'a@b.test', subject: 'plain', text: 't' };
    const { status, body } = await post('/api/v1/emails/batch', {
      emails: [
        item(good),
        ...wrong.map(([template]) => item(template)),
        plain,
        item({ ...good, variables: { N: 'Bo', M: 2 } }),
      ],
    });
    t.equal(status, 200);
    t.strictSame(
      body.emails.map(({ subject }: { subject: string }) => subject),
      ['For Ann', 'plain', 'For Bo'],
    );
    t.strictSame(
      body.errors,
      wrong.map(([, detail], index) => ({ index: index + 1, error: 'invalid request', detail })),
    );
  });

  t.test('a repeated call gets its first answer, even if the template is gone', async (t) => {
    const short = await create({ from, subject: 's', text: 't' });
    await publish(short.id);
    const headers = { 'Idempotency-Key': 'once' };
    const first = await post('/api/v1/emails', item({ id: short.id }), headers);
    await node.call('DELETE', `/api/v1/templates/${short.id}`, { key });
    const second = await post('/api/v1/emails', item({ id: short.id }), headers);
    t.strictSame([second.status, second.body], [200, first.body]);
  });

  t.test('values are not looked up in Object.prototype: DOS-05', async (t) => {
    const hostile = await create({ from, subject: 's', html: '{{__proto__}}{{constructor}}' });
    await publish(hostile.id);
    const send = (variables: string) =>
      post('/api/v1/emails', `{"to":"a@b.test","template":{"id":"${hostile.id}","variables":${variables}}}`);
    t.match((await send('{}')).body.detail, 'template.variables.__proto__: is required');
    t.match((await send('{"__proto__":"a"}')).body.detail, 'template.variables.constructor: is required');
    t.equal((await send('{"__proto__":"<a>","constructor":"b"}')).status, 200);
    const [row] = await node.db.query<{ html: string }>({
      text: `SELECT html FROM email_contents WHERE html LIKE '%&lt;a%'`,
    });
    t.equal(row?.html, '&lt;a&gt;b');
    t.equal(({} as { a?: unknown }).a, undefined);
  });

  t.test('a small request cannot ask for gigabytes', async (t) => {
    const half = 2_500_000;
    const large = await create({ from, subject: 's', html: 'x'.repeat(half), text: 'x'.repeat(half) });
    await publish(large.id);
    const exact = await create({ from, subject: 's', text: 'x'.repeat(41_943_040 - 8 * 2 * half) });
    await publish(exact.id);
    // For later, because delivering 40 MB is not tested here.
    const later = { scheduled_at: new Date(Date.now() + 3_600_000).toISOString() };
    const emails = Array.from({ length: 200 }, (_, index) => item({ id: index === 8 ? exact.id : large.id }, later));
    const before = process.cpuUsage();
    const { status, body } = await post('/api/v1/emails/batch', { emails });
    t.strictSame([status, body.count, body.emails.length, body.errors.length], [200, 200, 9, 191], 'exactly what fits');
    t.match(body.errors[0], { index: 9, error: 'payload too large', detail: /^template: / });
    t.ok(process.cpuUsage(before).user < 10_000_000);
  });
});
