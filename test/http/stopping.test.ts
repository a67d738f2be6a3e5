import { pino } from 'pino';
import t from 'tap';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { buildKey, buildSender } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { testKey } from '../support/keys.ts';
import { untilOneWaits } from '../support/locks.ts';
import { startSink } from '../support/mx.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';

t.test('an email that waits for another attempt can be given up', async (t) => {
  let letGo = () => {};
  const held = new Promise<void>((resolve) => (letGo = resolve));
  const sink = await startSink({
    onRecipient: (address) => (address.startsWith('busy') ? '451 4.7.1 later' : null),
    onMessage: async ({ to }) => {
      if (to[0]?.startsWith('slow')) await held;
      return null;
    },
  });
  t.teardown(() => sink.close());
  const zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'other.test': { A: ['127.0.0.1'] } };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env: { RETRY_SCHEDULE: '1h' } });
  const hook = await startHook(t);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const endpoint = { url: hook.url, events: ['email.failed'] };
  t.equal((await node.call('POST', '/api/v1/webhooks', { token, body: endpoint })).status, 201);
  const stop = (id: string, body?: object) =>
    node.call('POST', `/api/v1/emails/${id}/stop`, { key: node.key, ...(body && { body }) });
  const statuses = async (id: string) =>
    (await node.read(id)).recipients.map(({ status }: { status: string }) => status);

  const waiting = await node.send({ to: ['fine@receiver.test', 'busy@receiver.test', 'busy@other.test'] });
  await eventually(async () => String(await statuses(waiting.id)) === 'delivered,deferred,deferred');
  t.match(await stop(waiting.id), {
    status: 200,
    body: {
      stopped: 2,
      in_hand: 0,
      email: { id: waiting.id, status: 'failed', error: /^stopped before it was delivered/ },
    },
  });
  t.strictSame(await statuses(waiting.id), ['delivered', 'failed', 'failed']);
  const { recipients } = (await node.call('GET', `/api/v1/emails/${waiting.id}/explain`, { key: node.key })).body;
  t.match(recipients[1], {
    sentence: /^Tried once and stopped before it was delivered/,
    advice: null,
    next_attempt_at: null,
  });
  await eventually(async () => hook.calls.length === 1);
  t.match(hook.calls[0]?.json, { type: 'email.failed', data: { email_id: waiting.id, recipients: { length: 2 } } });
  t.match(await stop(waiting.id), { status: 409, body: { detail: 'no recipient of the email is waiting any more' } });
  t.equal((await node.call('GET', '/api/v1/suppressions', { token })).body.count, 0, 'their addresses are good');

  const slow = await node.send({ to: ['slow@receiver.test', 'busy@other.test'] });
  await eventually(async () => String(await statuses(slow.id)).endsWith('deferred'));
  await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${slow.id}/explain`, { key: node.key });
    return body.recipients[0].cause === 'being_delivered';
  });
  t.match(await stop(slow.id), { body: { stopped: 1, in_hand: 1, email: { status: 'queued' } } });
  t.match(await stop(slow.id), { status: 409, body: { detail: /being delivered at this moment/ } });
  letGo();
  await eventually(async () => String(await statuses(slow.id)) === 'delivered,failed');

  const at = new Date(Date.now() + 3_600_000).toISOString();
  const later = await node.send({ to: 'fine@receiver.test', scheduled_at: at });
  t.match(await stop(later.id), { status: 409, body: { detail: /DELETE \/api\/v1\/emails\/:id cancels it$/ } });
  const doubted = await node.send({ to: 'busy@receiver.test' });
  await eventually(async () => String(await statuses(doubted.id)) === 'deferred');
  await node.db.query({
    text: 'UPDATE recipients SET waiting_for = $2, next_attempt_at = $3 WHERE email_id = $1',
    values: [doubted.id, heldNote, pausedUntil],
  });
  t.match(await stop(doubted.id), { status: 409, body: { detail: /with POST \/api\/v1\/emails\/:id\/release$/ } });
  t.match(await stop(later.id, { to: 'x@y.test' }), { status: 400 });
  t.equal((await stop(newId())).status, 404);
});

t.test('all waiting emails that match are stopped', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const encryptionKey = testKey(4);
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') }, { log });
  const { account, key, domain, from } = await buildSender(node.db, encryptionKey);
  const stranger = await buildSender(node.db, encryptionKey);
  const { token, user } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  const accountId = account.id;
  await node.db.prisma.webhook.create({
    data: { id: newId(), accountId, url: 'https://a.test/', events: ['email.failed'], secret: Buffer.of(0) },
  });
  const send = async (fields: object, by: { key: string; from: string } = { key, from }): Promise<string> => {
    const body = { from: by.from, to: ['a@b.test', 'c@d.test'], subject: 's', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key: by.key, body })).body.email.id;
  };
  const read = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email;
  const stop = (body: object, credential: object = { key }) =>
    node.call('POST', '/api/v1/emails/stop', { ...credential, body });

  const leaked = await buildKey(node.db, account.id);
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const own = await send({ tags: ['receipt'] });
  const spam = await send({ tags: ['win'] }, { key: leaked, from });
  const later = await send({ tags: ['win'], scheduled_at: at }, { key: leaked, from });
  const theirs = await send({ tags: ['win'] }, stranger);
  const { api_key_id } = await read(spam);
  t.strictSame((await stop({ tag: 'win' }, { key: stranger.key })).body, {
    stopped: 2,
    canceled: 0,
    in_hand: 0,
    held: 0,
    rest_waits: false,
  });
  t.match((await node.call('GET', `/api/v1/emails/${theirs}`, { key: stranger.key })).body.email, { status: 'failed' });
  t.match([(await read(own)).status, (await read(spam)).status], ['queued', 'queued'], 'of their account alone');

  for (const [body, detail] of [
    [{}, /^type, tag, .*: at least one is required, to say which emails$/],
    [{ tag: 'win', statsu: 'queued' }, /^statsu: is not a field of this call, which takes type, tag, /],
    [{ tag: 'win', status: 'queued' }, /^status: is not a field of this call/],
    [{ api_key_id: 'shop' }, /^api_key_id: must be the id of an API key/],
    [{ to: 'd.test' }, /^to: must be an address, or @ and a domain/],
    [{ to: '@' }, /^to: must be an address, or @ and a domain/],
    [{ to: 'a@' }, /^to: must be an address, or @ and a domain/],
    [{ from: 'news@' }, /^from: must be a whole address; domain takes/],
    [{ from: domain }, /^from: must be a whole address; domain takes/],
    [{ from: `@${domain}` }, /^from: must be a whole address; domain takes/],
    [{ domain: `@${domain}` }, /^domain: must be a sender domain, without @/],
    [{ tag: '' }, /^tag: must not be empty/],
    [{ tag: null }, /^tag: must be a string/],
    [[], /object/],
  ] as const)
    t.match(await stop(body), { status: 400, body: { error: 'invalid request', detail } }, JSON.stringify(body));
  t.match(await stop({ api_key_id }, { key: stranger.key }), {
    status: 400,
    body: { error: 'invalid request', detail: 'api_key_id: this account has no such key' },
  });
  const reader = await buildKey(node.db, account.id, { scopes: ['read'] });
  t.match(await stop({ api_key_id }, { key: reader }), { status: 403 });
  const restricted = await buildKey(node.db, account.id, { domains: [domain] });
  t.match(await stop({ api_key_id }, { key: restricted }), { status: 403 });
  t.match([(await read(spam)).status, (await read(later)).status], ['queued', 'queued'], 'nothing was stopped');

  t.match(await stop({ api_key_id }, { token }), { status: 200, body: { stopped: 2, canceled: 1 } });
  t.match(await read(spam), { status: 'failed', error: 'stopped before it was delivered, as was asked for' });
  t.match(await read(later), { status: 'canceled', recipients: [{ status: 'canceled' }, { status: 'canceled' }] });
  t.match(await read(own), { status: 'queued' });
  t.match(await node.db.prisma.webhookDelivery.findMany({ where: { accountId } }), [{ event: 'email.failed' }]);
  const [, said] = lines.filter(({ msg }) => msg === 'waiting mail of an account was stopped');
  t.match(said, { account: account.id, by: user.id, fields: ['api_key_id'], stopped: 2, canceled: 1 });
});

t.test('many calls at once of one account that stop mail leave connections to the others', async (t) => {
  const encryptionKey = testKey(4);
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { key, from } = await buildSender(node.db, encryptionKey);
  const stranger = await buildSender(node.db, encryptionKey);
  const send = (by: { key: string; from: string }) =>
    node.call('POST', '/api/v1/emails', {
      key: by.key,
      body: { from: by.from, to: 'a@b.test', subject: 's', text: 't', tags: ['win'] },
    });
  const { id } = (await send({ key, from })).body.email;
  let stops: Promise<{ status: number }[]> = Promise.resolve([]);
  await node.db.transaction(async (tx) => {
    await tx.query({ text: 'SELECT FROM recipients WHERE email_id = $1 FOR UPDATE', values: [id] });
    const stop = () => node.call('POST', '/api/v1/emails/stop', { key, body: { tag: 'win' } });
    stops = Promise.all(Array.from({ length: 30 }, stop));
    await untilOneWaits(node.db);
    t.match(await send(stranger), { status: 200 }, 'another account sends meanwhile');
  });
  t.strictSame([...new Set((await stops).map(({ status }) => status))], [200]);
});

t.test('an operator gives up what waits for a domain that is gone', async (t) => {
  const sink = await startSink({ onRecipient: () => '451 4.7.1 later' });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: { 'gone.test': { A: ['127.0.0.1'] }, 'fine.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { RETRY_SCHEDULE: '1h' },
  });
  const hook = await startHook(t);
  const { token: owners } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const endpoint = { url: hook.url, events: ['email.failed'] };
  t.equal((await node.call('POST', '/api/v1/webhooks', { token: owners, body: endpoint })).status, 201);
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const ask = (method: string, what: string, body?: object) =>
    node.call(method, `/api/v1/admin/destinations/${what}`, { token, ...(body && { body }) });

  const { id } = await node.send({ to: ['ann@gone.test', 'ann@fine.test', 'bob@gone.test'] });
  await eventually(async () => (await ask('GET', 'gone.test/waiting')).body.waiting === 2);
  await eventually(async () =>
    (await node.read(id)).recipients.every(({ status }: { status: string }) => status === 'deferred'),
  );
  t.strictSame((await ask('GET', 'gone.test/waiting')).body, { domain: 'gone.test', waiting: 2, in_hand: 0, held: 0 });
  t.match(await ask('POST', 'gone.test/stop', { reason: 'gone\nX: y' }), {
    status: 400,
    body: { detail: /^reason: / },
  });
  t.match(await ask('POST', 'Some%20provider/stop'), { status: 404 });
  const given = { domain: 'gone.test', stopped: 2, in_hand: 0, held: 0, rest_waits: false };
  t.strictSame((await ask('POST', 'gone.test/stop', { reason: 'the domain is gone' })).body, given);
  const statuses = (await node.read(id)).recipients.map(({ status }: { status: string }) => status);
  t.strictSame(statuses, ['failed', 'deferred', 'failed']);
  const { recipients } = (await node.call('GET', `/api/v1/emails/${id}/explain`, { key: node.key })).body;
  t.match(recipients[0], {
    sentence:
      /^Tried once and stopped before it was delivered, as an operator decided for all mail to gone\.test: the domain is gone/,
    advice: null,
    next_attempt_at: null,
  });
  t.match(await ask('POST', 'fine.test/stop'), { status: 200, body: { stopped: 1 } });
  await eventually(async () => hook.calls.length === 1);
  t.match(hook.calls[0]?.json, { type: 'email.failed', data: { email_id: id, recipients: { length: 3 } } });
});

t.test('the line of the log about what an operator gave up names the request', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const node = await startTestNode(t, {}, { log });
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const { headers } = await node.call('POST', '/api/v1/admin/destinations/gone.test/stop', { token });
  const said = lines.find(({ msg }) => msg === 'an operator gave up the mail that waited for a domain');
  t.match(said, { domain: 'gone.test', requestId: headers.get('x-request-id') });
});

t.test('what was given up before an error is logged, with who gave it up', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const encryptionKey = testKey(3);
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') }, { log });
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token, user } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const at = new Date(Date.now() + 3_600_000);
  await scheduleMany(node.db, await buildSender(node.db, encryptionKey), { emails: 700, to: 'gone.test', at });
  await node.db.query({ text: `UPDATE recipients SET attempts = 1, status = 'deferred'` });
  await node.db.query({
    text: `CREATE FUNCTION fail_later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF EXISTS (SELECT FROM recipients WHERE status = 'failed') THEN RAISE 'it broke'; END IF; RETURN NULL; END $$`,
  });
  await node.db.query({
    text: 'CREATE TRIGGER fail_later BEFORE UPDATE ON recipients FOR EACH STATEMENT EXECUTE FUNCTION fail_later()',
  });
  const stop = () =>
    node.call('POST', '/api/v1/admin/destinations/gone.test/stop', { token, body: { reason: 'it is gone' } });
  const said = () => lines.filter(({ domain }) => domain !== undefined);
  t.equal((await stop()).status, 500);
  const done = { domain: 'gone.test', stopped: 500, reason: 'it is gone', by: user.id };
  t.match(said(), [{ level: 40, ...done, msg: /^an operator gave up mail .* an error ended it/ }]);
  t.equal((await stop()).status, 500);
  t.equal(said().length, 1, 'nothing was done');
  await node.db.query({ text: 'DROP TRIGGER fail_later ON recipients' });
  t.match(await stop(), { status: 200, body: { stopped: 200 } });
  t.match(said()[1], { level: 30, ...done, stopped: 200 });
});
