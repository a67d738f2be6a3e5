import {
  type EmailEvent,
  type ReceivedWebhook,
  SendwrightError,
  verifyWebhook,
  type WebhookEvent,
} from 'sendwright/client';
import t from 'tap';
import { at, startMailer } from '../http/scene.ts';
import { startHook } from '../support/hook.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { checkedFetch, clientOf, failure } from './scene.ts';

t.test('sending: one email, the same again, and many', async (t) => {
  const { node, key, from } = await startMailer();
  const client = clientOf(node, { apiKey: key });
  const email = { from, to: 'a@b.test', subject: 's', text: 't' };

  const first = await client.emails.send(email, { idempotencyKey: 'order-1' });
  t.match(first.email, { id: String, status: 'queued', from, to: 'a@b.test' });
  t.strictSame(
    await client.emails.send(email, { idempotencyKey: 'order-1' }),
    first,
    'the same key gives the same email',
  );
  t.not((await client.emails.send(email)).email.id, first.email.id, 'without a key each call sends');
  t.match(await failure(client.emails.send({ ...email, subject: 'other' }, { idempotencyKey: 'order-1' })), {
    name: 'SendwrightError',
    status: 409,
    error: 'conflict',
    detail: /idempotency key/,
    attempts: 1,
  });
  t.match(await failure(client.emails.send({ ...email, to: ['a@b.test', 'x'] })), {
    status: 400,
    error: 'invalid request',
    detail: /^to\[1\]: /,
    requestId: /^[0-9a-f-]{36}$/,
  });

  const batch = await client.emails.sendBatch([email, { ...email, from: 'me@elsewhere.test' }, email]);
  t.match(batch, {
    count: 3,
    emails: [{ status: 'queued' }, {}],
    errors: [{ index: 1, error: 'from domain not verified' }],
  });
  t.match(await client.emails.dryRun(email), { dry_run: true, would: 'be_queued', message: { raw: /DKIM-Signature/ } });
  t.equal((await client.emails.list()).count, 4);
  t.match(await client.emails.explain(first.email.id), {
    email: { id: first.email.id },
    recipients: [{ cause: 'in_queue' }],
  });
  t.strictSame(await client.emails.attempts(first.email.id), { attempts: [] });
  t.match(await failure(clientOf(node).emails.send(email)), {
    status: 401,
    error: 'unauthorized',
    detail: /^the request has no credential: /,
  });
});

t.test('resending goes to the recipients that are named, and to all only if none is named', async (t) => {
  const { node, key, from } = await startMailer();
  const { emails } = clientOf(node, { apiKey: key });
  const { email } = await emails.send({ from, to: ['a@b.test', 'c@d.test'], subject: 's', text: 't' });
  t.equal((await emails.resend(email.id, { recipients: 'c@d.test' })).email.to, 'c@d.test');
  for (const recipients of ['', [], null] as unknown as string[])
    t.match(await failure(emails.resend(email.id, { recipients })), { status: 400, detail: /^recipients/ });
  t.equal((await emails.list()).count, 2);
  const all = await emails.resend(email.id, { idempotencyKey: 'k' });
  t.strictSame(await emails.resend(email.id, { idempotencyKey: 'k', ...({ recipients: undefined } as object) }), all);
  t.equal((await emails.get(all.email.id)).email.recipients.length, 2);
});

t.test('a page that does not exist is an error of the service', async (t) => {
  const { node } = await startMailer();
  const { service } = clientOf(node);
  for (const call of [service.unsubscribePage('nonsense'), service.unsubscribe('nonsense')])
    t.match(await failure(call), { status: 404, error: 'not found', attempts: 1 });
});

