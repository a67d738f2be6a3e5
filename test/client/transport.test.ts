import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Sendwright } from 'sendwright/client';
import t from 'tap';
import { startMailer } from '../http/scene.ts';
import { eventually } from '../support/node.ts';
import { drop, failure, say, startMisbehaving } from './scene.ts';

const email = { from: 'a@b.test', to: 'c@d.test', subject: 's', text: 't' };
const sent = { email: { id: '1' } };
const unavailable = say(503, { error: 'unavailable' });

t.test('a send whose answer was lost is repeated with its key, and sends once', async (t) => {
  const mailer = await startMailer();
  let lost = 0;
  // Forwards requests, and drops the first connection after the service has accepted the email.
  const proxy = createServer(async (request, response) => {
    const { method, url, headers } = request;
    const onward = httpRequest(`${mailer.node.baseUrl}${url}`, { method, headers });
    request.pipe(onward);
    const [answer] = await once(onward, 'response');
    if (lost === 0) {
      t.equal(answer.statusCode, 200);
      lost += 1;
      response.socket?.resetAndDestroy();
      return;
    }
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());
  const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const client = new Sendwright({ baseUrl, apiKey: mailer.key, backoffMs: 1 });

  const { email: accepted } = await client.emails.send({ ...email, from: mailer.from });
  t.equal(lost, 1);
  const { emails, count } = await client.emails.list();
  t.equal(count, 1, 'one email');
  t.equal(emails[0]?.id, accepted.id);

  lost = 0;
  const batch = await client.emails.sendBatch([email, email].map((one) => ({ ...one, from: mailer.from })));
  t.equal(batch.emails.length, 2);
  t.equal((await client.emails.list()).count, 3, 'nor is a batch sent twice');
});

t.test('all attempts of a send have the same key and the same bytes, and each send has another key', async (t) => {
  // As in a browser whose page came over http.
  Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true });
  t.teardown(() => Reflect.deleteProperty(crypto, 'randomUUID'));
  const { client, requests } = await startMisbehaving(t, drop, unavailable, say(200, sent));
  t.strictSame(await client.emails.send(email), sent);
  t.equal(requests.length, 3);
  t.match(requests[0]?.headers['idempotency-key'], /^[0-9a-f]{32}$/);
  t.equal(new Set(requests.map(({ headers }) => headers['idempotency-key'])).size, 1);
  t.equal(new Set(requests.map(({ body }) => body)).size, 1);
  await client.emails.send(email);
  t.not(requests[3]?.headers['idempotency-key'], requests[0]?.headers['idempotency-key']);
  await client.emails.send(email, { idempotencyKey: 'order-7' });
  t.equal(requests[4]?.headers['idempotency-key'], 'order-7');
});

t.test('a call that is given up says after how many attempts, and which key to continue with', async (t) => {
  const { client, requests } = await startMisbehaving(t, drop);
  const error = await failure(client.emails.send(email, { idempotencyKey: 'order-7' }));
  t.match(error, { status: null, error: 'network error', attempts: 3, idempotencyKey: 'order-7' });
  t.equal(requests.length, 3);
  t.match(await failure(client.emails.send(email, { maxAttempts: 1 })), {
    attempts: 1,
    idempotencyKey: /^[0-9a-f]{32}$/,
  });
  t.equal(requests.length, 4);
  const gone = new Sendwright({ baseUrl: 'http://127.0.0.1:1', backoffMs: 1 });
  t.match(await failure(gone.service.isAlive()), {
    error: 'network error',
    detail: /ECONNREFUSED|bad port/,
    attempts: 3,
  });
});

