import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import Koa from 'koa';
import { pino } from 'pino';
import t from 'tap';
import { watchDepth } from '../../src/core/operations/queue-depth.ts';
import { pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { watchAnswers } from '../../src/db/answers.ts';
import { unavailable } from '../../src/errors.ts';
import { accessLog, errors, requestId } from '../../src/http/middleware.ts';
import { listen } from '../../src/http/server.ts';
import { newId } from '../../src/ids.ts';
import { exposition, Metrics } from '../../src/process/metrics.ts';
import { openMetrics } from '../../src/process/metrics-port.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildSender, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';
import { startHook } from '../support/hook.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';

/** The samples that Prometheus would read, by name and labels. */
async function read(metrics: Metrics): Promise<{ text: string; samples: Map<string, number> }> {
  const text = await exposition([{ name: 'main', measured: await metrics.measure() }]);
  const lines = text.split('\n').filter((line) => line && !line.startsWith('#'));
  return {
    text,
    samples: new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
    ),
  };
}

/** The sum of the samples with this name and all of these labels. */
function sumOf(samples: Map<string, number>, name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return [...samples]
    .filter(([sample]) => sample.replace(/\{.*/, '') === name && wanted.every((one) => sample.includes(one)))
    .reduce((sum, [, value]) => sum + value, 0);
}

t.test('mail, webhooks, requests, the queue and the database are counted, and no label names anybody', async (t) => {
  const node = await startTestNode(t, {
    ENCRYPTION_KEY: encryptionKey.toString('hex'),
    ALLOW_PRIVATE_NETWORKS: 'true',
    ROLES: 'api,mta,webhooks',
  });
  const sender = await buildSender(node.db, encryptionKey);
  const hook = await startHook(t, ({ path }) => (path === '/fails' ? 500 : 200));
  const { email: login, password } = sender.account;
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email: login, password } })).body;
  for (const url of [hook.url, `${hook.url}/fails`])
    await node.call('POST', '/api/v1/webhooks', { token, body: { url, events: ['email.delivered'] } });
  const send = async (fields: Record<string, unknown>) =>
    (
      await node.call('POST', '/api/v1/emails', {
        key: sender.key,
        body: { from: sender.from, subject: 'canary-subject', text: 't', ...fields },
      })
    ).body.email;
  const ids = [
    await send({ to: 'canary-a@canary-b.test' }),
    await send({ to: 'bounced+canary@canary-c.test' }),
    await send({ to: 'a@b.test', scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }),
  ].map(({ id }) => id);
  await node.call('GET', `/api/v1/emails/${ids[0]}`, { key: sender.key });
  await node.call('GET', '/canary-path');
  await node.call('DELETE', '/api/v1/emails', { key: sender.key });
  const { text, samples } = await eventually(async () => {
    const now = await read(node.metrics);
    const attempted = sumOf(now.samples, 'sendwright_delivery_attempts_total');
    const isCalled = sumOf(now.samples, 'sendwright_webhook_calls_total', { outcome: 'succeeded' }) === 1;
    // A count of what waits may be some seconds old.
    const waits = sumOf(now.samples, 'sendwright_webhook_deliveries', { state: 'waiting' }) === 1;
    return attempted === 2 && isCalled && waits && now;
  }, 60_000);

  const attempts = (labels: Record<string, string>) => sumOf(samples, 'sendwright_delivery_attempts_total', labels);
  t.equal(attempts({ outcome: 'delivered', class: 'none', provider: 'other' }), 1);
  t.equal(attempts({ outcome: 'bounced', class: 'bad_mailbox' }), 1);
  t.equal(sumOf(samples, 'sendwright_delivery_delay_seconds_count'), 1);
  t.equal(sumOf(samples, 'sendwright_delivery_attempt_duration_seconds_count'), 2);
  const requests = (labels: Record<string, string>) => sumOf(samples, 'sendwright_http_requests_total', labels);
  t.equal(requests({ method: 'POST', route: '/api/v1/emails', status: '200' }), 3);
  t.equal(requests({ method: 'GET', route: '/api/v1/emails/:id', status: '200' }), 1);
  t.equal(requests({ route: 'none', status: '404' }), 1);
  t.equal(requests({ method: 'DELETE', route: 'none', status: '405' }), 1);
  t.equal(
    sumOf(samples, 'sendwright_http_request_duration_seconds_count', { method: 'POST', route: '/api/v1/emails' }),
    3,
  );
  const calls = sumOf(samples, 'sendwright_webhook_calls_total');
  t.ok(calls >= 2);
  t.equal(sumOf(samples, 'sendwright_webhook_calls_total', { outcome: 'retried' }), calls - 1);
  t.equal(sumOf(samples, 'sendwright_webhook_call_duration_seconds_count'), calls);
  t.equal(sumOf(samples, 'sendwright_queue_recipients', { state: 'scheduled' }), 1);
  t.equal(sumOf(samples, 'sendwright_database_up'), 1);
  t.equal(sumOf(samples, 'sendwright_nodes'), 1);
  // On a full machine all of them may be busy.
  const connections = (state: string) => sumOf(samples, 'sendwright_database_connections', { state });
  t.ok(connections('idle') + connections('busy') >= 1);
  t.ok(samples.has('sendwright_claims{kind="webhooks",process="main"}'));
  for (const secret of [...ids, 'canary', sender.key, sender.account.id, sender.domain, '127.0.0.1'])
    t.notMatch(text, secret, 'it contains no name, address or id');
  t.equal((await node.call('GET', '/metrics')).status, 404, 'AUTH-19: the public port has no metrics');

  t.test('every metric that the Grafana dashboard uses exists', async (t) => {
    node.metrics.watchProcess();
    const known = [...(await read(node.metrics)).text.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
    const names = new Set(
      known.flatMap(([, name = '', type]) =>
        type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
      ),
    );
    const board = JSON.parse(readFileSync(new URL('../../docs/grafana.json', import.meta.url), 'utf8'));
    // biome-ignore lint/suspicious/noExplicitAny: Grafana's own format
    const asked: string[] = board.panels.flatMap(({ targets = [] }: any) => targets.map(({ expr }: any) => expr));
    const named = (text: string) => text.match(/\b(?:sendwright|nodejs|process)_\w+/g) ?? [];
    t.ok(asked.length >= 10);
    for (const expr of asked) {
      t.ok(named(expr).length > 0, expr);
      for (const name of named(expr)) t.ok(names.has(name), name);
    }
    const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| `(sendwright_\w+)/gm)].map(([, name]) => name);
    const ours = known.map(([, name]) => name).filter((name) => name?.startsWith('sendwright_'));
    t.strictSame(rows.toSorted(), ours.toSorted(), 'each is explained in docs/operations.md');
    for (const name of named(page)) t.ok(names.has(name) || ours.includes(name), `${name} of docs/operations.md`);
  });
});

t.test('waiting mail is counted every few seconds, however many ask', async (t) => {
  const db = await openDatabase(t);
  let asked = 0;
  let fails = false;
  let now = 0;
  const counting = {
    ...db,
    session: (async (work, statementMs) => {
      asked += 1;
      if (fails) throw new Error('the database is away');
      now += 1_000;
      return db.session(work, statementMs);
    }) as typeof db.session,
  };
  const depth = watchDepth(counting, () => now);
  const all = await Promise.all([depth(), depth(), depth()]);
  t.match(all, [{ recipients: { due: 0 }, nodes: 0 }, {}, {}]);
  now += 18_000;
  await depth();
  t.equal(asked, 1, 'a count that took a second is not repeated within twenty');
  now += 2_000;
  fails = true;
  t.equal(await depth(), null);
  t.equal(asked, 2);
  now += 5_000;
  fails = false;
  t.match(await depth(), { oldestDueSeconds: 0 });
});

t.test('what waits is counted by what it waits for, with the age of what nobody has taken', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, encryptionKey);
  const states: [name: string, columns: string][] = [
    ['due', "job_id = NULL, next_attempt_at = now() - interval '100 s'"],
    ['due', "next_attempt_at = now() - interval '50 s'"],
    ['in_flight', "claimed_by = gen_random_uuid(), next_attempt_at = now() - interval '5000 s'"],
    ['deferred', "job_id = NULL, attempts = 1, next_attempt_at = now() + interval '1 h'"],
    ['deferred', "job_id = NULL, waiting_for = 'room', next_attempt_at = now() + interval '1 h'"],
    ['scheduled', "job_id = NULL, next_attempt_at = now() + interval '1 h'"],
    ['held', `job_id = NULL, attempts = 1, next_attempt_at = '${pausedUntil.toISOString()}'`],
    ['', "job_id = NULL, status = 'delivered', next_attempt_at = NULL"],
  ];
  const to = states.map((_, at) => `${at}@anywhere.test`);
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, to)]);
  for (const [at, [, columns]] of states.entries())
    await db.query({ text: `UPDATE recipients SET ${columns} WHERE position = $1`, values: [at] });
  for (const columns of [
    "NULL, NULL, now() - interval '20 s'",
    "gen_random_uuid(), gen_random_uuid(), now() - interval '5000 s'",
    "NULL, NULL, now() + interval '1 h'",
    "NULL, NULL, now() + interval '2 h'",
  ])
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, job_id, claimed_by, next_attempt_at)
             VALUES ($1, $2, $3, 'email.sent', '{}', ${columns})`,
      values: [newId(), account.id, newId()],
    });
  const metrics = new Metrics();
  metrics.watch({ isUp: async () => true, depth: watchDepth(db), connections: db.connections });
  const { samples } = await read(metrics);
  const byState = (name: string, ...names: string[]) =>
    names.map((state) => sumOf(samples, `sendwright_${name}`, { state }));
  t.strictSame(byState('queue_recipients', 'due', 'in_flight', 'deferred', 'scheduled', 'held'), [2, 1, 2, 1, 1]);
  t.strictSame(byState('webhook_deliveries', 'due', 'in_flight', 'waiting'), [1, 1, 2]);
  const isAround = (seconds: number, expected: number) => seconds >= expected && seconds < expected + 200;
  t.ok(isAround(sumOf(samples, 'sendwright_queue_oldest_due_seconds'), 100));
  t.ok(isAround(sumOf(samples, 'sendwright_webhook_oldest_due_seconds'), 20));
});

