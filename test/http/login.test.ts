import jsonwebtoken from 'jsonwebtoken';
import t from 'tap';
import { buildAccount } from '../support/build.ts';
import { testKey } from '../support/keys.ts';
import { startTestNode, type TestNode } from '../support/node.ts';

const login = '/api/v1/auth/login';
const secret = testKey(1).toString('hex');

t.test('login', async (t) => {
  const node = await startTestNode(t, { JWT_SECRET: secret, ROLES: 'api' });

  t.test('returns a token that opens the management routes', async (t) => {
    const { status, body } = await node.call('POST', login, {
      body: { email: 'admin@example.test', password: node.adminPassword },
    });
    t.equal(status, 200);
    t.match(body, {
      token: String,
      token_type: 'Bearer',
      expires_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
      user: { id: String, email: 'admin@example.test', role: 'admin' },
      account: { id: String, name: String, plan: 'unlimited' },
    });
    const hours = (Date.parse(body.expires_at) - Date.now()) / 3_600_000;
    t.ok(hours > 11.9 && hours <= 12);
    t.equal((await node.call('GET', '/api/v1/keys', { token: body.token })).status, 200);
  });

  t.test('accepts the email in any case', async (t) => {
    const { status } = await node.call('POST', login, {
      body: { email: 'Admin@Example.TEST', password: node.adminPassword },
    });
    t.equal(status, 200);
  });

  t.test('accepts a domain in either spelling', async (t) => {
    const credentials = { email: 'Free@bücher.test', password: 'a good password' };
    const admin = { email: 'admin@example.test', password: node.adminPassword };
    const { token } = (await node.call('POST', login, { body: admin })).body;
    const made = await node.call('POST', '/api/v1/admin/accounts', { token, body: { name: 'n', ...credentials } });
    t.match(made, { status: 201, body: { user: { email: 'free@xn--bcher-kva.test' } } });
    for (const email of [credentials.email, 'free@BÜCHER.test', 'free@xn--bcher-kva.test'])
      t.equal((await node.call('POST', login, { body: { ...credentials, email } })).status, 200, email);
    // The first admin's email is stored as it was configured.
    const account = await buildAccount(node.db);
    const { password } = account;
    await node.db.prisma.user.update({ where: { email: account.email }, data: { email: 'root@bücher.test' } });
    for (const email of ['root@bücher.test', 'root@xn--bcher-kva.test'])
      t.equal((await node.call('POST', login, { body: { email, password } })).status, 200, email);
    for (const email of ['nobody@bücher.test', 'free@bücher', '@bücher.test', 'bücher.test', 'a@b@bücher.test'])
      t.equal((await node.call('POST', login, { body: { ...credentials, email } })).status, 401, email);
    await forgetFailures(node);
  });

  t.test('answers the same for an unknown email and for a wrong password', async (t) => {
    const account = await buildAccount(node.db);
    const wrong = await node.call('POST', login, { body: { email: account.email, password: 'wrong' } });
    const unknown = await node.call('POST', login, { body: { email: 'nobody@example.test', password: 'wrong' } });
    for (const answer of [wrong, unknown]) {
      t.equal(answer.status, 401);
      t.strictSame(answer.body, { error: 'unauthorized' });
    }
    await forgetFailures(node);
  });

  t.test('names the invalid field of a body', async (t) => {
    for (const [body, detail] of [
      [{}, 'email: is required'],
      [{ email: 'a@b.c' }, 'password: is required'],
      [{ email: 1, password: 'x' }, 'email: must be a string'],
      [{ email: 'a\0@b.c', password: 'x' }, 'email: contains control characters'],
    ] as const) {
      const answer = await node.call('POST', login, { body });
      t.equal(answer.status, 400);
      t.strictSame(answer.body, { error: 'invalid request', detail });
    }
  });

  t.test('after ten failures refuses even the right password', async (t) => {
    const account = await buildAccount(node.db);
    for (let round = 0; round < 10; round += 1) {
      const { status } = await node.call('POST', login, { body: { email: account.email, password: `guess ${round}` } });
      t.equal(status, 401);
    }
    const answer = await node.call('POST', login, { body: { email: account.email, password: account.password } });
    t.equal(answer.status, 429);
    t.equal(answer.body.error, 'rate limited');
    // Fifteen minutes from the first failure, which may be a minute ago.
    t.ok(Number(answer.headers.get('retry-after')) > 780);
    t.match(answer.body.detail, /try again in 1[45] min$/);
    // From elsewhere the owner still gets in: ten guesses by somebody who knows the email cannot keep them out.
    await node.db.query({ text: `UPDATE login_failures SET subject = replace(subject, '127.0.0.1', '192.0.2.7')` });
    t.equal(
      (await node.call('POST', login, { body: { email: account.email, password: account.password } })).status,
      200,
    );
    for (const [subject, most] of [
      [`email:${account.email}`, 300],
      ['address:127.0.0.1', 100],
    ] as const) {
      await forgetFailures(node);
      const fail = (count: number) =>
        node.db.prisma.loginFailure.createMany({ data: Array.from({ length: count }, () => ({ subject })) });
      const attempt = () => node.call('POST', login, { body: { email: account.email, password: account.password } });
      await fail(most - 1);
      t.equal((await attempt()).status, 200);
      // A success has cleared the count of the email.
      await fail(subject.startsWith('email') ? most : 1);
      t.equal((await attempt()).status, 429, subject);
    }
    await forgetFailures(node);
    t.equal(
      (await node.call('POST', login, { body: { email: account.email, password: account.password } })).status,
      200,
    );
  });

  t.test('refuses tokens that it did not sign, or that have expired', async (t) => {
    const user = await node.db.prisma.user.findFirstOrThrow({ where: { email: 'admin@example.test' } });
    const pwd = user.passwordChangedAt.getTime();
    const claims = { sub: user.id, acc: user.accountId, role: 'admin', iss: 'sendwright', aud: 'sendwright-api', pwd };
    const now = Math.floor(Date.now() / 1000);
    const sign = (extra: object, key = secret, algorithm: 'HS256' | 'HS512' | 'none' = 'HS256') =>
      jsonwebtoken.sign({ ...claims, iat: now, exp: now + 60, ...extra }, algorithm === 'none' ? '' : key, {
        algorithm,
      });
    t.equal(
      (await node.call('GET', '/api/v1/keys', { token: sign({}) })).status,
      200,
      'without forgery it is accepted',
    );
    const forged: Record<string, string> = {
      'another secret': sign({}, 'another secret of sufficient length'),
      'another algorithm': sign({}, secret, 'HS512'),
      'no algorithm': sign({}, secret, 'none'),
      'no end': jsonwebtoken.sign({ ...claims, iat: now }, secret),
      'no start, so that a changed password could not end it': jsonwebtoken.sign({ ...claims, exp: now + 60 }, secret, {
        noTimestamp: true,
      }),
      over: sign({ iat: now - 120, exp: now - 60 }),
      'another password': sign({ pwd: pwd - 1 }),
      'no password': sign({ pwd: undefined }),
      'another audience': sign({ aud: 'somebody-else' }),
      'another issuer': sign({ iss: 'somebody-else' }),
      'another account': sign({ acc: '00000000-0000-7000-8000-000000000000' }),
      'no such user': sign({ sub: '00000000-0000-7000-8000-000000000000' }),
      'an invalid user id': sign({ sub: "' OR 1=1" }),
      'no signature': `${sign({}).split('.').slice(0, 2).join('.')}.`,
      garbage: 'garbage',
    };
    for (const [what, token] of Object.entries(forged)) {
      const answer = await node.call('GET', '/api/v1/keys', { token });
      t.equal(answer.status, 401, what);
      t.strictSame(answer.body, { error: 'unauthorized' }, what);
    }
    t.equal((await node.call('GET', '/api/v1/keys')).status, 401);
    t.equal((await node.call('GET', '/api/v1/keys', { headers: { Authorization: 'Basic eDp5' } })).status, 401);
  });
});

