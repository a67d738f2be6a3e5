import t from 'tap';
import { buildKey, buildSender } from '../support/build.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

t.test('a template that has changed since it was read is not published', async (t) => {
  const node = await sharedNode('api,mta');
  const { account } = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  const body = { name: 'n', html: 'seen' };
  const { template: seen } = (await node.call('POST', '/api/v1/templates', { token, body })).body;
  const path = `/api/v1/templates/${seen.id}`;
  const publish = (body: object) => node.call('POST', `${path}/publish`, { token, body });
  await node.call('PATCH', path, { token, body: { html: 'by somebody else' } });
  t.match(await publish({ updated_at: seen.updated_at }), {
    status: 409,
    body: { error: 'conflict', detail: /^the template has changed since then: / },
  });
  const { template } = (await node.call('GET', path, { token })).body;
  t.match(template, { html: 'by somebody else', status: 'draft', published_at: null });
  for (const wrong of ['yesterday', 5, '2026-02-30T00:00:00Z'])
    t.match(await publish({ updated_at: wrong }), { status: 400, body: { detail: /^updated_at: / } });
  t.match(await publish({ updated_at: template.updated_at }), {
    status: 200,
    body: { template: { status: 'published' } },
  });
  t.equal((await publish({ updated_at: template.updated_at })).status, 200, 'publishing is not a change');
  t.equal((await publish({ updated_at: null })).status, 200);
  await node.call('PATCH', path, { token, body: { html: null } });
  const { updated_at: emptied } = (await node.call('GET', path, { token })).body.template;
  t.match(await publish({ updated_at: emptied }), { status: 400, body: { detail: /^html: / } });
});

t.test('a key restricted to one domain cannot change templates, which others send from too', async (t) => {
  const node = await sharedNode('api,mta');
  const { account, domain, key } = await buildSender(node.db, encryptionKey);
  const restricted = await buildKey(node.db, account.id, { domains: [domain] });
  const content = { name: 'n', html: 'as it was' };
  const { template } = (await node.call('POST', '/api/v1/templates', { key, body: content })).body;
  const path = `/api/v1/templates/${template.id}`;
  for (const [method, where, body] of [
    ['POST', '/api/v1/templates', content],
    ['PATCH', path, { html: 'changed' }],
    ['POST', `${path}/publish`, {}],
    ['DELETE', path, undefined],
  ] as const)
    t.match(await node.call(method, where, { key: restricted, ...(body && { body }) }), {
      status: 403,
      body: { error: 'forbidden' },
    });
  t.match((await node.call('GET', path, { key: restricted })).body.template, { html: 'as it was', status: 'draft' });
});
