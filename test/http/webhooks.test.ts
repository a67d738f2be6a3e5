import { mock } from 'node:test';
import t from 'tap';
import * as lines from '../../src/core/webhooks/webhook-lines.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { buildAccount, buildKey } from '../support/build.ts';
import { isSigned, startHook } from '../support/hook.ts';
import { eventually, startTestNode, type TestNode } from '../support/node.ts';
import { startZone } from '../support/zone.ts';
import { event } from '../webhooks/scene.ts';

async function logIn(node: TestNode) {
  const account = await buildAccount(node.db);
  const { body } = await node.call('POST', '/api/v1/auth/login', { body: account });
  const token: string = body.token;
  const call = (method: string, path: string, body?: unknown) => node.call(method, `/api/v1${path}`, { token, body });
  return { account, token, call };
}

/** Makes deliveries without any mail, as accepting an email does. */
async function emit(node: TestNode, accountId: string, ...types: webhooks.EventType[]): Promise<number> {
  const queue = createQueue(node.databaseUrl, silentLog);
  await queue.start();
  const events = types.map((type) => event(accountId, type));
  const count = await node.db.transaction((tx) => webhooks.emit(tx, queue, events));
  await queue.stop();
  return count;
}

const all = ['email.queued', 'email.delivered', 'email.failed', 'email.suppressed'];

