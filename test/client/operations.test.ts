import { readFileSync } from 'node:fs';
import { Sendwright } from 'sendwright/client';
import t from 'tap';
import { clientFiles } from '../../scripts/client-types.ts';
import { mismatch, operations } from '../support/contract.ts';

t.test('the generated files are up to date', async (t) => {
  for (const [path, made] of Object.entries(clientFiles())) {
    const there = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
    t.equal(there, made, `${path}: run npm run client-types`);
  }
});

const email = { from: 'Me <me@a.test>', to: ['b@c.test'], subject: 's', text: 't', attachments: [] };

/** A call of each method, with everything it accepts. */
const calls: ((client: Sendwright) => unknown)[] = [
  ({ emails }) => emails.send(email, { idempotencyKey: 'k' }),
  ({ emails }) => emails.sendBatch([email, { to: 'b@c.test', template: { alias: 'a', variables: { A: 1 } } }]),
  ({ emails }) => emails.dryRun(email),
  ({ emails }) => emails.list({ limit: 1, offset: 2, status: 'sent', created_after: '2026-11-21T00:00:00Z' }),
  ({ emails }) => emails.get('id'),
  ({ emails }) => emails.attempts('id'),
  ({ emails }) => emails.explain('id'),
  ({ emails }) => emails.cancel('id'),
  ({ emails }) => emails.content('id'),
  ({ emails }) => emails.resend('id', { recipients: ['b@c.test'] }),
  ({ emails }) => emails.release('id', { as: 'retry' }),
  ({ emails }) => emails.stop('id'),
  ({ emails }) => emails.stopMatching({ tag: 't' }),
  ({ emails }) => emails.reschedule('id', { scheduled_at: '2027-01-01T00:00:00Z' }),
  ({ stats }) => stats.get({ interval: 'hour', group_by: 'tag' }),
  ({ templates }) => templates.create({ name: 'n', html: '{{A}}', variables: [{ key: 'A', type: 'string' }] }),
  ({ templates }) => templates.list({ limit: 3, q: 'welcome' }),
  ({ templates }) => templates.get('id'),
  ({ templates }) => templates.update('id', { subject: null }),
  ({ templates }) => templates.remove('id'),
  ({ templates }) => templates.publish('id'),
  ({ templates }) => templates.render('id'),
  ({ suppressions }) => suppressions.list({ reason: 'manual' }),
  ({ suppressions }) => suppressions.add({ address: 'a@b.test' }),
  ({ suppressions }) => suppressions.import({ suppressions: [{ address: 'a@b.test' }] }),
  ({ suppressions }) => suppressions.export(),
  ({ suppressions }) => suppressions.remove('a@b.test'),
  ({ erasures }) => erasures.ask({ address: 'a@b.test', suppression: 'remove' }),
  ({ erasures }) => erasures.list({ address: 'a@b.test' }),
  ({ erasures }) => erasures.get('id'),
  ({ account }) => account.export({ attachments: 'referenced', webhook_deliveries: 'omitted' }),
  ({ domains }) => domains.create({ domain: 'a.test' }),
  ({ domains }) => domains.list({ limit: 2 }),
  ({ domains }) => domains.get('id'),
  ({ domains }) => domains.lookUp('id'),
  ({ domains }) => domains.remove('id'),
  ({ domains }) => domains.verify('id'),
  ({ domains }) => domains.change('id', { tls: 'required' }),
  ({ domains }) => domains.rotateDkim('id', { algorithm: 'ed25519' }),
  ({ domains }) => domains.removeDkimKey('id'),
  ({ keys }) => keys.create({ name: 'n', scopes: ['read'] }),
  ({ keys }) => keys.list({ offset: 1 }),
  ({ keys }) => keys.revoke('id'),
  ({ webhooks }) => webhooks.create({ url: 'https://a.test/', events: ['email.sent'] }),
  ({ webhooks }) => webhooks.list({ limit: 1, offset: 1 }),
  ({ webhooks }) => webhooks.get('id'),
  ({ webhooks }) => webhooks.update('id', { status: 'enabled' }),
  ({ webhooks }) => webhooks.remove('id'),
  ({ webhooks }) => webhooks.rotateSecret('id'),
  ({ webhooks }) => webhooks.test('id'),
  ({ webhooks }) => webhooks.replay('id', { since: '2026-11-21T00:00:00Z' }),
  ({ webhookDeliveries }) => webhookDeliveries.list({ event: 'webhook.test' }),
  ({ webhookDeliveries }) => webhookDeliveries.get('id'),
  ({ webhookDeliveries }) => webhookDeliveries.retry('id'),
  ({ admin }) => admin.accounts.create({ name: 'n', email: 'a@b.test' }),
  ({ admin }) => admin.accounts.list({ q: 'shop', webhooks: 'failing', sort: 'usage' }),
  ({ admin }) => admin.accounts.get('id'),
  ({ admin }) => admin.accounts.update('id', { suspended: true }),
  ({ admin }) => admin.accounts.addCredit('id', { amount: 1 }),
  ({ admin }) => admin.emails.list({ account_id: 'id' }),
  ({ admin }) => admin.destinations.list({ limit: 5 }),
  ({ admin }) => admin.destinations.pause('a.test'),
  ({ admin }) => admin.destinations.resume('GMX and WEB.DE'),
  ({ admin }) => admin.destinations.flush('a.test'),
  ({ admin }) => admin.destinations.waiting('a.test'),
  ({ admin }) => admin.destinations.stop('a.test', { reason: 'gone' }),
  ({ admin }) => admin.doctor.examine({ mx: 'mx.a.test' }),
  ({ sandbox }) => sandbox.list(),
  ({ sandbox }) => sandbox.get('id'),
  ({ service }) => service.isAlive(),
  ({ service }) => service.isReady(),
  ({ service }) => service.openApi(),
  ({ service }) => service.reference(),
  ({ service }) => service.welcome(),
  ({ service }) => service.unsubscribePage('token'),
  ({ service }) => service.unsubscribe('token'),
  ({ browser }) => browser.create({ email: 'a@b.test', password: 'password' }),
  ({ browser }) => browser.get(),
  ({ browser }) => browser.end(),
  (client) => client.login('a@b.test', 'password'),
  (client) => client.changePassword({ current_password: 'password', new_password: 'another password' }),
];

