import t from 'tap';
import { newId } from '../../src/ids.ts';
import { buildAccount, buildKey, buildVerifiedDomain } from '../support/build.ts';
import type { CallOptions } from '../support/node.ts';
import { encryptionKey, startMailer } from './scene.ts';

/** A mailer, and a user who is logged in to its account. */
async function startMember() {
  const mailer = await startMailer();
  const { email, password } = mailer.account;
  const { token } = (await mailer.node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  return { ...mailer, token: token as string };
}

t.test('a 401 and a 403 say in a header what to do; their bodies stay the same', async (t) => {
  const { node, account, key, token, fields } = await startMember();
  const [reader, restricted] = [
    await buildKey(node.db, account.id, { scopes: ['read'] }),
    await buildKey(node.db, account.id, { domains: ['only.test'] }),
  ];
  const full = await buildAccount(node.db);
  await node.db.prisma.account.updateMany({ where: { id: full.id }, data: { plan: 'free' } });
  await buildVerifiedDomain(node.db, full.id, encryptionKey);
  const login = { body: { email: full.email, password: full.password } };
  const ofFull = (await node.call('POST', '/api/v1/auth/login', login)).body.token;
  const passwordless = { email: account.email };
  const passwords = { current_password: 'wrong', new_password: 'a new password' };
  const cases: [method: string, path: string, options: CallOptions, status: number, said: RegExp][] = [
    ['GET', '/keys', {}, 401, /^the request has no credential: send a login token/],
    ['GET', '/emails', {}, 401, /^the request has no credential: send an API key in X-API-Key/],
    ['GET', '/keys', { key }, 401, /^this call does not accept API keys: send a login token/],
    ['GET', '/keys', { token: key }, 401, /^this call does not accept API keys: send a login token/],
    ['GET', '/emails', { token: key }, 401, /^send an API key in X-API-Key, not in Authorization/],
    ['GET', '/emails', { key: token }, 401, /^send a login token in Authorization: Bearer, not in X-API-Key/],
    ['GET', '/emails', { key: `${key}x` }, 401, /^the API key is unknown, revoked or expired/],
    ['GET', '/emails', { token: `${token}x` }, 401, /^the login token is invalid or has expired/],
    ['GET', '/emails', { headers: { Authorization: 'Basic eDp5' } }, 401, /^Authorization must be Bearer and a token/],
    ['GET', '/emails', { headers: { Authorization: 'Bearer ' } }, 401, /^Authorization must be Bearer and a token/],
    ['GET', '/emails', { headers: { Cookie: '_ga=1' } }, 401, /^the request has no credential/],
    ['GET', '/emails', { key: `Bearer ${key}` }, 401, /^X-API-Key must be the key alone, without Bearer/],
    [
      'POST',
      '/emails',
      { key: reader, body: fields },
      403,
      /^the API key lacks the scope send: use another key, or create one/,
    ],
    [
      'POST',
      '/emails',
      { key: restricted, body: fields },
      403,
      /^the API key is restricted to other sender domains: use .* create one for \S+$/,
    ],
    ['GET', '/admin/accounts', { token }, 403, /^only operators of the server can do this/],
    [
      'POST',
      '/auth/login',
      { body: { ...passwordless, password: 'wrong' } },
      401,
      /^no user has this email and this password/,
    ],
    ['POST', '/auth/password', { token, body: passwords }, 403, /^current_password is not the password/],
    ['POST', '/domains', { token: ofFull, body: { domain: 'one.more.test' } }, 403, /^the plan allows no more domains/],
  ];
  for (const [method, path, options, status, said] of cases) {
    const answer = await node.call(method, `/api/v1${path}`, options);
    const what = `${method} ${path} ${Object.keys(options)}`;
    t.strictSame(
      [answer.status, answer.body],
      [status, { error: status === 401 ? 'unauthorized' : 'forbidden' }],
      what,
    );
    t.match(answer.headers.get('x-error-detail'), said, what);
    t.match(answer.headers.get('x-error-detail'), /^[ -~]{1,200}$/, what);
  }
  const batch = await node.call('POST', '/api/v1/emails/batch', { key: restricted, body: { emails: [fields] } });
  t.match(batch.body.errors, [{ index: 0, error: 'forbidden', detail: /^the API key is restricted/ }]);
});

t.test('a 404 says in the same header whether there is no such call', async (t) => {
  const { node, key, send } = await startMember();
  const { id } = (await send({})).body.email;
  const saidBy = async (method: string, path: string) => {
    const { status, body, headers } = await node.call(method, path, { key });
    t.strictSame([status, body], [404, { error: 'not found' }], `${method} ${path}`);
    return headers.get('x-error-detail');
  };
  const noSuchCall =
    'there is no such call: all begin with /api/v1/ and end without a slash, and the reference at /docs lists them';
  for (const [method, path] of [
    ['POST', '/emails'],
    ['POST', `/api/v1/emails/${id}/cancel`],
    ['GET', '/api/v1/emails/'],
    ['PROPFIND', '/nowhere'],
  ] as const)
    t.equal(await saidBy(method, path), noSuchCall, `${method} ${path}`);
  t.equal(await saidBy('GET', `/api/v1/emails/${newId()}`), null, 'an email that there is none of');
});

t.test('a call without fields refuses any that it is given', async (t) => {
  const { node, key, token, send } = await startMember();
  const { id } = (await send({})).body.email;
  const post = (path: string, options: CallOptions) => node.call('POST', `/api/v1${path}`, options);
  const body = { to: ['other@b.test'] };
  const refused = {
    status: 400,
    body: { error: 'invalid request', detail: 'to: is not a field of this call, which takes none' },
  };
  t.match(await post(`/emails/${id}/resend`, { key, body }), {
    status: 400,
    body: { error: 'invalid request', detail: 'to: is not a field of this call, which takes recipients' },
  });
  const endpointTest = `/webhooks/${newId()}/test`;
  t.match(await post(endpointTest, { token, body: [1] }), { status: 400, body: { detail: /takes no body/ } });
  for (const empty of [{}, { body: {} }, { body: [] }])
    t.equal((await post(`/emails/${id}/resend`, { key, ...empty })).status, 200);
  for (const path of [
    '/domains/?/verify',
    '/webhooks/?/rotate-secret',
    '/webhooks/?/test',
    '/webhook-deliveries/?/retry',
  ])
    t.match(await post(path.replace('?', newId()), { token, body }), refused, path);
  // As PHP writes an empty object.
  t.equal((await post(`/domains/${newId()}/verify`, { token, body: [] })).status, 404);
});

t.test('a change that changes nothing in a template leaves its time', async (t) => {
  const { node, key } = await startMember();
  const { template } = (await node.call('POST', '/api/v1/templates', { key, body: { name: 'n', text: 't' } })).body;
  const patch = (body: unknown, id = template.id) => node.call('PATCH', `/api/v1/templates/${id}`, { key, body });
  t.equal((await patch({})).body.template.updated_at, template.updated_at);
  t.equal((await patch({}, newId())).status, 404);
  t.not((await patch({ name: 'm' })).body.template.updated_at, template.updated_at);
});

t.test('a batch as a bare array is told the right form', async (t) => {
  const { node, key, fields } = await startMember();
  t.match(await node.call('POST', '/api/v1/emails/batch', { key, body: [fields] }), {
    status: 400,
    body: { error: 'invalid request', detail: 'the body must be a JSON object: {"emails": [...]}' },
  });
});