t.test('only calls that cannot be done twice are repeated', async (t) => {
  const repeated: ((client: Sendwright) => Promise<unknown>)[] = [
    (client) => client.domains.list(),
    (client) => client.domains.remove('1'),
    (client) => client.webhooks.update('1', { status: 'enabled' }),
    (client) => client.emails.sendBatch([email]),
    (client) => client.admin.accounts.addCredit('1', { amount: 1 }),
    (client) => client.domains.verify('1'),
    (client) => client.templates.render('1'),
    (client) => client.suppressions.add({ address: 'a@b.test' }),
    (client) => client.login('a', 'b'),
  ];
  const once: typeof repeated = [
    (client) => client.keys.create({ name: 'k' }),
    (client) => client.domains.create({ domain: 'a.test' }),
    (client) => client.templates.create({ name: 'n' }),
    (client) => client.templates.publish('1'),
    (client) => client.webhooks.create({ url: 'https://a.test', events: [] }),
    (client) => client.webhooks.rotateSecret('1'),
    (client) => client.webhooks.test('1'),
    (client) => client.webhooks.replay('1', { since: '' }),
    (client) => client.webhookDeliveries.retry('1'),
    (client) => client.admin.accounts.create({ name: 'n', email: 'a@b.test' }),
  ];
  for (const trouble of [drop, say(500, {}), say(502, '<html>'), unavailable, say(504, '')]) {
    const { client, requests } = await startMisbehaving(t, trouble);
    for (const call of repeated) t.equal((await failure(call(client))).attempts, 3, `${call}`);
    for (const call of once) t.equal((await failure(call(client))).attempts, 1, `${call}`);
    t.equal(requests.length, repeated.length * 3 + once.length);
  }
  for (const [status, error] of [
    [400, 'invalid request'],
    [401, 'unauthorized'],
    [404, 'not found'],
    [409, 'conflict'],
  ] as const) {
    const { client } = await startMisbehaving(t, say(status, { error }));
    for (const call of [...repeated, ...once]) t.match(await failure(call(client)), { status, error, attempts: 1 });
  }
});

t.test('a call that was refused as too much is repeated after the time that the service says', async (t) => {
  const limited = (after: string) => say(429, { error: 'rate limited' }, { 'Retry-After': after });
  const atOnce = Array.from({ length: 5 }, () => limited('0'));
  const { baseUrl, requests } = await startMisbehaving(t, limited('1'), ...atOnce, say(200, { key: 'k' }));
  const client = new Sendwright({ baseUrl, token: 'jwt', backoffMs: 1, maxAttempts: 7 });
  t.strictSame(await client.keys.create({ name: 'k' }), { key: 'k' }, 'a POST too: it was not done');
  const [longest = 0, ...others] = requests.slice(1).map(({ at }, index) => at - Number(requests[index]?.at));
  // A timer may be a little early.
  t.ok(longest > 950, `${longest} ms`);
  t.ok(Math.min(...others) < 900, `${others} ms`);

  const date = new Date(Date.now() + 3_000).toUTCString();
  const dated = await startMisbehaving(t, say(503, { error: 'unavailable' }, { 'Retry-After': date }), say(200, sent));
  await dated.client.emails.get('1');
  const late = Number(dated.requests[1]?.at) - Date.parse(date);
  t.ok(late > -50, `${late} ms after the date`);
});

t.test('a very long wait is not waited for, nor is a quota', async (t) => {
  const cases = [
    { answer: say(429, { error: 'rate limited' }, { 'Retry-After': '900' }), retryAfterMs: 900_000 },
    { answer: say(429, { error: 'quota exceeded', detail: 'd' }), retryAfterMs: null },
  ];
  for (const { answer, retryAfterMs } of cases) {
    const { client, requests } = await startMisbehaving(t, answer);
    t.match(await failure(client.emails.send(email)), { status: 429, attempts: 1, retryAfterMs });
    t.equal(requests.length, 1);
  }
  const odd = await startMisbehaving(t, say(503, { error: 'unavailable' }, { 'Retry-After': 'soon' }), say(200, sent));
  await odd.client.emails.get('1');
  t.equal(odd.requests.length, 2, 'an invalid time is ignored');
});

t.test('an attempt has a time limit, for all of its answer', async (t) => {
  const silent = await startMisbehaving(t, () => undefined, say(200, sent));
  t.strictSame(await silent.client.emails.send(email, { timeoutMs: 2_000 }), sent, 'the next attempt has its own');
  const stuck = await startMisbehaving(t, (response) => response.writeHead(200).write('{"email":'));
  const error = await failure(stuck.client.emails.send(email, { timeoutMs: 100, maxAttempts: 2 }));
  t.match(error, { status: null, error: 'timeout', detail: /100 ms/, attempts: 2 });
});

t.test('a time limit that is too long for a timer does not end an attempt before it begins', async (t) => {
  const { client, requests, baseUrl } = await startMisbehaving(t, say(200, sent));
  const longest = [Number.POSITIVE_INFINITY, 30 * 86_400_000, undefined, null as unknown as undefined];
  for (const timeoutMs of longest)
    t.strictSame(await client.emails.send(email, { timeoutMs, maxAttempts: 1 }), sent, `${timeoutMs}`);
  const patient = new Sendwright({ baseUrl, timeoutMs: Number.POSITIVE_INFINITY });
  t.strictSame(await patient.emails.send(email, { timeoutMs: undefined }), sent);
  t.equal(requests.length, 5);
  for (const timeoutMs of [0, -1, Number.NaN, '5s' as unknown as number])
    await t.rejects(client.emails.send(email, { timeoutMs }), {
      name: 'TypeError',
      message: `timeoutMs must be a number above 0: ${timeoutMs}`,
    });
  t.equal(requests.length, 5);
});