t.test('endpoints', async (t) => {
  const node = await startTestNode(t, { ALLOW_PRIVATE_NETWORKS: 'true' });
  const { account, call } = await logIn(node);

  t.test('are created with a secret that is shown once and stored sealed: WH-02', async (t) => {
    const { status, body } = await call('POST', '/webhooks', { url: 'https://Example.com/hook?a=b', events: all });
    t.equal(status, 201);
    t.match(body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    t.strictSame(body.webhook, {
      id: body.webhook.id,
      url: 'https://example.com/hook?a=b',
      events: all,
      status: 'enabled',
      disabled_reason: null,
      failing_since: null,
      created_at: body.webhook.created_at,
    });
    t.strictSame((await call('GET', `/webhooks/${body.webhook.id}`)).body, { webhook: body.webhook });
    t.strictSame((await call('GET', '/webhooks')).body, { webhooks: [body.webhook] });
    const rotated = await call('POST', `/webhooks/${body.webhook.id}/rotate-secret`);
    t.equal(rotated.status, 200);
    t.match(rotated.body, { webhook: body.webhook, secret: /^whsec_/, previous_secret_valid_until: /Z$/ });
    const until = Date.parse(rotated.body.previous_secret_valid_until) - Date.now();
    t.ok(Math.abs(until - 86_400_000) < 10_000);
    await emit(node, account.id, 'email.queued');
    const tables = ['webhooks', 'webhook_deliveries', 'pgboss.job'];
    for (const table of tables) {
      const rows = await node.db.query<{ t: string }>({ text: `SELECT t::text FROM ${table} t` });
      // A job that a worker has taken is gone already.
      t.ok(rows.length > 0 || table === 'pgboss.job');
      for (const secret of [body.secret, rotated.body.secret]) {
        const raw = Buffer.from(secret.slice(6), 'base64');
        const dump = JSON.stringify(rows);
        for (const form of [secret, secret.slice(6), raw.toString('hex'), Buffer.from(secret).toString('hex')])
          t.notOk(dump.includes(form), `${table} does not hold it`);
      }
    }
  });

  t.test('accept every documented event, each once', async (t) => {
    const events = [...webhooks.eventTypes];
    const { status, body } = await call('POST', '/webhooks', {
      url: 'http://example.com/',
      events: [...events, ...events],
    });
    t.equal(status, 201);
    t.strictSame(body.webhook.events, events);
  });

  t.test('can be changed, and disabled and enabled by hand', async (t) => {
    const { body } = await call('POST', '/webhooks', { url: 'https://example.com/', events: all });
    const path = `/webhooks/${body.webhook.id}`;
    const change = async (fields: unknown) => (await call('PATCH', path, fields)).body.webhook;
    for (const nothing of [{}, { own: 'x' }])
      t.match(await call('PATCH', path, nothing), {
        status: 400,
        body: { error: 'invalid request', detail: 'url, events or status is required' },
      });
    t.strictSame(await change({ url: 'https://example.org/x' }), { ...body.webhook, url: 'https://example.org/x' });
    t.match(await change({ events: ['email.sent'] }), { events: ['email.sent'], url: 'https://example.org/x' });
    t.match(await change({ status: 'disabled' }), { status: 'disabled', disabled_reason: null });
    for (const [action, fields] of [
      [`${path}/test`, {}],
      [`${path}/replay`, { since: '2026-01-01T00:00:00Z' }],
    ] as const) {
      const refused = await call('POST', action, fields);
      t.match([refused.status, refused.body], [409, { error: 'conflict', detail: /disabled/ }], action);
    }
    const failing = { failingSince: new Date('2026-11-01T09:00:00Z'), disabledReason: 'the endpoint is gone' };
    await node.db.prisma.webhook.update({ where: { id: body.webhook.id }, data: failing });
    t.match((await call('GET', path)).body.webhook, {
      failing_since: '2026-11-01T09:00:00.000Z',
      disabled_reason: 'the endpoint is gone',
    });
    t.match(await change({ status: 'enabled' }), { status: 'enabled', failing_since: null, disabled_reason: null });
    const removed = await call('DELETE', path);
    t.strictSame([removed.status, removed.body], [200, { message: `webhook ${body.webhook.id} was removed` }]);
    t.equal((await call('GET', path)).status, 404);
    t.equal((await call('DELETE', path)).status, 404);
  });

  t.test('a bad request names the field', async (t) => {
    const url = 'https://example.com/';
    const made = (await call('POST', '/webhooks', { url, events: all })).body.webhook.id;
    for (const [body, detail] of [
      [{}, 'url: is required'],
      [{ url }, 'events: is required'],
      [{ url, events: [] }, 'events: must name at least one event'],
      [{ url, events: 'email.sent' }, 'events: must be an array'],
      [{ url, events: ['email.opened'] }, /^events\[0\]: must be one of email\.queued, /],
      [{ url, events: ['email.sent', 'webhook.test'] }, /^events\[1\]: must be one of/],
      [{ url: 7, events: all }, 'url: must be a string'],
      [{ url: '', events: all }, 'url: must not be empty'],
      [{ url: '/hook', events: all }, 'url: must be an absolute http or https address'],
      [{ url: 'example.com', events: all }, 'url: must be an absolute http or https address'],
      [{ url: 'ftp://example.com/', events: all }, 'url: must be an http or https address'],
      [{ url: 'https://a:b@example.com/', events: all }, 'url: must not contain a user name or a password'],
      [{ url: 'https://example.com:25/', events: all }, 'url: must not use port 25'],
      [{ url: 'https://exa\nmple.com/', events: all }, 'url: contains control characters'],
      [{ url: `https://example.com/${'x'.repeat(2_048)}`, events: all }, 'url: must have at most 2,048 characters'],
    ] as const) {
      const answer = await call('POST', '/webhooks', body);
      t.match(
        [answer.status, answer.body],
        [400, { error: 'invalid request', detail }],
        JSON.stringify(body).slice(0, 80),
      );
      if (!('url' in body) || !('events' in body)) continue;
      t.equal((await call('PATCH', `/webhooks/${made}`, body)).status, 400);
    }
    t.match(
      (await call('PATCH', `/webhooks/${made}`, { status: 'paused' })).body.detail,
      'status: must be one of enabled, disabled',
    );
    for (const [body, detail] of [
      [{}, 'since: is required'],
      [{ since: 'yesterday' }, /^since: must be an RFC 3339 timestamp/],
      [{ since: '2026-01-02T00:00:00Z', until: '2026-01-01T00:00:00Z' }, 'until: must be later than since'],
      [{ since: '2126-01-02T00:00:00Z' }, 'since: is in the future'],
    ] as const)
      t.match((await call('POST', `/webhooks/${made}/replay`, body)).body, { error: 'invalid request', detail });
    for (const [query, detail] of [
      ['webhook_id=x', 'webhook_id: must be an id'],
      ['email_id=1', 'email_id: must be an id'],
      ['event=opened', /^event: must be one of/],
      ['status=sent', /^status: must be one of/],
      ['limit=-1', /^limit: /],
      ['offset=x', /^offset: /],
      [`webhook_id=${made}&webhook_id=${made}`, 'webhook_id: may be given only once'],
    ] as const)
      t.match((await call('GET', `/webhook-deliveries?${query}`)).body, { error: 'invalid request', detail }, query);
  });

  t.test('an account may have twenty', async (t) => {
    const { call } = await logIn(node);
    const create = () => call('POST', '/webhooks', { url: 'https://example.com/', events: all });
    for (let count = 0; count < 20; count += 1) t.equal((await create()).status, 201);
    t.match((await create()).body, {
      error: 'invalid request',
      detail: 'an account may have at most 20 endpoints',
    });
    const list = async (query: string) => (await call('GET', `/webhooks${query}`)).body;
    const { webhooks: made } = await list('');
    t.equal(made.length, 20);
    t.strictSame(await list('?limit=3&offset=2'), { webhooks: made.slice(2, 5) });
  });

  t.test('belong to their account, and need a login', async (t) => {
    const hook = await startHook(t);
    const { body } = await call('POST', '/webhooks', { url: hook.url, events: all });
    const delivery = (await call('POST', `/webhooks/${body.webhook.id}/test`)).body.delivery.id;
    const other = await logIn(node);
    const key = await buildKey(node.db, account.id);
    const calls = [
      ...['GET', 'PATCH', 'DELETE'].map((method) => [method, `/webhooks/${body.webhook.id}`] as const),
      ...['test', 'rotate-secret', 'replay'].map(
        (action) => ['POST', `/webhooks/${body.webhook.id}/${action}`] as const,
      ),
      ['GET', `/webhook-deliveries/${delivery}`] as const,
      ['POST', `/webhook-deliveries/${delivery}/retry`] as const,
    ];
    for (const [method, path] of calls) {
      const change = method === 'PATCH' ? { status: 'disabled' } : undefined;
      const fields = path.endsWith('/replay') ? { since: '2026-01-01T00:00:00Z' } : change;
      const answer = await other.call(method, path, fields);
      t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], `${method} ${path}`);
      const unknown = path.replace(body.webhook.id, newId()).replace(delivery, newId());
      t.equal((await call(method, unknown, fields)).status, 404);
      t.equal((await call(method, path.replace(body.webhook.id, 'x').replace(delivery, '%00'), fields)).status, 404);
      for (const credentials of [{}, { key }, { token: key }])
        t.equal((await node.call(method, `/api/v1${path}`, { ...credentials, body: fields })).status, 401);
    }
    for (const path of ['/webhooks', '/webhook-deliveries'])
      t.equal((await node.call('GET', `/api/v1${path}`, { key })).status, 401);
    t.strictSame((await other.call('GET', '/webhooks')).body, { webhooks: [] });
    const filters = ['', `?webhook_id=${body.webhook.id}`];
    for (const filter of filters)
      t.strictSame((await other.call('GET', `/webhook-deliveries${filter}`)).body, {
        deliveries: [],
        count: 0,
        count_exact: true,
      });
    t.equal(hook.calls.length, 1);
  });
});