t.test('the whole log, page by page', async (t) => {
  const { node, key, from } = await startMailer();
  const pages: string[] = [];
  const counting: typeof fetch = (input, init) => {
    if (init?.method === 'GET') pages.push(new URL(String(input)).search);
    return checkedFetch(input, init);
  };
  const { emails } = clientOf(node, { apiKey: key, fetch: counting });
  const email = { from, to: 'a@b.test', text: 't', tags: ['news'] };
  const batch = await emails.sendBatch(Array.from({ length: 7 }, (_, index) => ({ ...email, subject: `${index}` })));
  await emails.send({ ...email, subject: 'other', tags: [] });

  const seen: string[] = [];
  for await (const one of emails.all({ tag: 'news', limit: 3 })) {
    // What is sent meanwhile does not move a page.
    if (seen.push(one.id) < 3) await emails.send({ ...email, subject: 'later' });
  }
  t.strictSame(seen, batch.emails.map(({ id }) => id).reverse());
  t.equal(pages.length, 3);
  t.match(pages[2], /limit=3&tag=news&cursor=/);

  pages.length = 0;
  for await (const one of emails.all({ limit: 3 })) if (one.subject) break;
  t.equal(pages.length, 1, 'pages that nobody asks for are not read');
  let count = 0;
  for await (const _ of emails.all()) count += 1;
  t.equal(count, 10);
  t.strictSame(pages.slice(1), ['?limit=100'], 'in large pages');
});

t.test('a scheduled email is moved, and canceled even if the answer is lost', async (t) => {
  const { node, key, from } = await startMailer();
  const client = clientOf(node, { apiKey: key });
  const email = { from, to: 'a@b.test', subject: 's', text: 't' };
  const { email: later } = await client.emails.send({ ...email, scheduled_at: at(3_600_000) });
  const moved = at(7_200_000);
  t.equal((await client.emails.reschedule(later.id, { scheduled_at: moved })).email.scheduled_at, moved);

  let losses = 1;
  const losing: typeof fetch = async (input, init) => {
    const response = await checkedFetch(input, init);
    if (init?.method === 'DELETE' && losses-- > 0) throw new TypeError('fetch failed');
    return response;
  };
  const unlucky = clientOf(node, { apiKey: key, fetch: losing });
  t.match(await unlucky.emails.cancel(later.id), { email: { id: later.id, status: 'canceled' } });
  t.match(await failure(client.emails.cancel(later.id)), { status: 409 }, 'canceling it again is a conflict');
  const { email: under } = await client.emails.send(email);
  losses = 1;
  t.match(
    await failure(unlucky.emails.cancel(under.id)),
    { status: 409, attempts: 2 },
    'and so is canceling mail on its way',
  );
});

t.test('templates', async (t) => {
  const { node, key, from } = await startMailer();
  const { templates, emails } = clientOf(node, { apiKey: key });
  const created = await templates.create({
    name: 'Hello',
    alias: 'hello',
    from,
    subject: 'Hi {{{NAME}}}',
    text: '{{NAME}}',
  });
  const { id } = created.template;
  t.equal(created.template.status, 'draft');
  t.match(await templates.update(id, { subject: 'Dear {{{NAME}}}' }), { template: { subject: 'Dear {{{NAME}}}' } });
  t.match(await templates.render(id, { variables: { NAME: 'Ann' } }), { subject: 'Dear Ann', text: 'Ann' });
  t.equal((await templates.publish(id)).template.status, 'published');
  const { email } = await emails.send({ to: 'a@b.test', template: { alias: 'hello', variables: { NAME: 'Ann' } } });
  t.equal(email.subject, 'Dear Ann');
  t.match(await templates.list(), { count: 1, templates: [{ id }] });
  t.match(await templates.get(id), { template: { id, has_unpublished_changes: false } });
  t.match(await templates.remove(id), { message: String });
  t.match(await failure(templates.get(id)), { status: 404, error: 'not found', detail: null });
});