t.test('what no header may contain is named, and not shown', async (t) => {
  const { client, requests, baseUrl } = await startMisbehaving(t, say(200, sent));
  const message = (name: string) => `${name} contains characters that are not allowed in a header, such as a line end`;
  for (const [name, options] of [
    ['apiKey', { apiKey: 'sk_live_secret\nX-A: b' }],
    ['apiKey', { apiKey: 'sk_live_secret✓' }],
    ['token', { token: 'a\0secret' }],
  ] as const) {
    const error = await new Sendwright({ baseUrl, ...options }).emails.get('1').catch((error) => error);
    t.match(error, { name: 'TypeError', message: message(name) });
    t.notMatch(inspect(error, { showHidden: true }), /secret/);
  }
  for (const idempotencyKey of ['Größe ✓', 'a\nb'])
    await t.rejects(client.emails.send(email, { idempotencyKey }), {
      name: 'TypeError',
      message: message('idempotencyKey'),
    });
  t.equal(requests.length, 0);
  const absent = null as unknown as undefined;
  await new Sendwright({ baseUrl, apiKey: absent, token: 'jwt\n' }).emails.get('1');
  t.match(requests, [{ headers: { authorization: 'Bearer jwt' } }], 'a line end after it is ignored');
  t.notOk(requests[0]?.headers['x-api-key']);
});

t.test('the signal of the caller ends a call, and the wait between two attempts', async (t) => {
  const silent = await startMisbehaving(t, () => undefined);
  const limited = await startMisbehaving(t, say(429, { error: 'rate limited' }, { 'Retry-After': '30' }));
  for (const { client, requests } of [silent, limited]) {
    const controller = new AbortController();
    const call = client.emails.send(email, { signal: controller.signal });
    void eventually(async () => requests.length > 0)
      .then(() => sleep(50))
      .then(() => controller.abort(new Error('enough')));
    await t.rejects(call, { message: 'enough' });
    t.equal(requests.length, 1);
    await t.rejects(client.emails.send(email, { signal: controller.signal }), { message: 'enough' });
    t.equal(requests.length, 1, 'an aborted call is not begun');
  }
});

t.test('an answer is read up to a limit', async (t) => {
  let closed = false;
  const { baseUrl } = await startMisbehaving(t, (response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    // Once the connection is gone each write is answered at once, with an error: this would never give way to anything else.
    const more = (error?: Error | null) => error || response.write(' '.repeat(65_536), more);
    more();
    response.on('close', () => {
      closed = true;
    });
  });
  const client = new Sendwright({ baseUrl, maxAnswerBytes: 1_000_000, backoffMs: 1 });
  t.match(await failure(client.domains.list()), { status: 200, error: 'answer too large', attempts: 1 });
  // The connection is closed, too.
  await eventually(async () => closed);
});

t.test('an answer that is not from Sendwright is an error that shows it', async (t) => {
  for (const body of ['<html>a login page</html>', '', 'null', '"text"', '{"email":']) {
    const { client } = await startMisbehaving(t, say(200, body));
    const error = await failure(client.emails.send(email));
    t.match(error, { status: 200, error: 'unexpected answer', attempts: 1 }, body);
    t.ok(error.detail?.endsWith(body));
  }
  const gateway = await startMisbehaving(t, say(502, '<html>Bad Gateway</html>'), say(200, sent));
  t.strictSame(await gateway.client.emails.send(email), sent);
  const cut = await startMisbehaving(
    t,
    (response) => response.writeHead(200, { 'Content-Length': '100' }).write('{', () => drop(response, response.req)),
    say(200, sent),
  );
  t.strictSame(await cut.client.emails.send(email), sent, 'an answer that breaks off is asked for again');
});

t.test('a redirect is not followed, because the credentials would go with it', async (t) => {
  const elsewhere = await startMisbehaving(t, say(200, sent));
  const { client, requests } = await startMisbehaving(t, say(307, '', { Location: elsewhere.baseUrl }));
  const error = await failure(client.emails.send(email));
  t.match(error, { status: 307, error: 'unexpected answer', detail: /redirect to http.*baseUrl/ });
  t.equal(requests.length, 1);
  t.equal(elsewhere.requests.length, 0);
});

