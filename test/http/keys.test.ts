import t from 'tap';
import { newId } from '../../src/ids.ts';
import { buildAccount, buildKey, buildSender } from '../support/build.ts';
import type { TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

async function loginAs(node: TestNode, email: string, password: string): Promise<string> {
  return (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token;
}

t.test('API keys', async (t) => {
  const node = await sharedNode('api');
  const { account, domain } = await buildSender(node.db, encryptionKey);
  const token = await loginAs(node, account.email, account.password);

  t.test('are shown once, and not stored in clear', async (t) => {
    const { status, body } = await node.call('POST', '/api/v1/keys', { token, body: { name: 'production' } });
    t.equal(status, 200);
    t.match(body.key, /^sk_live_[0-9A-Za-z]{43}$/);
    t.match(body.api_key, { id: String, name: 'production', scopes: ['send'], created_at: String, revoked_at: null });
    t.ok(body.key.startsWith(body.api_key.key_prefix));
    t.type(body.warning, 'string');
    const listed = await node.call('GET', '/api/v1/keys', { token });
    t.strictSame(listed.body.api_keys[0], body.api_key);
    t.notMatch(JSON.stringify(listed.body), body.key);
    const dump = JSON.stringify(await node.db.query({ text: `SELECT t::text FROM api_keys t` }));
    t.notMatch(dump, body.key);
  });

  t.test('are listed newest first, and only for their account', async (t) => {
    const other = await buildAccount(node.db);
    await buildKey(node.db, other.id);
    await node.call('POST', '/api/v1/keys', { token, body: { name: 'newest' } });
    const { body } = await node.call('GET', '/api/v1/keys', { token });
    t.equal(body.api_keys[0].name, 'newest');
    t.equal(body.api_keys.length, await node.db.prisma.apiKey.count({ where: { accountId: account.id } }));
  });

  t.test('are listed in pages if a limit is given', async (t) => {
    const list = async (query: string) => (await node.call('GET', `/api/v1/keys${query}`, { token })).body;
    const { api_keys: all } = await list('');
    t.ok(all.length > 1);
    t.strictSame(await list('?limit=1&offset=1'), { api_keys: [all[1]] });
    t.strictSame(await list('?offset=1'), { api_keys: all.slice(1) });
    t.strictSame(await list('?limit=0'), { api_keys: [] });
    for (const large of ['1000', '9'.repeat(30), '9'.repeat(400)])
      t.strictSame(await list(`?limit=${large}`), { api_keys: all });
    t.strictSame(await list(`?offset=${'9'.repeat(30)}`), { api_keys: [] });
    t.match(await list('?limit=-1'), { detail: 'limit: must be a whole number, 0 or more' });
  });

  t.test('a revoked key is refused from then on, and the time of its revocation stays', async (t) => {
    const { body } = await node.call('POST', '/api/v1/keys', { token, body: { name: 'short-lived' } });
    t.equal((await node.call('GET', '/api/v1/emails', { key: body.key })).status, 200);
    await node.call('POST', '/api/v1/keys', { token, body: { name: 'newer' } });
    const first = await node.call('DELETE', `/api/v1/keys/${body.api_key.id}`, { token });
    t.equal(first.status, 200);
    t.equal(first.body.api_key.id, body.api_key.id);
    t.type(first.body.api_key.revoked_at, 'string');
    const refused = await node.call('GET', '/api/v1/emails', { key: body.key });
    t.equal(refused.status, 401);
    t.strictSame(refused.body, { error: 'unauthorized' });
    const second = await node.call('DELETE', `/api/v1/keys/${body.api_key.id}`, { token });
    t.strictSame([second.status, second.body], [200, first.body]);
  });

  t.test('another account cannot revoke it, and an invalid id is not found', async (t) => {
    const other = await buildAccount(node.db);
    const otherToken = await loginAs(node, other.email, other.password);
    const { body } = await node.call('POST', '/api/v1/keys', { token, body: { name: 'mine' } });
    for (const [id, by] of [
      [body.api_key.id, otherToken],
      ['nonsense', token],
      ['%00', token],
      ['%E0%A4%A', token],
    ]) {
      const answer = await node.call('DELETE', `/api/v1/keys/${id}`, { token: by });
      t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], id);
    }
    t.equal((await node.call('GET', '/api/v1/emails', { key: body.key })).status, 200);
  });

  t.test('a bad request names the field', async (t) => {
    const { domain: theirs } = await buildSender(node.db, encryptionKey);
    for (const [body, detail] of [
      [{}, 'name: is required'],
      [{ name: '' }, 'name: must not be empty'],
      [{ name: ' \u3000 ' }, 'name: must not be blank'],
      [{ name: 'x'.repeat(201) }, 'name: must have at most 200 characters'],
      [{ name: 'a\nb' }, 'name: contains control characters'],
      [{ name: 'a', scopes: [] }, 'scopes: must name at least one scope'],
      [{ name: 'a', scopes: ['admin'] }, 'scopes[0]: must be one of send, read'],
      [{ name: 'a', scopes: 'send' }, 'scopes: must be an array'],
      [{ name: 'a', domains: ['localhost'] }, /^domains\[0\]: /],
      [
        { name: 'a', domains: [domain, 'not-ours.test'] },
        'domains: not-ours.test is not a domain of this account: add it first with POST /api/v1/domains',
      ],
      [
        { name: 'a', domains: [domain, theirs] },
        `domains: ${theirs} is not a domain of this account: add it first with POST /api/v1/domains`,
      ],
      [{ name: 'a', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at: is in the past'],
      [{ name: 'a', expires_at: 'tomorrow' }, 'expires_at: must be an RFC 3339 timestamp such as 2027-01-31T09:00:00Z'],
      [[1], 'the body must be a JSON object'],
      ['{', 'the body is not JSON: line 1, column 2: expected a name in double quotes or }, found the end'],
    ] as const) {
      const before = await node.db.prisma.apiKey.count();
      const answer = await node.call('POST', '/api/v1/keys', { token, body });
      t.equal(answer.status, 400, JSON.stringify(body));
      t.match(answer.body, { error: 'invalid request', detail });
      t.equal(await node.db.prisma.apiKey.count(), before, 'nothing is stored');
    }
  });

  t.test('a misnamed field is refused if the key could do more than was asked for', async (t) => {
    const before = await node.db.prisma.apiKey.count();
    const table: [body: object, detail: string][] = [
      [{ permissions: ['read'] }, 'permissions: must be called scopes; otherwise the key could send'],
      [
        { permission: 'sending_access', domain_id: newId() },
        'domain_id: must be called domains; otherwise the key would be valid for all domains',
      ],
      [{ expires_in: '1d' }, 'expires_in: must be called expires_at; otherwise the key would never expire'],
    ];
    for (const [body, detail] of table) {
      const answer = await node.call('POST', '/api/v1/keys', { token, body: { name: 'k', ...body } });
      t.strictSame([answer.status, answer.body], [400, { error: 'invalid request', detail }]);
    }
    t.equal(await node.db.prisma.apiKey.count(), before, 'nothing is stored');
    for (const body of [{ permission: 'sending_access' }, { domain_id: 7, domains: [domain] }]) {
      const other = await node.call('POST', '/api/v1/keys', { token, body: { name: 'k', ...body } });
      t.equal(other.status, 200, `a field that asks for nothing else is ignored: ${JSON.stringify(body)}`);
    }
    const { api_key: answered } = (await node.call('POST', '/api/v1/keys', { token, body: { name: 'k' } })).body;
    const again = { ...answered, domains: null };
    t.equal(
      (await node.call('POST', '/api/v1/keys', { token, body: again })).status,
      200,
      'so is what was answered before',
    );
  });

  t.test('scopes, expiry and restriction to domains', async (t) => {
    const reader = await buildKey(node.db, account.id, { scopes: ['read'] });
    t.equal((await node.call('GET', '/api/v1/emails', { key: reader })).status, 200);
    const refused = await node.call('POST', '/api/v1/emails', { key: reader, body: {} });
    t.strictSame([refused.status, refused.body], [403, { error: 'forbidden' }]);
    const over = await buildKey(node.db, account.id, { expiresAt: new Date(Date.now() - 1_000) });
    t.equal((await node.call('GET', '/api/v1/emails', { key: over })).status, 401);
    const restricted = await buildKey(node.db, account.id, { domains: ['only.test'] });
    const body = { from: 'a@other.test', to: ['b@c.test'], subject: 's', text: 't' };
    t.equal((await node.call('POST', '/api/v1/emails', { key: restricted, body })).status, 403);
    const allowed = await node.call('POST', '/api/v1/emails', {
      key: restricted,
      body: { ...body, from: 'a@only.test' },
    });
    t.equal(allowed.body.error, 'from domain not verified');
  });

  t.test('every invalid key is refused in the same way', async (t) => {
    for (const key of ['', 'sk_live_', 'sk_live_wrong', `sk_live_${'x'.repeat(10_000)}`, token, 'x']) {
      const answer = await node.call('GET', '/api/v1/emails', { key });
      t.strictSame([answer.status, answer.body], [401, { error: 'unauthorized' }], key.slice(0, 20));
    }
    const good = await buildKey(node.db, account.id);
    t.equal((await node.call('GET', `/api/v1/emails?api_key=${good}`)).status, 401);
    t.equal((await node.call('GET', '/api/v1/emails', { token: good })).status, 401);
    t.equal((await node.call('GET', '/api/v1/keys', { token: good })).status, 401, 'a key is not a login');
  });
});
