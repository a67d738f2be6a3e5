import t from 'tap';
import { clientOf, failure } from '../client/scene.ts';
import { eventually, startTestNode } from '../support/node.ts';

t.test("a new user's first steps through the sandbox, with only the client", async (t) => {
  const node = await startTestNode(t);
  const admin = await clientOf(node).login('admin@example.test', node.adminPassword);

  const added = await admin.domains.create({ domain: 'Shop.Example.TEST' });
  t.match(added.domain, { domain: 'shop.example.test', status: 'pending', verified_at: null });
  t.match(added.dns_records, {
    verification: {
      name: '_sendwright.shop.example.test',
      type: 'TXT',
      value: /^sendwright-verification=[0-9a-f]{40}$/,
    },
    dkim: {
      name: `${added.domain.dkim_selector}._domainkey.shop.example.test`,
      type: 'TXT',
      value: /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]+$/,
    },
    spf: { name: 'shop.example.test', type: 'TXT', value: 'v=spf1 include:mail.sendwright.test ~all' },
  });

  const { key } = await admin.keys.create({ name: 'shop' });
  const shop = clientOf(node, { apiKey: key });
  const email = {
    from: 'Shop <orders@shop.example.test>',
    to: ['Ann <ann@customers.test>', 'bounced@customers.test'],
    bcc: 'audit@elsewhere.test',
    subject: 'Your order — ✓',
    html: '<p>Thank you, <b>Ann</b>.</p>',
    text: 'Thank you, Ann.',
  };
  const early = await failure(shop.emails.send(email));
  t.equal(early.status, 400);
  t.equal(early.error, 'from domain not verified');

  const verified = await admin.domains.verify(added.domain.id);
  t.equal(verified.domain.status, 'verified');

  const { findings } = await admin.admin.doctor.examine();
  const others = findings.filter(({ check }) => check === 'domain' || check === 'dmarc');
  t.equal(others.length, 4);
  for (const { health, subject } of others) t.equal(health, 'ok', `${subject}: recommended records are published, too`);

  const { email: sent } = await shop.emails.send(email);
  t.match(sent, {
    status: 'queued',
    from: email.from,
    to: email.to[0],
    subject: email.subject,
    type: 'transactional',
  });

  const settled = await eventually(async () => {
    const { email: now } = await shop.emails.get(sent.id);
    return now.status !== 'queued' && now;
  });
  t.equal(settled.status, 'failed', 'one of three was refused');
  t.match(settled.error, /^550 /);
  t.match(settled.recipients, [
    { address: 'ann@customers.test', kind: 'to', status: 'delivered', attempts: 1, next_attempt_at: null },
    { address: 'bounced@customers.test', kind: 'to', status: 'failed', last_response: /^550 5\.1\.1/ },
    { address: 'audit@elsewhere.test', kind: 'bcc', status: 'delivered' },
  ]);

  const { attempts } = await shop.emails.attempts(sent.id);
  t.equal(attempts.length, 3);
  const refused = attempts.find(({ recipient }) => recipient === 'bounced@customers.test');
  t.match(refused, {
    outcome: 'bounced',
    reply_code: 550,
    enhanced_code: '5.1.1',
    classification: 'bad_mailbox',
    phase: 'rcpt',
  });
  const accepted = attempts.find(({ recipient }) => recipient === 'ann@customers.test');
  t.match(accepted, {
    outcome: 'delivered',
    mx_host: 'mx.sandbox.test',
    tls_version: /^TLS/,
    reply_code: 250,
    uncertain: false,
  });

  const arrived = await eventually(async () => {
    const answer = await admin.sandbox.list();
    return answer.count === 2 && answer;
  });
  for (const message of arrived.messages) {
    t.match(message, {
      email_id: sent.id,
      subject: email.subject,
      from: 'orders@shop.example.test',
      raw_truncated: false,
    });
    t.match(message.dkim, [{ domain: 'shop.example.test', result: 'pass' }]);
    t.match(message.mail_from, /^bounces\+[a-z2-7]+@mail\.sendwright\.test$/);
    t.notMatch(message.raw, /audit@/, 'no header names the blind copy');
    t.notMatch(message.raw, /[^\r]\n/, 'lines end only in CRLF');
  }
  const [first] = arrived.messages;
  const { message: one } = await admin.sandbox.get(first?.id ?? '');
  t.strictSame(one, first);
});

t.test('a greylisted recipient is tried again and then delivered', async (t) => {
  const node = await startTestNode(t, { RETRY_SCHEDULE: '1h' });
  const admin = await clientOf(node).login('admin@example.test', node.adminPassword);
  const { domain } = await admin.domains.create({ domain: 'grey.test' });
  await admin.domains.verify(domain.id);
  const { key } = await admin.keys.create({ name: 'k' });
  const { emails } = clientOf(node, { apiKey: key });
  const { email: sent } = await emails.send({
    from: 'a@grey.test',
    to: 'deferred@customers.test',
    subject: 's',
    text: 't',
  });
  const deferred = await eventually(async () => {
    const { email } = await emails.get(sent.id);
    return email.recipients[0]?.status === 'deferred' && email;
  });
  t.equal(deferred.status, 'queued');
  t.match(deferred.recipients[0], { attempts: 1, last_response: /^451 4\.7\.1/, next_attempt_at: String });
  await node.db.query({
    text: `UPDATE recipients SET next_attempt_at = now() - interval '1 ms' WHERE status = 'deferred'`,
  });
  const delivered = await eventually(async () => {
    const { email } = await emails.get(sent.id);
    return email.status === 'sent' && email;
  });
  t.match(delivered.recipients[0], { status: 'delivered', attempts: 2, next_attempt_at: null });
  t.match(delivered.sent_at, /Z$/);
});