t.test('a database that gives no answer is down within seconds, and up as soon as it answers', async (t) => {
  const db = await openDatabase(t);
  let thaw = () => {};
  let frozen: Promise<void> | null = null;
  const freezable = {
    ...db,
    query: (async (statement) => {
      await frozen;
      return db.query(statement);
    }) as typeof db.query,
    session: (async (work, statementMs) => {
      await frozen;
      return db.session(work, statementMs);
    }) as typeof db.session,
  };
  let now = 0;
  const metrics = new Metrics();
  metrics.watch({
    isUp: watchAnswers(freezable),
    depth: watchDepth(freezable, () => now),
    connections: db.connections,
  });
  const state = async () => {
    const { samples } = await read(metrics);
    const value = (name: string) => samples.get(`sendwright_${name}{process="main"}`);
    return [value('database_up'), value('nodes')];
  };
  t.strictSame(await state(), [1, 0]);
  frozen = new Promise((resolve) => {
    thaw = resolve;
  });
  now += 4_000;
  const asked = performance.now();
  t.strictSame(await state(), [0, Number.NaN], 'although the last count is recent');
  now += 2_000;
  t.strictSame(await state(), [0, Number.NaN], 'while a count is under way');
  // Prometheus waits for ten seconds, and the first process of a node for five.
  t.ok(performance.now() - asked < 9_000);
  now += 4_000;
  frozen = null;
  thaw();
  t.strictSame(
    await eventually(async () => ((await state())[0] === 1 ? state() : null)),
    [1, 0],
    'a slow count is one',
  );
  const failing = watchDepth(
    {
      ...db,
      session: async () => {
        now += 10_500;
        throw new Error('Query read timeout');
      },
    },
    () => now,
  );
  t.equal(await failing(), null);
  const counts = now;
  await failing();
  t.ok(now > counts, 'an outage is not remembered twenty times as long');
});

