import { mock } from 'node:test';
import t from 'tap';
import * as accounts from '../../src/core/accounts/accounts.ts';
import { connect } from '../../src/db/client.ts';
import { accountLines } from '../../src/http/account-lines.ts';
import { silentLog } from '../../src/log.ts';
import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { dayLasting } from '../support/midnight.ts';
import { startSink } from '../support/mx.ts';
import { adminPassword, eventually, startTestNode } from '../support/node.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

t.test(
  'attempts and the standing of sites have the time of the database, whatever the clock of the node says',
  async (t) => {
    const sink = await startSink();
    t.teardown(() => sink.close());
    const truth = Date.now();
    mock.timers.enable({ apis: ['Date'], now: truth - 2 * hourMs });
    t.teardown(() => mock.timers.reset());
    const zone = {
      'receiver.test': { A: ['127.0.0.1'] },
      'dead.test': { MX: [[10, 'mx.dead.test']] as [number, string][] },
      'mx.dead.test': { A: ['127.0.0.77'] },
    };
    const node = await startDirectNode(t, { zone, mxPort: sink.port, env: { RETRY_SCHEDULE: '1m' } });
    const isTrue = (text: string, aheadMs = 0) => Math.abs(Date.parse(text) - truth - aheadMs) < hourMs / 2;
    const sent = await node.send({ to: ['a@receiver.test', 'b@dead.test'] });
    const attempts = await eventually(async () => {
      const { body } = await node.call('GET', `/api/v1/emails/${sent.id}/attempts`, { key: node.key });
      return body.attempts.length === 2 && body.attempts;
    });
    t.strictSame(attempts.map(({ outcome }: { outcome: string }) => outcome).sort(), ['deferred', 'delivered']);
    for (const { at } of attempts) t.ok(isTrue(at), at);

    const unsent = await node.send({ to: 'c@receiver.test', scheduled_at: new Date(truth + 60_000).toISOString() });
    await node.db.prisma.domain.delete({ where: { id: node.domainId } });
    await node.db.query({
      text: 'UPDATE recipients SET next_attempt_at = now() WHERE email_id = $1',
      values: [unsent.id],
    });
    const [refused] = await eventually(async () => {
      const { body } = await node.call('GET', `/api/v1/emails/${unsent.id}/attempts`, { key: node.key });
      return body.attempts.length === 1 && body.attempts;
    });
    t.match(refused, { phase: 'local', outcome: 'bounced' });
    t.ok(isTrue(refused.at), 'also if no server was asked');

    const login = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
    const sites = await eventually(async () => {
      const { body } = await node.call('GET', '/api/v1/admin/destinations', { token });
      const known = new Map<string, Record<string, string>>(
        body.destinations.map((one: { site: string }) => [one.site, one]),
      );
      return known.get('receiver.test')?.last_success_at && known.get('dead.test')?.last_reply ? known : null;
    });
    t.ok(isTrue(sites.get('receiver.test')?.last_success_at ?? ''));
    t.match(sites.get('dead.test'), { state: 'backing_off' });
    t.ok(isTrue(sites.get('dead.test')?.backoff_until ?? ''));
    await node.stop();
    const later = connect(node.databaseUrl, silentLog, 2);
    t.teardown(() => later.close());
    const arrived = await later.prisma.destinationDelivery.findMany();
    t.match(arrived, [{ name: 'receiver.test' }], 'a node notes at its end where mail has arrived');
    t.ok(isTrue(arrived[0]?.lastDeliveredAt.toISOString() ?? ''));
  },
);

