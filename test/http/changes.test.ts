import t from 'tap';
import { at, type Fields, startMailer } from './scene.ts';

/** A mailer, and its account as its member calls it, below `/api/v1`. */
async function startMember() {
  const mailer = await startMailer();
  const { email, password } = mailer.account;
  const { token } = (await mailer.node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  const call = (method: string, path: string, body?: unknown) =>
    mailer.node.call(method, `/api/v1${path}`, { token, body });
  return { ...mailer, call };
}

t.test('of an email only the time can be changed, and who asks for more is told so', async (t) => {
  const { call, send, domain, from } = await startMember();
  const sent = await send({ scheduled_at: at(3_600_000), to: ['a@b.test', 'c@d.test'], cc: 'e@f.test', tags: ['x'] });
  const path = `/emails/${sent.body.email.id}`;
  const later = () => ({ scheduled_at: at(7_200_000) });
  const before = (await call('GET', path)).body.email;
  const wrong: Fields[] = [
    { subject: 'new' },
    { html: '<p>new' },
    { text: 'new' },
    { from: `other@${domain}` },
    { to: 'new@b.test' },
    { to: ['c@d.test', 'a@b.test'] },
    { cc: [] },
    { bcc: ['new@b.test'] },
    { reply_to: 'new@b.test' },
    { headers: { 'X-A': 'new' } },
    { attachments: [{ filename: 'a.txt', content: 'aGk=' }] },
    { template: { alias: 'new' } },
    { tags: [] },
    { type: 'marketing' },
    { tls: 'required' },
    { on_uncertain: 'hold' },
  ];
  for (const fields of wrong)
    for (const body of [fields, { ...later(), ...fields }]) {
      const { status, body: answer } = await call('PATCH', path, body);
      const [name] = Object.keys(fields);
      t.match(
        [status, answer.detail],
        [400, `${name}: stays as it was accepted: only scheduled_at can be changed`],
        JSON.stringify(body),
      );
    }
  t.strictSame((await call('GET', path)).body.email, before, 'nothing was changed');

  const listed = (await call('GET', '/emails')).body.emails.find(({ id }: { id: string }) => id === before.id);
  for (const same of [
    before,
    listed,
    sent.body.email,
    { to: ['a@b.test', 'c@d.test'], cc: 'e@f.test', from, subject: 's' },
    { text: null, html: '', headers: {}, attachments: [], template: null, subject: null },
    { status: 'scheduled', own: 'x' },
  ]) {
    const body = { ...same, ...later() };
    const answer = await call('PATCH', path, body);
    t.match(answer, { status: 200, body: { email: { scheduled_at: body.scheduled_at } } }, JSON.stringify(same));
  }
});

t.test('the request that an email was accepted with may be sent back with another time', async (t) => {
  const { call, node, key, domain } = await startMember();
  const file = { filename: 'a.txt', content: 'aGk=', content_id: 'logo' };
  const request = {
    from: `"Shop" <hello@${domain.toUpperCase()}>`,
    to: ['Ann <ann@B.test>', 'c@d.test'],
    cc: [],
    bcc: 'e@f.test',
    reply_to: '<r@f.test>',
    subject: 'Grüße',
    html: '<p>Hi</p>',
    text: 't',
    headers: { 'X-A': 'b', 'X-C': 'd' },
    tags: ['x'],
    attachments: [file],
    scheduled_at: at(3_600_000),
    type: 'transactional',
  };
  const { email } = (await node.call('POST', '/api/v1/emails', { key, body: request })).body;
  const path = `/emails/${email.id}`;
  const scheduledAt = at(7_200_000);
  for (const same of [request, { html: request.html }, { headers: request.headers, attachments: [file] }])
    t.match(await call('PATCH', path, { ...same, scheduled_at: scheduledAt }), {
      status: 200,
      body: { email: { scheduled_at: scheduledAt } },
    });
  for (const [name, value] of [
    ['html', '<p>Ho</p>'],
    ['headers', { 'X-A': 'c' }],
    ['attachments', [{ ...file, content: 'aG8=' }]],
    ['attachments', [file, file]],
    ['attachments', ['a.txt']],
    ['from', `Other <hello@${domain}>`],
    ['to', ['ann@b.test', 'c@d.test']],
  ] as const) {
    const { status, body } = await call('PATCH', path, { ...request, scheduled_at: at(9_000_000), [name]: value });
    t.match([status, body.detail], [400, `${name}: stays as it was accepted: `], JSON.stringify(value));
  }
  t.match((await call('GET', path)).body.email, { scheduled_at: scheduledAt });
  await node.db.query({ text: 'DELETE FROM email_contents WHERE email_id = $1', values: [email.id] });
  t.match(await call('PATCH', path, request), { status: 400, body: { detail: /^html: stays/ } }, 'it is not kept');
  t.equal((await call('PATCH', '/emails/01a2001a-7976-7081-b3d3-f5117420f571', request)).status, 404);
});

t.test('a template is published by a call of its own, and who sets its status is told so', async (t) => {
  const { call } = await startMember();
  const detail = (name: string) =>
    `${name}: is not changed here: POST /api/v1/templates/:id/publish publishes what the template says, and nothing takes that back`;
  const content = { name: 'n', text: 't' };
  for (const [name, value] of [
    ['status', 'published'],
    ['status', 'active'],
    ['published', true],
    ['publish', true],
    ['isPublished', true],
  ] as const) {
    const refused = await call('POST', '/templates', { ...content, [name]: value });
    t.match(refused, { status: 400, body: { detail: detail(name) } }, `${name} ${value}`);
  }
  t.equal((await call('GET', '/templates')).body.count, 0);
  for (const none of [{ status: 'draft' }, { status: null, published: false, publish: null }])
    t.equal((await call('POST', '/templates', { ...content, ...none })).status, 201, JSON.stringify(none));

  const { template } = (await call('POST', '/templates', content)).body;
  const path = `/templates/${template.id}`;
  const patch = (body: unknown) => call('PATCH', path, body);
  const refuse = async (name: string, body: Fields) =>
    t.match(await patch(body), { status: 400, body: { detail: detail(name) } }, JSON.stringify(body));
  await refuse('status', { status: 'published' });
  await refuse('publish', { text: 'u', publish: true });
  await refuse('status', { ...template, status: 'published' });
  for (const same of [template, { status: 'draft', text: 't' }])
    t.equal((await patch(same)).status, 200, JSON.stringify(same));
  t.equal((await call('GET', path)).body.template.status, 'draft');

  await call('POST', `${path}/publish`);
  const published = (await call('GET', path)).body.template;
  await refuse('status', { status: 'draft' });
  await refuse('status', { status: 'published', text: 'u' });
  for (const same of [{ status: 'published', name: 'm' }, published, template, { ...published, text: 'u' }])
    t.equal((await patch(same)).status, 200, JSON.stringify(same));
  await refuse('status', { status: 'published' });
  t.equal((await call('POST', '/templates', { ...published, name: 'a copy' })).status, 201);
});

t.test('a webhook is switched by its status, and who calls that by another name is told so', async (t) => {
  const { call } = await startMember();
  const hook = { url: 'https://hooks.example.com/', events: ['email.sent'] };
  const off = 'a new endpoint is enabled; PATCH /api/v1/webhooks/:id {"status":"disabled"} disables it';
  for (const [name, value] of [
    ['enabled', false],
    ['disabled', true],
    ['is_active', false],
    ['status', 'disabled'],
    ['status', 'Inactive'],
  ] as const) {
    const refused = await call('POST', '/webhooks', { ...hook, [name]: value });
    t.match(refused, { status: 400, body: { detail: `${name}: ${off}` } }, `${name} ${value}`);
  }
  const { webhook } = (await call('POST', '/webhooks', { ...hook, enabled: true, paused: false })).body;
  const patch = (body: unknown) => call('PATCH', `/webhooks/${webhook.id}`, body);
  const refuse = async (body: Fields, detail: string) =>
    t.match(await patch(body), { status: 400, body: { detail } }, JSON.stringify(body));
  for (const same of [webhook, { enabled: true }, { disabled: false, active: null }, { enabled: 'x' }])
    t.equal((await patch(same)).status, 200, JSON.stringify(same));
  await refuse({ enabled: false }, 'enabled: is called status here: "disabled"');
  await refuse({ Active: false }, 'Active: is called status here: "disabled"');
  const long = `enabled${'-'.repeat(93)}${'é\n'.repeat(1_000)}`;
  t.match((await patch({ [long]: false })).body.detail, /^enabled-+[?]+: is called status here: [ -~]+$/);
  await refuse({ paused: true }, 'paused: is called status here: "disabled"');
  await refuse({ endpoint: 'https://other.example.com/' }, 'endpoint: is called url here');
  await refuse({ event_types: ['email.failed'] }, 'event_types: is called events here');
  t.strictSame((await call('GET', `/webhooks/${webhook.id}`)).body.webhook, webhook);

  const disabled = (await patch({ enabled: false, status: 'disabled' })).body.webhook;
  t.equal(disabled.status, 'disabled');
  await refuse({ enabled: true }, 'enabled: is called status here: "enabled"');
  await refuse({ disabled: false }, 'disabled: is called status here: "enabled"');
  for (const same of [disabled, { enabled: false }]) t.equal((await patch(same)).status, 200, JSON.stringify(same));
  t.equal((await call('POST', '/webhooks', disabled)).status, 201, 'a copy of what was answered');
});