t.test('deliveries', async (t) => {
  const node = await startTestNode(t, { ALLOW_PRIVATE_NETWORKS: 'true' });

  t.test('a test call returns what the endpoint answered', async (t) => {
    const { call } = await logIn(node);
    const hook = await startHook(t, (_call, number) => (number === 0 ? { status: 200, body: 'hello' } : 500));
    const { body } = await call('POST', '/webhooks', { url: hook.url, events: ['email.failed'] });
    const good = await call('POST', `/webhooks/${body.webhook.id}/test`);
    t.match(good.body.delivery, {
      webhook_id: body.webhook.id,
      event: 'webhook.test',
      email_id: null,
      status: 'succeeded',
      next_attempt_at: null,
      attempts: [{ response_status: 200, response_body: 'hello', error: null, duration_ms: Number, at: /Z$/ }],
      payload: { type: 'webhook.test', created_at: /Z$/, data: { webhook_id: body.webhook.id } },
    });
    t.ok(hook.calls[0] && isSigned(hook.calls[0], body.secret));
    const bad = await call('POST', `/webhooks/${body.webhook.id}/test`);
    t.match(bad.body.delivery, { status: 'failed', next_attempt_at: null, attempts: [{ response_status: 500 }] });
    t.match((await call('GET', `/webhooks/${body.webhook.id}`)).body.webhook, { failing_since: null });
    t.equal(hook.calls.length, 2, 'a test is not repeated');
  });

  t.test(
    'an endpoint is tested by one call at a time, because each looks at the database until it is over',
    async (t) => {
      const { call } = await logIn(node);
      const other = await logIn(node);
      let answer: (status: number) => void = () => {};
      const answered = new Promise<number>((resolve) => {
        answer = resolve;
      });
      const slow = await startHook(t, () => answered);
      const quick = await startHook(t);
      const endpoint = async (url: string) => (await call('POST', '/webhooks', { url, events: all })).body.webhook.id;
      const id = await endpoint(slow.url);
      const first = call('POST', `/webhooks/${id}/test`);
      await eventually(async () => slow.calls.length === 1);
      for (const same of [id, id.toUpperCase()]) {
        const second = await call('POST', `/webhooks/${same}/test`);
        t.match([second.status, second.body], [409, { error: 'conflict', detail: /^a test .+ is under way/ }]);
      }
      t.equal((await other.call('POST', `/webhooks/${id}/test`)).status, 404, 'which nobody else is told');
      const beside = await call('POST', `/webhooks/${await endpoint(quick.url)}/test`);
      t.equal(beside.body.delivery.status, 'succeeded');
      answer(204);
      t.equal((await first).body.delivery.status, 'succeeded');
      t.equal(slow.calls.length, 1);
      t.equal((await call('POST', `/webhooks/${id}/test`)).body.delivery.status, 'succeeded');
    },
  );

  t.test('are listed with filters, and can be sent again', async (t) => {
    const { account, call } = await logIn(node);
    let status = 500;
    let mayAnswer = Promise.resolve();
    const hook = await startHook(t, async () => {
      await mayAnswer;
      return status;
    });
    const { body } = await call('POST', '/webhooks', { url: hook.url, events: ['email.sent', 'email.failed'] });
    const second = await call('POST', '/webhooks', { url: hook.url, events: ['email.sent'] });
    const emitting = emit(node, account.id, 'email.sent', 'email.failed', 'email.queued');
    const listed = async (query: string) => (await call('GET', `/webhook-deliveries?${query}`)).body;
    // They would be called again within five seconds, which may be too short for what follows on a busy machine.
    const putOff = `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'
                     WHERE account_id = $1 AND status = 'pending' AND attempt_count = 1 AND job_id IS NULL RETURNING id`;
    await eventually(async () => (await node.db.query({ text: putOff, values: [account.id] })).length === 3);
    t.equal(await emitting, 3);
    const first = await listed('');
    t.equal(first.count, 3);
    t.match(first.deliveries[0], {
      id: String,
      webhook_id: String,
      event: String,
      email_id: String,
      status: 'pending',
      error: null,
      attempts: [{ response_status: 500 }],
      next_attempt_at: /Z$/,
      created_at: /Z$/,
      recipient: 'a@one.test',
      subject: 'Grüße ✓',
    });
    t.notOk('payload' in first.deliveries[0]);
    const ids = first.deliveries.map(({ id }: { id: string }) => id);
    await node.db.query({
      text: `UPDATE webhook_deliveries SET payload = jsonb_set(payload::jsonb, '{data,recipients}', $2) WHERE id = $1`,
      values: [ids[0], JSON.stringify([{ address: 'b@two.test', status: 'failed', response: null }])],
    });
    t.match((await listed('limit=1')).deliveries, [{ recipient: 'b@two.test' }], 'the one that the event is about');
    t.strictSame(ids, ids.toSorted().reverse(), 'newest first');
    const emailId = first.deliveries.find(({ event }: { event: string }) => event === 'email.failed').email_id;
    for (const [query, count] of [
      [`webhook_id=${body.webhook.id}`, 2],
      [`webhook_id=${second.body.webhook.id}`, 1],
      [`webhook_id=${newId()}`, 0],
      ['event=email.sent', 2],
      ['event=webhook.test', 0],
      [`email_id=${emailId}`, 1],
      ['status=pending', 3],
      ['status=succeeded', 0],
      [`status=pending&event=email.failed&webhook_id=${body.webhook.id}`, 1],
    ] as const) {
      const page = await listed(query);
      t.strictSame([page.count, page.deliveries.length], [count, count], query);
    }
    const page = await listed('limit=1&offset=1');
    t.strictSame([page.deliveries.map(({ id }: { id: string }) => id), page.count], [[ids[1]], 3]);

    status = 200;
    const retried = Promise.withResolvers<void>();
    mayAnswer = retried.promise;
    const again = await call('POST', `/webhook-deliveries/${ids[0]}/retry`);
    t.match([again.status, again.body.delivery.status], [200, 'pending']);
    retried.resolve();
    const one = async (id: string) => (await call('GET', `/webhook-deliveries/${id}`)).body.delivery;
    const done = await eventually(async () => {
      const delivery = await one(ids[0]);
      return delivery.status === 'succeeded' && delivery;
    });
    t.match(done.attempts, [{ response_status: 500 }, { response_status: 200 }]);
    await call('POST', `/webhook-deliveries/${ids[0]}/retry`);
    await eventually(async () => (await one(ids[0])).attempts.length === 3);
    t.equal(hook.calls.filter(({ headers }) => headers['webhook-id'] === ids[0]).length, 3, 'under the same id');

    const { webhook_id: webhookId } = done;
    await call('DELETE', `/webhooks/${webhookId}`);
    const refused = await call('POST', `/webhook-deliveries/${ids[0]}/retry`);
    t.match([refused.status, refused.body], [409, { error: 'conflict', detail: /deleted/ }]);
    t.equal((await one(ids[0])).status, 'succeeded', 'the log outlives the endpoint');
  });

  t.test('a time range is replayed in limited steps, under the same ids', async (t) => {
    const { account, call } = await logIn(node);
    const hook = await startHook(t);
    const { body } = await call('POST', '/webhooks', { url: hook.url, events: ['email.sent'] });
    const id = body.webhook.id;
    await emit(node, account.id, 'email.sent', 'email.sent');
    await call('POST', `/webhooks/${id}/test`);
    await eventually(async () => (await call('GET', '/webhook-deliveries?status=succeeded')).body.count === 3);
    const replay = async (since: Date, until?: Date) =>
      (await call('POST', `/webhooks/${id}/replay`, { since, until })).body;
    const before = new Date(Date.now() - 600_000);
    t.strictSame(await replay(new Date(before.getTime() - 60_000), before), { count: 0, next_since: null });
    t.strictSame(await replay(before), { count: 2, next_since: null }, 'tests are left out');
    await eventually(async () => hook.calls.length === 5);
    t.equal(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size, 3);

    await node.db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, status)
             SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 1000000 + n / 7), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid,
                    $1, $2, 'email.sent', '{}', 'succeeded' FROM generate_series(1, 10100) n`,
      values: [account.id, id],
    });
    const since = new Date(Date.now() - 3_600_000);
    const until = new Date(Date.now() - 700_000);
    const first = await replay(since, until);
    t.ok(first.count >= 10_000 && first.count < 10_007, 'whole milliseconds');
    t.ok(Date.parse(first.next_since) > since.getTime());
    t.strictSame(await replay(new Date(first.next_since), until), { count: 10_100 - first.count, next_since: null });
    await call('DELETE', `/webhooks/${id}`);
  });

  t.test('a replay without an end goes to the newest delivery, whatever the clock of a node says', async (t) => {
    const truth = Date.now();
    mock.timers.enable({ apis: ['Date'], now: truth - 3_600_000 });
    t.teardown(() => mock.timers.reset());
    const { account, call } = await logIn(node);
    const { body } = await call('POST', '/webhooks', { url: 'https://example.com/', events: ['email.sent'] });
    const { id } = body.webhook;
    await node.db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, status)
             SELECT made, $1, $2, 'email.sent', '{}', 'succeeded' FROM unnest($3::uuid[]) made`,
      values: [account.id, id, [newId(new Date(truth)), newId(new Date(truth + 3_600_000))]],
    });
    const replay = (since: number) => call('POST', `/webhooks/${id}/replay`, { since: new Date(since) });
    t.match((await replay(truth - 60_000)).body, { count: 2, next_since: null });
    t.match((await replay(truth + 60_000)).body, { detail: 'since: is in the future' });
    await call('DELETE', `/webhooks/${id}`);
  });

  t.test('a replay also sends what waits for its next attempt, which keeps its place in the schedule', async (t) => {
    const { account, call } = await logIn(node);
    let status = 500;
    const hook = await startHook(t, async () => status);
    const { body } = await call('POST', '/webhooks', { url: hook.url, events: ['email.sent'] });
    await emit(node, account.id, 'email.sent', 'email.sent');
    // As after an outage of a day.
    const putOff = `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '12 hours', attempt_count = 7
                     WHERE account_id = $1 AND attempt_count > 0 AND job_id IS NULL RETURNING id`;
    await eventually(async () => (await node.db.query({ text: putOff, values: [account.id] })).length === 2);
    const missed = hook.calls.length;
    const since = new Date(Date.now() - 600_000);
    const replay = async () => (await call('POST', `/webhooks/${body.webhook.id}/replay`, { since })).body;
    t.strictSame(
      await replay(),
      { count: 2, next_since: null },
      'the endpoint was mended, and asks for what it missed',
    );
    const listed = async () => (await call('GET', '/webhook-deliveries')).body.deliveries;
    const failedAgain = await eventually(async () => {
      const deliveries = await listed();
      const isTried = ({ next_attempt_at: at }: { next_attempt_at: string }) =>
        Date.parse(at) > Date.now() + 13 * 3_600_000;
      return hook.calls.length === missed + 2 && deliveries.every(isTried) && deliveries;
    });
    t.equal(
      failedAgain.length,
      2,
      'it was not mended, so the next attempts are those of the schedule, after most of a day',
    );
    status = 200;
    t.strictSame(await replay(), { count: 2, next_since: null });
    await eventually(async () =>
      (await listed()).every((delivery: { status: string }) => delivery.status === 'succeeded'),
    );
    t.equal(hook.calls.length, missed + 4);
  });

  t.test('a delivery that is sent again by hand keeps its place in the schedule', async (t) => {
    const { account, call } = await logIn(node);
    const { body } = await call('POST', '/webhooks', { url: 'http://127.0.0.1:1024/', events: ['email.sent'] });
    const [id, webhookId] = [newId(), body.webhook.id];
    const queue = createQueue(node.databaseUrl, silentLog);
    await queue.start();
    t.teardown(() => queue.stop());
    const draft = {
      id,
      accountId: account.id,
      webhookId,
      emailId: null,
      event: 'email.sent',
      payload: '{}',
      woken: false,
    };
    await node.db.transaction((tx) => lines.insert(tx, queue, [draft]));
    await node.db.prisma.webhookDelivery.update({
      where: { id },
      data: { attemptCount: 4, nextAttemptAt: new Date(Date.now() + 3_600_000) },
    });
    await call('POST', `/webhook-deliveries/${id}/retry`);
    const tried = await eventually(async () => {
      const row = await node.db.prisma.webhookDelivery.findUniqueOrThrow({ where: { id } });
      return row.attemptCount === 5 && row;
    });
    const wait = (tried.nextAttemptAt?.getTime() ?? 0) - Date.now();
    t.ok(wait > 6_000_000 && wait < 8_000_000, 'its place in the schedule: two hours');
  });
});