async function forgetFailures(node: TestNode): Promise<void> {
  await node.db.prisma.loginFailure.deleteMany();
}

t.test('behind proxies the client is the one that the last trusted proxy names', async (t) => {
  const attempts = async (node: TestNode, forwarded: (n: number) => string) => {
    await forgetFailures(node);
    const statuses = [];
    for (let n = 0; n < 11; n += 1) {
      const headers = { 'X-Forwarded-For': forwarded(n) };
      const body = { email: node.admin.email, password: 'wrong' };
      statuses.push((await node.call('POST', login, { body, headers })).status);
    }
    return statuses.at(-1);
  };
  const alone = await startTestNode(t, { ROLES: 'api' });
  t.equal(await attempts(alone, (n) => `203.0.113.${n}`), 429, 'without proxies the header is ignored');

  const behind = await startTestNode(t, { TRUSTED_PROXIES: '1', ROLES: 'api' });
  t.equal(await attempts(behind, (n) => `203.0.113.${n}`), 401, 'eleven clients');
  t.equal(
    await attempts(behind, (n) => `198.51.100.${n}, 203.0.113.1`),
    429,
    'one client that invents others before it',
  );
  t.equal(await attempts(behind, (n) => `2001:db8:${n}::1`), 401, 'eleven networks');
  t.equal(await attempts(behind, (n) => `2001:db8::${n}:1`), 429, 'one client with a /64: AUTH-06');
  t.equal(
    await attempts(behind, (n) => (n % 2 ? '::ffff:203.0.113.1' : '203.0.113.1')),
    429,
    'one client in two spellings',
  );
  t.equal(await attempts(behind, (n) => `203.0.113.${n}:4711`), 401, 'eleven clients with their ports');
  t.equal(await attempts(behind, (n) => `203.0.113.1:${n}`), 429, 'one client with its ports');
  t.equal(await attempts(behind, (n) => (n % 2 ? '[2001:db8::1]' : `[2001:db8::1]:${n}`)), 429, 'the same by IPv6');
  t.equal(await attempts(behind, (n) => `[2001:db8:${n}::1]:4711`), 401, 'eleven networks');
  t.equal(await attempts(behind, (n) => `nonsense ${n}`), 429, 'an invalid address counts for the proxy');
});
