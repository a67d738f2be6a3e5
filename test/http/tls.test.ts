import t, { type Test } from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

/** A sender, and a receiver in clear at `clear.test` and with a self-signed certificate at `tls.test`. */
async function start(t: Test) {
  const clear = await startSink({ host: '127.0.0.2' });
  const tls = await startSink({ tls: true, host: '127.0.0.3', port: clear.port });
  t.teardown(async () => {
    await clear.close();
    await tls.close();
  });
  const zone = { 'clear.test': { A: ['127.0.0.2'] }, 'tls.test': { A: ['127.0.0.3'] } };
  const env = { RETRY_SCHEDULE: '1h' };
  const node = await startDirectNode(t, { zone, mxPort: clear.port, env });
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const get = async (path: string) => (await node.call('GET', `/api/v1/emails/${path}`, { key: node.key })).body;
  /** Sends and waits for the first attempt. */
  const attempt = async (fields: Record<string, unknown>) => {
    const { id } = await node.send(fields);
    const [made] = await eventually(async () => {
      const { attempts } = await get(`${id}/attempts`);
      return attempts.length > 0 && attempts;
    });
    return { id, made };
  };
  return { node, token, get, attempt, clear, tls };
}

t.test('the tls setting of an email is obeyed, and shown', async (t) => {
  const { attempt, get, clear, tls } = await start(t);
  const plain = await attempt({ to: 'a@clear.test' });
  t.match(plain.made, { outcome: 'delivered', verification: 'none', tls_version: null });
  const encrypted = await attempt({ to: 'a@tls.test' });
  t.match(encrypted.made, { outcome: 'delivered', verification: 'opportunistic', tls_version: /^TLS/ });
  const required = await attempt({ to: 'a@tls.test', tls: 'required' });
  t.match(required.made, { outcome: 'delivered', verification: 'required' });

  const refused = await attempt({ to: 'a@clear.test', tls: 'required' });
  const noTls = 'clear.test does not offer TLS (STARTTLS): refused by the TLS setting of this email.';
  t.match(refused.made, {
    outcome: 'deferred',
    verification: 'required',
    phase: 'starttls',
    classification: 'protocol',
    reason: noTls,
  });
  const unverified = await attempt({ to: 'a@tls.test', tls: 'verified' });
  t.match(unverified.made, { outcome: 'deferred', verification: 'verified', reason: /SELF_SIGNED/ });
  t.equal(clear.messages.length, 1);
  t.equal(tls.messages.length, 2);

  const { recipients } = await eventually(async () => {
    const answer = await get(`${refused.id}/explain`);
    return answer.recipients[0].status === 'deferred' && answer;
  });
  t.match(recipients, [
    {
      cause: 'retrying',
      advice: /^The sending side demands this/,
      tls: { policy: 'required', source: 'the TLS setting of this email' },
    },
  ]);
  t.ok(recipients[0].tls.notes.includes('DANE is not checked: no validating resolver is configured.'));
  t.match((await get(`${plain.id}/explain`)).recipients, [{ tls: null }]);
});