t.test('every operation is called by some method, as documented', async (t) => {
  const called = new Set<string>();
  const answers: unknown[] = [];
  const answering: typeof fetch = async (input, init) => {
    const url = new URL(String(input));
    const method = init?.method ?? 'GET';
    const found = operations.find((one) => one.method === method && one.pattern.test(url.pathname));
    if (!found) throw new Error(`there is no ${method} ${url.pathname}`);
    const { operationId, requestBody, parameters = [], responses, security } = found.operation;
    called.add(operationId);
    const names = parameters.flatMap((one) => (one.in === 'query' ? [one.name] : []));
    for (const name of url.searchParams.keys()) t.ok(names.includes(name), `${operationId} takes ${name}`);
    const schema = requestBody?.content['application/json']?.schema;
    if (schema) t.equal(mismatch(schema, JSON.parse(String(init?.body)), 'requests'), null, `${operationId}'s body`);
    else t.equal(init?.body, null, `${operationId} has no body`);
    const headers = new Headers(init?.headers);
    for (const one of security) {
      if (one.apiKey) t.equal(headers.get('x-api-key'), 'sk_live_x');
      if (one.login) t.equal(headers.get('authorization'), 'Bearer jwt');
    }
    const takesKey = parameters.some((one) => one.name === 'Idempotency-Key');
    t.equal(headers.has('idempotency-key'), takesKey, `${operationId}'s Idempotency-Key`);
    const [status, response] = Object.entries(responses).find(([code]) => code < '300') ?? ['500'];
    const [[type, media] = ['', undefined]] = Object.entries(response?.content ?? {});
    answers.push(media?.example);
    const body = type === 'application/json' ? JSON.stringify(media?.example) : String(media?.example);
    return new Response(body, { status: Number(status), headers: { 'Content-Type': type } });
  };
  const client = new Sendwright({ baseUrl: 'http://localhost', apiKey: 'sk_live_x', token: 'jwt', fetch: answering });
  for (const call of calls) {
    const answer = await call(client);
    if (!(answer instanceof Sendwright)) t.strictSame(answer, answers.at(-1), `${call}`);
  }
  const ids = operations.map(({ operation }) => operation.operationId).filter((id) => id !== 'watchEmails');
  t.strictSame([...called].sort(), ids.sort());
});
