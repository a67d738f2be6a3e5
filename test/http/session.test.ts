import { randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { PassThrough } from 'node:stream';
import { mock } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { end, forgetExpired } from '../../src/core/accounts/sessions.ts';
import type { Database } from '../../src/db/client.ts';
import { Live } from '../../src/http/live.ts';
import { silentLog } from '../../src/log.ts';
import { buildAccount, buildSender } from '../support/build.ts';
import { call, eventually, startTestNode, type TestNode } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

const path = '/api/v1/session';
const page = { 'X-Sendwright-Page': '1' };

type Login = { email: string; password: string };

/** A logged-in browser: what it sends by itself, and with each call of our page. */
async function logIn(node: TestNode, { email, password }: Login) {
  const answer = await node.call('POST', path, { body: { email, password }, headers: page });
  const [cookie = '', ...attributes] = (answer.headers.get('set-cookie') ?? '').split('; ');
  return { answer, cookie, attributes, headers: { ...page, Cookie: cookie } };
}

t.test('AUTH-16: the login of a browser is a cookie that no script and no other site can use', async (t) => {
  const node = await sharedNode('api');
  const account = await buildAccount(node.db);
  const { answer, cookie, attributes, headers } = await logIn(node, account);
  t.equal(answer.status, 200);
  t.match(answer.body, {
    user: { email: account.email, role: 'member' },
    service: { sandbox: true, submission: null },
  });
  t.strictSame(
    Object.keys(answer.body).sort(),
    ['account', 'expires_at', 'service', 'user'],
    'the answer does not contain the token',
  );
  t.strictSame(attributes.sort(), ['HttpOnly', 'Max-Age=43200', 'Path=/', 'SameSite=Strict']);
  t.match((await node.call('GET', path, { headers })).body, { user: { email: account.email } });
  t.equal((await node.call('GET', '/api/v1/keys', { headers: { Cookie: cookie } })).status, 200);
  const planted = await node.call('POST', path, {
    body: { email: account.email, password: account.password },
    headers,
  });
  t.not(planted.headers.get('set-cookie')?.split(';')[0], cookie, 'each login is a new one, even with an old cookie');
  t.equal((await node.call('GET', path, { headers: { Cookie: `${cookie}x` } })).status, 401);
  for (const credential of [{ token: 'garbage' }, { key: 'garbage' }]) {
    const withBoth = { headers: { Cookie: cookie }, ...credential };
    t.equal((await node.call('GET', path, withBoth)).status, 401, 'what is sent on purpose counts before the cookie');
  }
});

t.test('a browser is told where programs submit mail: a sandbox is on their own machine', async (t) => {
  for (const [mode, host] of [
    ['sandbox', 'localhost'],
    ['direct', 'mail.example.test'],
  ] as const) {
    const port = await freePort();
    const env = {
      ROLES: 'api,smtp',
      DELIVERY_MODE: mode,
      MAIL_HOSTNAME: 'mail.example.test',
      SENDING_IPS: '127.0.0.1',
    };
    const node = await startTestNode(t, { ...env, SUBMISSIONS_PORT: String(port) });
    const { answer } = await logIn(node, await buildAccount(node.db));
    t.strictSame(answer.body.service.submission, { host, starttls_port: null, tls_port: port, self_signed: true });
  }
});

t.test('a proxy may ask for a password of its own: the browser sends it to us as well', async (t) => {
  const node = await sharedNode('api');
  const { headers, cookie } = await logIn(node, await buildAccount(node.db));
  const basic = { Authorization: `Basic ${btoa('bob:secret')}` };
  t.equal((await node.call('GET', path, { headers: { ...headers, ...basic } })).status, 200);
  t.equal((await node.call('GET', '/api/v1/emails', { headers: { ...headers, ...basic } })).status, 200);
  const forged = { Cookie: cookie, ...basic };
  t.equal((await node.call('POST', '/api/v1/keys', { body: { name: 'n' }, headers: forged })).status, 403);
  t.match(await node.call('GET', path, { headers: basic }), {
    status: 401,
    headers: new Map([['x-error-detail', /^Authorization must be Bearer/]]),
  });
  t.equal((await node.call('DELETE', path, { headers: { ...headers, ...basic } })).status, 200);
});

t.test('AUTH-16: if the service has https, the cookie is sent over https only', async (t) => {
  const node = await startTestNode(t, { BASE_URL: 'https://send.example.test', ROLES: 'api' });
  const { attributes } = await logIn(node, await buildAccount(node.db));
  t.ok(attributes.includes('Secure'));
});

t.test('AUTH-12: calls of another site with the cookie change nothing', async (t) => {
  const node = await sharedNode('api');
  const { cookie, headers } = await logIn(node, await buildAccount(node.db));
  const forged: Record<string, Record<string, string>> = {
    'a form': { Cookie: cookie, 'Content-Type': 'text/plain' },
    'a script without our header': { Cookie: cookie },
    'a page of another site': { ...headers, 'Sec-Fetch-Site': 'cross-site' },
    'a page of a neighbour': { ...headers, 'Sec-Fetch-Site': 'same-site' },
  };
  for (const [what, sent] of Object.entries(forged)) {
    const answer = await node.call('POST', '/api/v1/keys', { body: '{"name":"n"}', headers: sent });
    t.strictSame([answer.status, answer.body], [403, { error: 'forbidden' }], what);
    t.equal((await node.call('DELETE', path, { headers: sent })).status, 403, what);
  }
  t.strictSame((await node.call('GET', '/api/v1/keys', { headers })).body, { api_keys: [] });
  const asked = await node.call('OPTIONS', '/api/v1/keys', { headers: { Origin: 'https://evil.test' } });
  t.equal(asked.headers.get('access-control-allow-origin'), null, 'no other site may send our header');
  const own = { ...headers, 'Sec-Fetch-Site': 'same-origin' };
  t.equal((await node.call('POST', '/api/v1/keys', { body: { name: 'n' }, headers: own })).status, 200);
  const elsewhere = { 'Sec-Fetch-Site': 'cross-site' };
  const body = { email: 'admin@example.test', password: node.adminPassword };
  t.equal((await node.call('POST', path, { body, headers: elsewhere })).status, 403, 'nor can it log anybody in');
});

t.test('AUTH-16: a page that is shown to one user does nothing with the cookie of another', async (t) => {
  const node = await sharedNode('api');
  const first = await logIn(node, await buildAccount(node.db));
  const second = await logIn(node, await buildAccount(node.db));
  const create = (user: { id: string }, { headers }: { headers: Record<string, string> }) =>
    node.call('POST', '/api/v1/keys', { body: { name: 'n' }, headers: { ...headers, 'X-Sendwright-User': user.id } });
  const shownTo = first.answer.body.user;
  const refused = await create(shownTo, second);
  t.strictSame([refused.status, refused.body], [401, { error: 'unauthorized' }]);
  t.strictSame((await node.call('GET', '/api/v1/keys', { headers: second.headers })).body, { api_keys: [] });
  const read = { ...second.headers, 'X-Sendwright-User': shownTo.id };
  t.equal((await node.call('GET', '/api/v1/emails', { headers: read })).status, 401, 'nor does it show anything of it');
  t.equal((await node.call('DELETE', path, { headers: read })).status, 401, 'or end that login');
  t.equal((await create(shownTo, first)).status, 200);
  t.equal((await create(second.answer.body.user, second)).status, 200);
});

t.test('AUTH-16: logging out ends the login on all nodes, and no other', async (t) => {
  const first = await sharedNode('api');
  const { databaseUrl: DATABASE_URL } = first;
  const account = await buildAccount(first.db);
  const secret = randomBytes(32).toString('hex');
  const env = { DATABASE_URL, JWT_SECRET: secret, ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api' };
  const [one, two] = [await startTestNode(t, env), await startTestNode(t, env)];
  const ended = await logIn(one, account);
  const other = await logIn(two, account);
  t.equal((await two.call('GET', path, ended)).status, 200);
  const streams = [watch(one, ended.headers), watch(two, other.headers)];
  await eventually(async () => streams.every(({ seen }) => seen.text !== ''));
  const answer = await two.call('DELETE', path, ended);
  t.match(answer.headers.get('set-cookie'), /^sendwright_session=; .*Max-Age=0/);
  await forgetExpired(first.db);
  for (const node of [one, two]) {
    t.equal((await node.call('GET', path, ended)).status, 401);
    t.equal(
      (await node.call('GET', path, { token: ended.cookie.split('=')[1] })).status,
      401,
      'nor with its token as a header',
    );
    t.equal((await node.call('GET', path, other)).status, 200);
  }
  t.notOk(streams[1]?.seen.over);
  const passwords = { current_password: account.password, new_password: 'another password' };
  const { status } = await one.call('POST', '/api/v1/auth/password', { body: passwords, headers: other.headers });
  t.equal(status, 200);
  await eventually(async () => streams.every(({ seen }) => seen.over));
});

t.test('an ended login is remembered longer than its token is valid, and then forgotten', async (t) => {
  const { db } = await sharedNode('api');
  const add = async (hours: number) => {
    const id = randomUUID();
    await end(db, { id, expiresAt: new Date(Date.now() + hours * 3_600_000) });
    return id;
  };
  const [good, past, longPast] = [await add(1), await add(-1), await add(-25)];
  await forgetExpired(db);
  const values = [[good, past, longPast]];
  const left = await db.query<{ id: string }>({ text: 'SELECT id FROM ended_sessions WHERE id = ANY($1)', values });
  t.strictSame(left.map(({ id }) => id).sort(), [good, past].sort());
});

/** What arrives from a stream of events. */
function watch(node: TestNode, headers: Record<string, string>) {
  const seen = { text: '', over: false, status: 0, caching: '' };
  const req = request(`${node.baseUrl}/api/v1/live`, { headers }, (response) => {
    seen.status = response.statusCode ?? 0;
    seen.caching = response.headers['cache-control'] ?? '';
    // Without the signs of life, which come every ten seconds.
    response
      .on('data', (chunk) => (seen.text += String(chunk).replaceAll('event: alive\ndata: {}\n\n', '')))
      .on('close', () => (seen.over = true));
  }).end();
  req.on('error', () => (seen.over = true));
  return { seen, close: () => req.destroy() };
}

t.test('viewers are told when emails of their account change, and of no others', async (t) => {
  const node = await sharedNode('api');
  const sender = await buildSender(node.db, encryptionKey);
  const other = await logIn(node, await buildAccount(node.db));
  const { headers } = await logIn(node, sender.account);
  const [own, theirs] = [watch(node, headers), watch(node, other.headers)];
  await eventually(async () => own.seen.text !== '' && theirs.seen.text !== '');
  t.equal(own.seen.text, 'event: emails\ndata: {}\n\n');
  t.equal(own.seen.caching, 'no-store, no-transform', 'what a proxy compresses arrives late');
  await node.call('POST', '/api/v1/emails', {
    headers,
    body: { from: sender.from, to: 'a@b.test', subject: 's', text: 't' },
  });
  await eventually(async () => own.seen.text.includes('{"queued":1}'));
  t.equal(theirs.seen.text, 'event: emails\ndata: {}\n\n');
  await node.call('DELETE', path, { headers });
  await eventually(async () => own.seen.over);
  t.notOk(theirs.seen.over, 'the stream ends with its login, and others go on');
  theirs.close();
});

t.test('the number of viewers is limited', async (t) => {
  const node = await sharedNode('api');
  const { headers } = await logIn(node, await buildAccount(node.db));
  const viewers = Array.from({ length: 20 }, () => watch(node, headers));
  await eventually(async () => viewers.every(({ seen }) => seen.text));
  t.equal((await call(node.baseUrl, 'GET', '/api/v1/live', { headers })).status, 503);
  for (const { close } of viewers) close();
  await eventually(async () => (await call(node.baseUrl, 'GET', '/api/v1/live', { headers })).status === 200);
});

t.test('nobody begins to watch a node that is stopping: the stop would wait for the end of the stream', async (t) => {
  const { db } = await sharedNode('api');
  const live = new Live(db, silentLog);
  live.stop();
  const session = { id: randomUUID(), userId: randomUUID(), accountId: randomUUID() } as Parameters<Live['add']>[0];
  await t.rejects(live.add(session, new PassThrough()), { message: 'unavailable' });
});

t.test('a stream ends with its login or account, or if nobody reads it, and others go on', async (t) => {
  const { db } = await sharedNode('api');
  const live = new Live(db, silentLog, { beatEveryMs: 100 });
  t.teardown(() => live.stop());
  const view = async ({ id = null as string | null, hours = 1, unread = '' } = {}) => {
    const { id: accountId } = await buildAccount(db);
    const user = await db.prisma.user.findFirstOrThrow({ where: { accountId } });
    const passwordAt = user.passwordChangedAt.getTime();
    const expiresAt = new Date(Date.now() + hours * 3_600_000);
    const stream = new PassThrough();
    stream.write(unread);
    const session = { id, userId: user.id, accountId, passwordAt, expiresAt } as Parameters<Live['add']>[0];
    await live.add(session, stream);
    return { accountId, stream };
  };
  const login = randomUUID();
  const loggedOut = await view({ id: login });
  const changed = await view();
  const suspended = await view();
  const expired = await view({ hours: -1 });
  const stuck = await view({ unread: 'x'.repeat(100_000) });
  const good = await view();
  // At another node, which cannot end the streams of this one.
  await end(db, { id: login, expiresAt: new Date(Date.now() + 3_600_000) });
  const { accountId } = changed;
  await db.prisma.user.updateMany({ where: { accountId }, data: { passwordChangedAt: new Date() } });
  await db.prisma.account.update({ where: { id: suspended.accountId }, data: { suspendedAt: new Date() } });
  let written = '';
  good.stream.on('data', (chunk: Buffer) => {
    written += chunk;
  });
  await eventually(async () => written.includes('event: alive'), 20_000);
  t.ok(loggedOut.stream.writableEnded);
  t.ok(changed.stream.writableEnded);
  t.ok(suspended.stream.writableEnded);
  t.ok(expired.stream.writableEnded);
  t.ok(stuck.stream.destroyed);
  t.notOk(good.stream.writableEnded);
});

t.test('however many watch, their sessions are looked at with one statement', async (t) => {
  const { db } = await sharedNode('api');
  const statements: string[] = [];
  const counted: Database = {
    ...db,
    get prisma() {
      statements.push('of Prisma');
      return db.prisma;
    },
    query: (statement) => {
      if (!statement.text.includes('email_counts')) statements.push(statement.text);
      return db.query(statement);
    },
  };
  const live = new Live(counted, silentLog, { beatEveryMs: 1 });
  t.teardown(() => live.stop());
  const viewers = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const { id: accountId } = await buildAccount(db);
      const user = await db.prisma.user.findFirstOrThrow({ where: { accountId } });
      const stream = new PassThrough();
      const expiresAt = new Date(Date.now() + 3_600_000);
      const passwordAt = user.passwordChangedAt.getTime();
      const session = { id: randomUUID(), userId: user.id, accountId, passwordAt, expiresAt };
      await live.add(session as Parameters<Live['add']>[0], stream);
      const seen = { beats: 0 };
      stream.on('data', (chunk: Buffer) => {
        if (String(chunk).includes('event: alive')) seen.beats += 1;
      });
      return seen;
    }),
  );
  await eventually(async () => viewers.every(({ beats }) => beats > 0));
  // One more may have begun that nobody has heard of yet.
  t.ok(statements.length <= Math.max(...viewers.map(({ beats }) => beats)) + 1, `${statements.length} statements`);
});

t.test('a clock that is put back does not keep live updates from showing that they are alive', async (t) => {
  const { db } = await sharedNode('api');
  const { id: accountId } = await buildAccount(db);
  const user = await db.prisma.user.findFirstOrThrow({ where: { accountId } });
  const live = new Live(db, silentLog, { beatEveryMs: 100 });
  t.teardown(() => live.stop());
  const stream = new PassThrough();
  const passwordAt = user.passwordChangedAt.getTime();
  const expiresAt = new Date(Date.now() + 3_600_000);
  const session = { id: null, userId: user.id, accountId, passwordAt, expiresAt } as Parameters<Live['add']>[0];
  mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 });
  t.teardown(() => mock.timers.reset());
  await live.add(session, stream);
  let written = '';
  stream.on('data', (chunk: Buffer) => {
    written += chunk;
  });
  for (let left = 50; left > 0 && !written.includes('event: alive'); left -= 1) await sleep(100);
  t.match(written, /event: alive/);
});