t.test('the tls setting of a domain applies to all its mail, even if it is queued', async (t) => {
  const { node, token, attempt, get } = await start(t);
  const path = `/api/v1/domains/${node.domainId}`;
  t.match((await node.call('GET', path, { token })).body.domain, { tls: 'opportunistic' });
  const { id: scheduled } = await node.send({
    to: 'a@clear.test',
    scheduled_at: new Date(Date.now() + 3_600_000).toISOString(),
  });
  const changed = await node.call('PATCH', path, { token, body: { tls: 'required' } });
  t.match(changed, { status: 200, body: { domain: { id: node.domainId, tls: 'required' }, dns_records: {} } });
  const { made } = await attempt({ to: 'a@clear.test', tls: 'opportunistic' });
  t.match(made, {
    outcome: 'deferred',
    verification: 'required',
    reason: new RegExp(`TLS setting of ${node.domain}\\.$`),
  });
  const { made: more } = await attempt({ to: 'a@tls.test', tls: 'verified' });
  t.match(more, { outcome: 'deferred', verification: 'verified' }, 'the stricter one counts');
  const isDue = 'UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE email_id = $1';
  await node.db.query({ text: isDue, values: [scheduled] });
  const [later] = await eventually(async () => {
    const { attempts } = await get(`${scheduled}/attempts`);
    return attempts.length > 0 && attempts;
  });
  t.match(later, { outcome: 'deferred', verification: 'required' });

  for (const body of [{}, { tls: null }, { tls: 'none' }, { tls: 1 }]) {
    const answer = await node.call('PATCH', path, { token, body });
    t.match(answer, { status: 400, body: { error: 'invalid request', detail: /^tls: / } }, JSON.stringify(body));
  }
});

t.test('an invalid tls setting is refused, in a batch with its index', async (t) => {
  const { node } = await start(t);
  const email = { from: node.from, to: 'a@tls.test', subject: 's', text: 't', tls: 'maybe' };
  const single = await node.call('POST', '/api/v1/emails', { key: node.key, body: email });
  t.match(single, { status: 400, body: { detail: /^tls: must be one of opportunistic, required, verified/ } });
  const body = { emails: [{ ...email, tls: 'verified' }, email] };
  const batch = await node.call('POST', '/api/v1/emails/batch', { key: node.key, body });
  t.match(batch, { status: 400, body: { detail: /^emails\[1\]\.tls: / } });
});

t.test('SMG-07: an MTA-STS policy that another node has fetched is enforced', async (t) => {
  const { node, attempt, get, tls } = await start(t);
  await node.db.query({
    text: `INSERT INTO tls_policies (domain, policy_id, mode, mx, max_age_seconds, fetched_at, expires_at)
           VALUES ('tls.test', '1', 'enforce', '{tls.test}', 3600, now(), now() + interval '1 hour'),
                  ('clear.test', '1', 'enforce', '{mx.clear.test}', 3600, now(), now() + interval '1 hour')`,
  });
  const body = { from: node.from, to: ['a@tls.test', 'b@clear.test'], subject: 's', text: 't' };
  const dry = await node.call('POST', '/api/v1/emails?dry_run=true', { key: node.key, body });
  t.match(dry.body.destinations, [
    { tls: { policy: 'mta-sts', source: 'the MTA-STS policy of tls.test' }, hosts: [{ problem: null }], problem: null },
    { tls: { policy: 'mta-sts' }, hosts: [{ problem: /not a host that it names: the MTA-STS policy of clear\.test/ }] },
  ]);
  const { id, made } = await attempt({ to: 'a@tls.test' });
  t.match(made, {
    outcome: 'deferred',
    verification: 'mta-sts',
    reason: /no trusted authority.*: refused by the MTA-STS/,
  });
  t.equal(tls.messages.length, 0);
  const { recipients } = await eventually(async () => {
    const answer = await get(`${id}/explain`);
    return answer.recipients[0].status === 'deferred' && answer;
  });
  t.match(recipients, [{ tls: { policy: 'mta-sts' }, advice: /^The receiving domain demands this itself/ }]);
});

t.test('what a node has counted is written when it stops', async (t) => {
  const { node, attempt } = await start(t);
  await attempt({ to: 'a@tls.test' });
  const { databaseUrl } = node;
  await node.stop();
  const { connect } = await import('../../src/db/client.ts');
  const { silentLog } = await import('../../src/log.ts');
  const db = connect(databaseUrl, silentLog);
  t.teardown(() => db.close());
  t.match(await db.query({ text: 'SELECT domain, policy_type, result, sessions FROM tls_results' }), [
    { domain: 'tls.test', policy_type: 'no-policy-found', result: 'success', sessions: 1 },
  ]);
});