t.test('AUTH-19: the port for Prometheus serves metrics and nothing else', async (t) => {
  let fails = false;
  const read = async () => {
    if (fails) throw new Error('secret');
    return 'up 1\n';
  };
  const door = await openMetrics({ host: '127.0.0.1', port: 0 }, read);
  t.teardown(() => door.close());
  const ask = (method: string, path: string) =>
    new Promise<[number, string]>((resolve, reject) => {
      const sent = request({ port: door.port, host: '127.0.0.1', method, path, agent: false }, (response) => {
        let text = '';
        response.on('data', (chunk) => (text += chunk)).on('end', () => resolve([response.statusCode ?? 0, text]));
      });
      sent.on('error', reject).end();
    });
  t.strictSame(await ask('GET', '/metrics'), [200, 'up 1\n']);
  const { headers } = await fetch(`http://127.0.0.1:${door.port}/metrics`);
  t.match(headers.get('content-type'), /^text\/plain; version=[\d.]+; charset=utf-8$/, 'Prometheus 3 reads no other');
  t.equal(headers.get('x-content-type-options'), 'nosniff');
  t.strictSame(await ask('POST', '/metrics'), [405, '']);
  const post = await fetch(`http://127.0.0.1:${door.port}/metrics`, { method: 'POST' });
  t.equal(post.headers.get('allow'), 'GET, HEAD');
  for (const path of ['/', '/metrics/', '/debug', '/metrics?x=1']) t.strictSame(await ask('GET', path), [404, '']);
  fails = true;
  t.strictSame(await ask('GET', '/metrics'), [503, '']);
});