t.test('what a login can manage', async (t) => {
  const node = await startTestNode(t, { ROLES: 'api' });
  const anyone = clientOf(node);
  t.strictSame(await anyone.service.isAlive(), { status: 'ok' });
  t.strictSame(await anyone.service.isReady(), { status: 'ready' });
  t.match(await anyone.service.openApi(), { openapi: '3.1.1' });
  t.match(await anyone.service.reference(), /^<!doctype html>/i);
  t.match(await failure(anyone.login('admin@example.test', 'wrong')), { status: 401, error: 'unauthorized' });
  const admin = await anyone.login('admin@example.test', node.adminPassword);
  t.match(admin.session, { user: { email: 'admin@example.test', role: 'admin' }, account: { plan: 'unlimited' } });
  t.notOk('token' in (admin.session ?? {}));

  const { domain, dns_records: records } = await admin.domains.create({ domain: 'shop.test' });
  t.equal(records.spf.name, 'shop.test');
  t.equal((await admin.domains.verify(domain.id)).domain.status, 'verified');
  const { key, api_key: made } = await admin.keys.create({ name: 'shop', domains: ['shop.test'] });
  const { email } = await clientOf(node, { apiKey: key }).emails.send({
    from: 'a@shop.test',
    to: 'b@c.test',
    subject: 's',
    html: 'h',
  });
  t.match((await admin.keys.revoke(made.id)).api_key.revoked_at, /Z$/);
  t.match(await admin.stats.get(), { interval: 'day', buckets: [{ accepted: 1 }] });

  for (const address of ["o'neil/x%20?#&=@b.test", 'a+b@c.test']) {
    t.equal((await admin.suppressions.add({ address })).suppression.address, address);
    await admin.suppressions.remove(address);
  }
  t.equal((await admin.suppressions.list()).count, 0, 'whatever characters an address has');

  const customer = await admin.admin.accounts.create({ name: 'Customer', email: 'c@customer.test', plan: 'pro' });
  t.equal((await admin.admin.accounts.addCredit(customer.account.id, { amount: 25 })).account.credit, '25.00');
  const member = await anyone.login('c@customer.test', customer.user.password ?? '');
  t.strictSame((await member.emails.list()).emails, [], 'only their own');
  t.match(await failure(member.admin.accounts.list()), { status: 403, error: 'forbidden' });
  const all: string[] = [];
  for await (const one of admin.admin.emails.all()) all.push(one.id);
  t.strictSame(all, [email.id]);
});

t.test('a webhook, from the dispatcher to verifyWebhook', async (t) => {
  const node = await startTestNode(t, { ALLOW_PRIVATE_NETWORKS: 'true' });
  const admin = await clientOf(node).login('admin@example.test', node.adminPassword);
  const secrets: string[] = [];
  const received: (WebhookEvent | SendwrightError)[] = [];
  const calls: Omit<ReceivedWebhook, 'secret'>[] = [];
  const hook = await startHook(t, async ({ headers, body }) => {
    calls.push({ headers, body });
    try {
      received.push(await verifyWebhook({ headers, body, secret: secrets }));
      return 200;
    } catch (error) {
      received.push(error as SendwrightError);
      return 400;
    }
  });
  const { webhook, secret } = await admin.webhooks.create({
    url: hook.url,
    events: ['email.delivered', 'email.failed'],
  });
  secrets.push(secret);

  const tested = await admin.webhooks.test(webhook.id);
  t.equal(tested.delivery.status, 'succeeded');
  t.strictSame(received, [calls[0] && JSON.parse(String(calls[0].body))]);
  t.match(received, [{ type: 'webhook.test', created_at: /Z$/, data: { webhook_id: webhook.id, message: String } }]);

  const { domain } = await admin.domains.create({ domain: 'hooked.test' });
  await admin.domains.verify(domain.id);
  const { key } = await admin.keys.create({ name: 'k' });
  const { email } = await clientOf(node, { apiKey: key }).emails.send({
    from: 'Shop <s@hooked.test>',
    to: ['a@customers.test'],
    subject: 'Grüße ✓',
    text: 't',
  });
  await eventually(async () => received.length === 2, 60_000);
  const { data } = received[1] as EmailEvent;
  t.match(data, { email_id: email.id, subject: 'Grüße ✓', status: 'delivered' });

  const rotated = await admin.webhooks.rotateSecret(webhook.id);
  t.not(rotated.secret, secret);
  await admin.webhooks.test(webhook.id);
  const [, , both] = calls;
  t.equal(String(both?.headers['x-service-webhook-signature' as never]).split(' ').length, 2);
  for (const one of [secret, rotated.secret])
    t.match(await verifyWebhook({ ...both, secret: one } as ReceivedWebhook), { type: 'webhook.test' });

  const standard = (name: string) => name.startsWith('webhook-');
  const only = (keep: (name: string) => boolean) =>
    Object.fromEntries(Object.entries(both?.headers ?? {}).filter(([name]) => keep(name))) as Record<string, string>;
  const body = both?.body ?? '';
  for (const headers of [only(standard), only((name) => !standard(name))])
    t.match(
      await verifyWebhook({ headers, body, secret: rotated.secret }),
      { type: 'webhook.test' },
      'each scheme on its own',
    );
  secrets[0] = 'whsec_AAAA';
  t.match((await admin.webhooks.test(webhook.id)).delivery, { status: 'failed', attempts: [{ response_status: 400 }] });
  t.ok(received.at(-1) instanceof SendwrightError);
});