t.test('an error has what the service said, and no credential', async (t) => {
  const body = { error: 'dns verification failed', detail: 'dkim: none', missing: ['dkim'], checks: {} };
  const { client } = await startMisbehaving(t, say(400, body, { 'X-Request-Id': 'r-1' }));
  const error = await failure(client.domains.verify('1'));
  t.match(error, { status: 400, error: body.error, detail: body.detail, requestId: 'r-1', retryAfterMs: null });
  t.strictSame(error.body, body);
  t.equal(error.message, '400 dns verification failed: dkim: none');
  t.equal(error.name, 'SendwrightError');
  t.notMatch(inspect([error, client], { depth: 9, showHidden: true }), /sk_live_secret|jwt/);
});

t.test('addresses', async (t) => {
  const { baseUrl, requests } = await startMisbehaving(t, say(200, {}));
  const client = new Sendwright({ baseUrl: `${baseUrl}/mail//` });
  await client.emails.list({ q: 'a & b', tag: 'ü', limit: 3 });
  t.equal(requests[0]?.url, '/mail/api/v1/emails?q=a+%26+b&tag=%C3%BC&limit=3');
  await client.suppressions.remove('a/../b?c#d@e.test');
  t.equal(requests[1]?.url, '/mail/api/v1/suppressions/a%2F..%2Fb%3Fc%23d%40e.test');
  for (const id of ['', '.', '..', undefined, null, 7] as string[])
    await t.rejects(client.domains.remove(id), TypeError, `${id} would be another path`);
  t.equal(requests.length, 2);
  for (const wrong of ['', 'send.example.com', 'ftp://send.example.com', undefined] as string[])
    t.throws(() => new Sendwright({ baseUrl: wrong }), TypeError, wrong);
  for (const wrong of [undefined, null, 'sk_live_x'])
    t.throws(() => new Sendwright(wrong as never), { name: 'TypeError', message: /^a client takes an object/ });
  for (const base of ['/api/v1', '/api/v1/', '/mail/api/v1', '/mail//api/v1//'])
    await new Sendwright({ baseUrl: `${baseUrl}${base}` }).emails.list();
  t.strictSame(
    requests.slice(2).map(({ url }) => url),
    ['/api/v1/emails', '/api/v1/emails', '/mail/api/v1/emails', '/mail/api/v1/emails'],
  );
});

t.test('options that a call would ignore are refused before anything is sent', async (t) => {
  const { client, requests } = await startMisbehaving(t, say(200, sent));
  const refused: [options: object | string, words: RegExp][] = [
    [{ idempotency_key: 'x' }, /^idempotency_key is no option of a call: there are .*idempotencyKey$/],
    [{ timeout: 5 }, /^timeout is no option/],
    ['order-7', /^the options of POST \/api\/v1\/emails must be an object: order-7$/],
  ];
  for (const [options, message] of refused)
    await t.rejects(client.emails.send(email, options as object), { name: 'TypeError', message });
  await t.rejects(client.emails.cancel('1', { idempotencyKey: 'x' } as object), {
    name: 'TypeError',
    message: /^DELETE \/api\/v1\/emails\/\{id\} does not accept an idempotencyKey/,
  });
  await t.rejects(client.emails.send(undefined as unknown as typeof email), {
    name: 'TypeError',
    message: /^POST \/api\/v1\/emails needs an object with its fields, which are listed at http:\/\/\S+\/docs$/,
  });
  t.equal(requests.length, 0);
  const signal = AbortSignal.timeout(60_000);
  await client.emails.send(email, { idempotencyKey: undefined, signal, timeoutMs: 9_000, maxAttempts: 1 });
  await client.emails.list({}, { idempotencyKey: undefined } as object);
  t.equal(requests.length, 2);
});

t.test('what waits is given up in as many calls as it takes, also if a call fails, and counted together', async (t) => {
  const left = { in_hand: 3, held: 0 };
  const steps = [
    say(200, { stopped: 500, canceled: 20, ...left, rest_waits: true }),
    unavailable,
    say(200, { stopped: 7, canceled: 1, ...left, rest_waits: false }),
  ];
  const emails = await startMisbehaving(t, ...steps);
  t.match(await emails.client.emails.stopMatching({ tag: 'news' }), { stopped: 507, canceled: 21, in_hand: 3 });
  t.strictSame(new Set(emails.requests.map(({ body }) => body)), new Set(['{"tag":"news"}']));
  const domain = await startMisbehaving(t, ...steps);
  t.match(await domain.client.admin.destinations.stop('a.test', { reason: 'gone' }), { stopped: 507, in_hand: 3 });
  t.strictSame(new Set(domain.requests.map(({ body }) => body)), new Set(['{"reason":"gone"}']));
});