t.test('what is unknown while the database is away is not a number, for workers too', async (t) => {
  const metrics = new Metrics();
  let isUp = true;
  metrics.watch({
    isUp: async () => isUp,
    depth: async () => ({
      recipients: { due: 3, in_flight: 0, deferred: 0, scheduled: 0, held: 0 },
      oldestDueSeconds: 7,
      deliveries: { due: 2, in_flight: 0, waiting: 0 },
      oldestDeliverySeconds: 8,
      nodes: 1,
    }),
    connections: () => ({ busy: 0, idle: 0, waiting: 0 }),
  });
  const counts = /^sendwright_(queue_recipients|webhook_deliveries)\{/m;
  t.match((await read(metrics)).text, counts);
  isUp = false;
  const measured = await metrics.measure();
  // As Node sends it from one process to another.
  const told = JSON.parse(JSON.stringify(measured)) as typeof measured;
  const text = await exposition([
    { name: 'main', measured },
    { name: '1', measured: told },
  ]);
  for (const name of [
    'sendwright_nodes',
    'sendwright_queue_oldest_due_seconds',
    'sendwright_webhook_oldest_due_seconds',
  ])
    for (const process of ['main', '1']) t.match(text, new RegExp(`^${name}\\{process="${process}"\\} nan$`, 'im'));
  t.notMatch(text, counts, 'the last counts no longer hold');
});

t.test('labels use known names only: configured providers and existing methods; times are in seconds', async (t) => {
  const metrics = new Metrics();
  metrics.nameProviders(['Google']);
  const results = [{ outcome: 'delivered', classification: null }];
  for (const site of ['Google', 'google.evil.test', 'a.test'])
    metrics.attempted(site, { results, durationMs: 10, delays: [20] });
  for (const method of ['GET', 'PROPFIND', 'BREW']) metrics.requested(method, null, 501, 1);
  const { samples } = await read(metrics);
  const attempts = (provider: string) => sumOf(samples, 'sendwright_delivery_attempts_total', { provider });
  t.strictSame(['Google', 'other'].map(attempts), [1, 2]);
  t.equal(sumOf(samples, 'sendwright_http_requests_total', { method: 'other' }), 2);
  t.notMatch([...samples.keys()].join(' '), /evil|a\.test|PROPFIND/);

  metrics.called('failed', 1_500);
  const timed = (await read(metrics)).samples;
  t.equal(sumOf(timed, 'sendwright_delivery_attempt_duration_seconds_sum', { provider: 'Google' }), 0.01, 'in seconds');
  t.equal(sumOf(timed, 'sendwright_delivery_delay_seconds_sum', { provider: 'Google' }), 0.02);
  t.equal(sumOf(timed, 'sendwright_http_request_duration_seconds_sum', { method: 'GET' }), 0.001);
  t.equal(sumOf(timed, 'sendwright_webhook_call_duration_seconds_sum'), 1.5);
});

t.test('each request is a line that names it and the email it was about', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = new Koa();
  app.use(requestId(log));
  app.use(accessLog(new Metrics()));
  app.use((ctx) => {
    ctx.body = ctx.path === '/one' ? { email: { id: 'the-email' } } : { emails: [{ id: 'another' }] };
  });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  const ids = [];
  for (const path of ['/one', '/many']) {
    const { headers } = await fetch(`http://127.0.0.1:${server.port}${path}`);
    ids.push(headers.get('x-request-id'));
  }
  t.match(lines, [
    { requestId: ids[0], emailId: 'the-email', status: 200, path: '/one', msg: 'request' },
    { requestId: ids[1], path: '/many' },
  ]);
  t.notOk('emailId' in (lines[1] ?? {}));
});