t.test(
  'policies, days and forecasts are those of the database, too, on a node whose clock is days ahead',
  async (t) => {
    const sink = await startSink();
    t.teardown(() => sink.close());
    const url = await createDatabase();
    const db = connect(url, silentLog, 2);
    t.teardown(() => db.close());
    const truth = Date.now();
    const today = new Date(truth).toISOString().slice(0, 10);
    const yesterday = new Date(truth - dayMs).toISOString().slice(0, 10);
    mock.timers.enable({ apis: ['Date'], now: truth + 2 * dayMs });
    t.teardown(() => mock.timers.reset());
    const zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'strict.test': { A: ['127.0.0.1'] } };
    const env = { DATABASE_URL: url, WARM_UP: `127.0.0.1=${yesterday}`, RETRY_SCHEDULE: '1h' };
    const node = await startDirectNode(t, { zone, mxPort: sink.port, env });
    const isTrue = (text: string) => Math.abs(Date.parse(text) - truth) < hourMs / 2;

    await db.query({
      text: `INSERT INTO tls_policies (domain, policy_id, mode, mx, max_age_seconds, fetched_at, expires_at)
             VALUES ('strict.test', '1', 'enforce', '{strict.test}', 86400, now(), now() + interval '1 day')`,
    });
    const body = { from: node.from, to: ['a@strict.test'], subject: 's', text: 't' };
    const dry = (await node.call('POST', '/api/v1/emails?dry_run=true', { key: node.key, body })).body;
    t.match(dry.destinations[0].tls, { source: /MTA-STS/ }, 'the policy holds until it expires');
    t.ok(isTrue(/^Date: (.*)\r$/m.exec(dry.message.raw)?.[1] ?? ''), 'the date of the message');
    t.match(dry.source.notes, [/is on day 2 of its warm-up/]);
    const withoutLease = { ...directEnv(node.zone, sink.port), DATABASE_URL: url, ROLES: 'api' };
    const api = await startTestNode(t, { ...withoutLease, ENCRYPTION_KEY: testKey(7).toString('hex') });
    const there = (await api.call('POST', '/api/v1/emails?dry_run=true', { key: node.key, body })).body;
    t.match(there.destinations[0].tls, { source: /MTA-STS/ }, 'also on a node without a lease');

    const later = await node.send({ to: 'b@receiver.test', scheduled_at: new Date(truth + 3 * dayMs).toISOString() });
    const inAnHour = [later.id, new Date(truth + hourMs)];
    await db.query({ text: 'UPDATE emails SET scheduled_at = $2 WHERE id = $1', values: inAnHour });
    await db.query({ text: 'UPDATE recipients SET next_attempt_at = $2 WHERE email_id = $1', values: inAnHour });
    const explained = (await node.call('GET', `/api/v1/emails/${later.id}/explain`, { key: node.key })).body;
    t.match(explained, { source: { notes: [/is on day 2 of/] }, recipients: [{ cause: 'scheduled' }] });

    const { email, password } = node.account;
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
    const endpoint = { url: 'http://127.0.0.1:60001/', events: ['email.delivered'] };
    const { webhook } = (await node.call('POST', '/api/v1/webhooks', { token, body: endpoint })).body;
    const { delivery } = (await node.call('POST', `/api/v1/webhooks/${webhook.id}/test`, { token })).body;
    t.ok(isTrue(delivery.payload.created_at), 'the time of a test call');

    await node.send({ to: ['c@receiver.test'] });
    await eventually(async () => sink.messages.length === 1);
    await node.stop();
    const counted = await db.query({ text: 'SELECT DISTINCT day::text FROM tls_results' });
    t.strictSame(counted, [{ day: today }]);
  },
);

t.test('what is shown of a plan and of the statistics is counted by the clock of the database', async (t) => {
  await dayLasting(60_000);
  for (const daysOff of [40, -40]) {
    const truth = Date.now();
    mock.timers.enable({ apis: ['Date'], now: truth + daysOff * dayMs });
    t.teardown(() => mock.timers.reset());
    const encryptionKey = testKey(7);
    const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
    const { account, key, from } = await buildSender(node.db, encryptionKey);
    await node.db.query({
      text: `UPDATE accounts SET plan = 'free', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 40,
                    usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = 400 WHERE id = $1`,
      values: [account.id],
    });
    const body = { from, to: 'a@receiver.test', subject: 's', text: 't' };
    t.equal((await node.call('POST', '/api/v1/emails', { key, body })).status, 200);

    const usage = { day: 41, month: 401 };
    const login = { email: account.email, password: account.password };
    const { body: session } = await node.call('POST', '/api/v1/session', { body: login });
    t.match(session.account, { usage, left: { day: 59, month: 2_599 } }, 'a session');
    const operator = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: operator })).body;
    const one = (await node.call('GET', `/api/v1/admin/accounts/${account.id}`, { token })).body;
    t.match(one.account, { usage }, 'one account');
    const [first] = (await node.call('GET', '/api/v1/admin/accounts?sort=usage', { token })).body.accounts;
    t.match(first, { id: account.id, usage, accepted: { day: 1, month: 1 } }, 'the list of accounts');
    const lines = accountLines(node.db, await accounts.get(node.db, account.id), { files: false, deliveries: false });
    const { value: line = '' } = await lines.next();
    await lines.return();
    t.match(JSON.parse(line), { type: 'account', usage }, 'an export');
    const stats = (await node.call('GET', '/api/v1/stats', { key })).body;
    t.ok(Math.abs(Date.parse(stats.to) - truth) < hourMs / 2, stats.to);
    t.equal(stats.buckets.at(-1)?.accepted, 1, 'the statistics end now');
    mock.timers.reset();
  }
});
