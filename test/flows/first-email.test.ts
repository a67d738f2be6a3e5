import t from 'tap';
import { eventually, startTestNode } from '../support/node.ts';

t.test('the way of a new user through the sandbox, over HTTP alone', async (t) => {
  const node = await startTestNode(t);
  const login = await node.call('POST', '/api/v1/auth/login', {
    body: { email: 'admin@example.test', password: node.adminPassword },
  });
  const token = login.body.token;

  const added = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'Shop.Example.TEST' } });
  t.equal(added.status, 200);
  t.match(added.body.domain, { domain: 'shop.example.test', status: 'pending', verified_at: null });
  t.match(added.body.dns_records, {
    verification: {
      name: '_sendwright.shop.example.test',
      type: 'TXT',
      value: /^sendwright-verification=[0-9a-f]{40}$/,
    },
    dkim: {
      name: `${added.body.domain.dkim_selector}._domainkey.shop.example.test`,
      type: 'TXT',
      value: /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]+$/,
    },
    spf: { name: 'shop.example.test', type: 'TXT', value: 'v=spf1 include:mail.sendwright.test ~all' },
  });

  const key = (await node.call('POST', '/api/v1/keys', { token, body: { name: 'shop' } })).body.key;
  const email = {
    from: 'Shop <orders@shop.example.test>',
    to: ['Ann <ann@customers.test>', 'bounced@customers.test'],
    bcc: 'audit@elsewhere.test',
    subject: 'Your order — ✓',
    html: '<p>Thank you, <b>Ann</b>.</p>',
    text: 'Thank you, Ann.',
  };
  const early = await node.call('POST', '/api/v1/emails', { key, body: email });
  t.equal(early.status, 400);
  t.equal(early.body.error, 'from domain not verified');

  const verified = await node.call('POST', `/api/v1/domains/${added.body.domain.id}/verify`, { token });
  t.equal(verified.status, 200, JSON.stringify(verified.body));
  t.equal(verified.body.domain.status, 'verified');

  const sent = await node.call('POST', '/api/v1/emails', { key, body: email });
  t.equal(sent.status, 200);
  t.match(sent.body.email, {
    status: 'queued',
    from: email.from,
    to: email.to[0],
    subject: email.subject,
    type: 'transactional',
  });

  const settled = await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${sent.body.email.id}`, { key });
    return body.email.status !== 'queued' && body.email;
  });
  t.equal(settled.status, 'failed', 'one of three was refused');
  t.match(settled.error, /^550 /);
  t.match(settled.recipients, [
    { address: 'ann@customers.test', kind: 'to', status: 'delivered', attempts: 1, next_attempt_at: null },
    { address: 'bounced@customers.test', kind: 'to', status: 'failed', last_response: /^550 5\.1\.1/ },
    { address: 'audit@elsewhere.test', kind: 'bcc', status: 'delivered' },
  ]);

  const { body } = await node.call('GET', `/api/v1/emails/${sent.body.email.id}/attempts`, { key });
  t.equal(body.attempts.length, 3);
  const refused = body.attempts.find((entry: { recipient: string }) => entry.recipient === 'bounced@customers.test');
  t.match(refused, {
    outcome: 'bounced',
    reply_code: 550,
    enhanced_code: '5.1.1',
    classification: 'bad_mailbox',
    phase: 'rcpt',
  });
  const accepted = body.attempts.find((entry: { recipient: string }) => entry.recipient === 'ann@customers.test');
  t.match(accepted, {
    outcome: 'delivered',
    mx_host: 'mx.sandbox.test',
    tls_version: /^TLS/,
    reply_code: 250,
    uncertain: false,
  });

  const arrived = await eventually(async () => {
    const answer = await node.call('GET', '/api/v1/sandbox/messages', { token });
    return answer.body.count === 2 && answer.body;
  });
  for (const message of arrived.messages) {
    t.match(message, {
      email_id: sent.body.email.id,
      subject: email.subject,
      from: 'orders@shop.example.test',
      raw_truncated: false,
    });
    t.match(message.dkim, [{ domain: 'shop.example.test', result: 'pass' }]);
    t.match(message.mail_from, /^bounces\+[a-z2-7]+@mail\.sendwright\.test$/);
    t.notMatch(message.raw, /audit@/, 'the blind copy is named in no header');
    t.notMatch(message.raw, /[^\r]\n/, 'only CRLF ends a line');
  }
  const one = await node.call('GET', `/api/v1/sandbox/messages/${arrived.messages[0].id}`, { token });
  t.strictSame(one.body.message, arrived.messages[0]);
});

t.test('a greylisted recipient is tried again and then delivered', async (t) => {
  const node = await startTestNode(t, { RETRY_SCHEDULE: '1s' });
  const login = await node.call('POST', '/api/v1/auth/login', {
    body: { email: 'admin@example.test', password: node.adminPassword },
  });
  const token = login.body.token;
  const { body: added } = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'grey.test' } });
  await node.call('POST', `/api/v1/domains/${added.domain.id}/verify`, { token });
  const { body: created } = await node.call('POST', '/api/v1/keys', { token, body: { name: 'k' } });
  const { body: sent } = await node.call('POST', '/api/v1/emails', {
    key: created.key,
    body: { from: 'a@grey.test', to: 'deferred@customers.test', subject: 's', text: 't' },
  });
  const deferred = await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${sent.email.id}`, { key: created.key });
    return body.email.recipients[0].status === 'deferred' && body.email;
  });
  t.equal(deferred.status, 'queued');
  t.match(deferred.recipients[0], { attempts: 1, last_response: /^451 4\.7\.1/, next_attempt_at: String });
  const delivered = await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${sent.email.id}`, { key: created.key });
    return body.email.status === 'sent' && body.email;
  });
  t.match(delivered.recipients[0], { status: 'delivered', attempts: 2, next_attempt_at: null });
  t.match(delivered.sent_at, /Z$/);
});