t.test('a refusal for overload is one line, with why, and a warning once a minute; a defect is two', async (t) => {
  let thrown = new Error('Connection terminated unexpectedly');
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = new Koa();
  app
    .use(requestId(log))
    .use(accessLog(new Metrics()))
    .use(errors(log))
    .use(() => {
      throw thrown;
    });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  for (let call = 0; call < 20; call += 1) t.equal((await fetch(`http://127.0.0.1:${server.port}/x`)).status, 503);
  const error = 'Connection terminated unexpectedly';
  t.match(lines.splice(0, 1), [{ level: 40, error, msg: 'requests are answered with 503' }]);
  t.equal(lines.length, 20);
  for (const line of lines) t.match(line, { level: 30, requestId: String, status: 503, error, msg: 'request' });

  lines.length = 0;
  thrown = unavailable('200 such calls of one account wait already');
  const refused = await fetch(`http://127.0.0.1:${server.port}/x`);
  t.strictSame(await refused.json(), { error: 'unavailable' }, 'the client is not told');
  thrown = Object.assign(new Error('deadlock detected'), { code: '40P01' });
  t.equal((await fetch(`http://127.0.0.1:${server.port}/x`)).status, 503, 'what was in the way again and again');
  const what = { error: '200 such calls of one account wait already' };
  t.match(lines, [
    { level: 40, ...what },
    { level: 30, ...what },
  ]);

  lines.length = 0;
  thrown = new TypeError('SELECT password_hash FROM users');
  const failed = await fetch(`http://127.0.0.1:${server.port}/x`);
  t.strictSame([failed.status, await failed.json()], [500, { error: 'internal error' }], 'nor of a defect');
  const id = failed.headers.get('x-request-id');
  t.match(lines, [
    { level: 50, requestId: id, error: /SELECT password_hash FROM users\n +at /, msg: 'a request failed' },
    { level: 30, requestId: id, status: 500, msg: 'request' },
  ]);
});

t.test('the line of a request names no address and no token', async (t) => {
  const paths: string[] = [];
  const log = pino({ base: null }, { write: (line: string) => void paths.push(JSON.parse(line).path) });
  const app = new Koa();
  app.use(requestId(log));
  app.use(accessLog(new Metrics()));
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  const cases: [path: string, logged: string][] = [
    ['/api/v1/suppressions/ann%40x.test', '/api/v1/suppressions/…'],
    ['/api/v1/suppressions/import/ann@x.test', '/api/v1/suppressions/…'],
    ['/API/v1/Suppressions/ann@x.test', '/API/v1/Suppressions/…'],
    ['/unsubscribe/token', '/unsubscribe/…'],
    ['/unsubscribe/token/?x=y', '/unsubscribe/…'],
    ...['/api/v1/suppressions', '/api/v1/suppressions/import', '/api/v1/suppressions/export', '/unsubscribe/'].map(
      (path): [string, string] => [path, path],
    ),
  ];
  for (const [path] of cases) await fetch(`http://127.0.0.1:${server.port}${path}`);
  t.strictSame(
    paths,
    cases.map(([, logged]) => logged),
  );
});
