import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { startReportHost } from '../support/report-host.ts';
import { startZone } from '../support/zone.ts';

t.test('a node in direct mode sends reports, the sandbox none', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog, 2);
  const host = await startReportHost(t);
  const zone = await startZone({
    '_smtp._tls.a.test': { TXT: [`v=TLSRPTv1; rua=${host.url}`] },
    'reports.test': { A: ['127.0.0.1'] },
  });
  t.teardown(async () => {
    await zone.close();
    await db.close();
  });
  await db.query({
    text: `INSERT INTO tls_results (day, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind)
           SELECT (now() AT TIME ZONE 'UTC')::date - 2, domain, 'no-policy-found', '{}', '{}', 'success', 'mx.test', '192.0.2.1', '', '', 1, '\\x00'
             FROM unnest(ARRAY['a.test', 'b.test']) AS d (domain)`,
  });
  const common = { DATABASE_URL: url, ENCRYPTION_KEY: testKey(7).toString('hex') };
  const count = async () => (await db.query({ text: 'SELECT FROM tls_reports' })).length;

  const sandbox = await startTestNode(t, { ...common, TLS_REPORTS: 'on' });
  await sandbox.stop();
  t.equal(await count(), 0);

  // A report planned by an earlier node; this node's own would begin within four hours.
  await db.query({
    text: `INSERT INTO tls_reports (day, domain, uri, next_try_at) SELECT day, domain, '', now() FROM tls_results WHERE domain = 'a.test'`,
  });
  await startTestNode(t, { ...directEnv(zone, 25), ...common });
  const post = await eventually(async () => host.posts[0]);
  t.match(post.json, { 'contact-info': 'postmaster@out.sender.test', 'organization-name': 'out.sender.test' });
  await eventually(async () => (await count()) === 3);
});
