import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type EventType, type SendRequest, verifyWebhook } from 'sendwright/client';
import t from 'tap';
import { clientOf } from '../client/scene.ts';
import { type Hook, isSigned, type ReceivedCall, startHook } from '../support/hook.ts';
import { testKey } from '../support/keys.ts';
import { adminPassword, eventually, startTestNode } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { firstScreenOf } from '../support/start.ts';

/** Logs in, adds and verifies a domain, creates a key, and an endpoint for these events. */
async function prepare(app: { baseUrl: string }, url: string, events: EventType[]) {
  const admin = await clientOf(app).login('admin@example.test', adminPassword);
  const { domain } = await admin.domains.create({ domain: 'hooked.test' });
  await admin.domains.verify(domain.id);
  const { key } = await admin.keys.create({ name: 'hooked' });
  const { secret } = await admin.webhooks.create({ url, events });
  const { emails } = clientOf(app, { apiKey: key });
  const send = async (fields: Pick<SendRequest, 'to' | 'bcc' | 'tags'>) => {
    const { email } = await emails.send({ from: 'Shop <s@hooked.test>', subject: 'Hello', text: 'Hello', ...fields });
    return email;
  };
  return { admin, secret, send };
}

const about = (hook: Hook, emailId: string): ReceivedCall[] =>
  hook.calls.filter(({ json }) => json.data.email_id === emailId);

t.test('an endpoint gets the events of emails, without bodies or blind copies: WH-08', async (t) => {
  const node = await startTestNode(t, { ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8' });
  const hook = await startHook(t);
  const events: EventType[] = ['email.queued', 'email.delivered', 'email.failed', 'email.suppressed'];
  const { admin, secret, send } = await prepare(node, hook.url, events);

  const to = ['Ann <ann@customers.test>', 'ben@customers.test'];
  const good = await send({ to, bcc: 'audit@elsewhere.test' });
  const tags = ['order', 'customer:42'];
  const bad = await send({ to: 'bounced@customers.test', tags });
  await eventually(async () => about(hook, good.id).length === 2 && about(hook, bad.id).length === 2);
  const typesOf = (id: string) =>
    about(hook, id)
      .map(({ json }) => json.type)
      .sort();
  t.strictSame(typesOf(good.id), ['email.delivered', 'email.queued']);
  t.strictSame(typesOf(bad.id), ['email.failed', 'email.queued']);
  const byType = (id: string, type: string) => about(hook, id).find(({ json }) => json.type === type)?.json;
  t.strictSame(byType(good.id, 'email.queued'), {
    type: 'email.queued',
    created_at: byType(good.id, 'email.queued').created_at,
    data: {
      email_id: good.id,
      from: 'Shop <s@hooked.test>',
      to,
      subject: 'Hello',
      status: 'queued',
      created_at: good.created_at,
    },
  });
  t.match(byType(good.id, 'email.delivered'), { created_at: /Z$/, data: { status: 'delivered', to } });
  t.match(byType(bad.id, 'email.queued'), { data: { status: 'queued', tags } });
  t.match(byType(bad.id, 'email.failed'), { data: { status: 'failed', to: ['bounced@customers.test'], tags } });
  for (const call of hook.calls) {
    t.ok(isSigned(call, secret));
    t.strictSame(await verifyWebhook({ headers: call.headers, body: call.body, secret }), call.json);
    t.notMatch(JSON.stringify(call.json.data.to), /audit/);
    t.notMatch(call.body, /"text"|"html"/, 'no bodies');
  }
  const log = await eventually(async () => {
    const page = await admin.webhookDeliveries.list({ email_id: good.id });
    return page.deliveries.every(({ status }) => status === 'succeeded') && page;
  });
  t.equal(log.count, 2);
  t.equal(new Set(hook.calls.map(({ headers }) => headers['x-service-webhook-id'])).size, hook.calls.length);
});

t.test('a node without the role for webhooks calls nobody, a node with it does', async (t) => {
  const hook = await startHook(t);
  const env = {
    ALLOW_PRIVATE_NETWORKS: 'true',
    ENCRYPTION_KEY: testKey(7).toString('hex'),
  };
  const api = await startTestNode(t, { ...env, ROLES: 'api' });
  const { send } = await prepare(api, hook.url, ['email.queued']);
  const { id } = await send({ to: 'ann@customers.test' });
  await new Promise((resume) => setTimeout(resume, 300));
  t.equal(hook.calls.length, 0);
  await startTestNode(t, { ...env, ROLES: 'webhooks', DATABASE_URL: api.databaseUrl });
  await eventually(async () => about(hook, id).length === 1);
});

t.test('a call that kill -9 interrupts is made again, under the same id: WH-07', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sendwright webhooks '));
  // The folder of mkdtemp is closed to the user that PostgreSQL runs as.
  await chmod(dataDir, 0o755);
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  const hook = await startHook(t, (_call, number) => (number === 0 ? undefined : 200));
  const admin = { ADMIN_EMAIL: 'admin@example.test', ADMIN_PASSWORD: adminPassword };
  const env = { ...admin, DATA_DIR: dataDir, ALLOW_PRIVATE_NETWORKS: 'true' };
  const app = await startSendwright(env);
  const { send, admin: before } = await prepare(app, hook.url, ['email.queued']);
  const { id } = await send({ to: 'ann@customers.test' });
  await eventually(async () => hook.calls.length === 1);
  t.equal(await app.end('SIGKILL'), 'SIGKILL');
  await firstScreenOf(env, async (next) => {
    await eventually(async () => hook.calls.length === 2);
    const [first, second] = hook.calls;
    t.equal(second?.headers['webhook-id'], first?.headers['webhook-id']);
    t.equal(second?.body, first?.body);
    const { webhookDeliveries } = clientOf(next, { token: before.token });
    const delivery = await eventually(async () => {
      const [found] = (await webhookDeliveries.list({ email_id: id })).deliveries;
      return found?.status === 'succeeded' && found;
    });
    t.equal(delivery.attempts.length, 1, 'the interrupted one left no record');
  });
});