t.test('without ALLOW_PRIVATE_NETWORKS internal addresses are refused at once: SSRF-01, SSRF-02', async (t) => {
  const zone = await startZone({ 'inside.test': { A: ['127.0.0.1'] } });
  t.teardown(() => zone.close());
  const node = await startTestNode(t, { DNS_SERVERS: zone.address });
  const { call } = await logIn(node);
  const made = (await call('POST', '/webhooks', { url: 'https://example.com/', events: all })).body.webhook;
  for (const host of [
    ...['127.0.0.1', '127.1', '2130706433', '017700000001', '0x7f000001', '①②⑦.⓪.⓪.①', '10.0.0.1', '169.254.169.254'],
    ...['[::1]', '[::ffff:127.0.0.1]', '[64:ff9b::a00:1]', '[fd00:ec2::254]', 'localhost', 'LOCALHOST.', 'x.localhost'],
  ]) {
    const url = `http://${host}:8080/`;
    for (const answer of [
      await call('POST', '/webhooks', { url, events: all }),
      await call('PATCH', `/webhooks/${made.id}`, { url }),
    ])
      t.match(
        [answer.status, answer.body],
        [400, { error: 'invalid request', detail: /^url: must be on the public internet/ }],
        host,
      );
  }
  t.strictSame((await call('GET', '/webhooks')).body.webhooks, [made]);

  const hook = await startHook(t);
  const url = hook.url.replace('127.0.0.1', 'inside.test');
  const named = (await call('POST', '/webhooks', { url, events: all })).body.webhook;
  const { delivery } = (await call('POST', `/webhooks/${named.id}/test`)).body;
  t.match(delivery, { status: 'failed', attempts: [{ error: 'the endpoint is not on the public internet' }] });
  t.equal(hook.calls.length, 0, 'a name of an internal address is not called');
});
