import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';

t.test('the doctor over HTTP: for admins only, and run once for simultaneous calls', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const reverse = '1.0.0.127.in-addr.arpa';
  const node = await startDirectNode(t, {
    zone: { [reverse]: { PTR: ['other.test'] }, 'given.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { ROLES: 'api', DNS_BLOCKLISTS: 'bl.test', BASE_URL: 'https://send.sender.test' },
  });
  const logIn = async (email: string, password: string) =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token;
  const admin = await logIn('admin@example.test', node.adminPassword);
  const member = await logIn(node.account.email, node.account.password);
  const examine = (token: string, query = '') => node.call('GET', `/api/v1/admin/doctor${query}`, { token });

  const before = node.zone.queries.length;
  // The first call is still running when the second comes, however slow the machine is.
  node.zone.delay(1_500);
  const [first, second] = await Promise.all([examine(admin, '?mx=Given.test'), examine(admin, '?mx=given.test')]);
  node.zone.delay(0);
  t.match(first, { status: 200, body: { well: false } });
  t.strictSame(first.body.findings, second.body.findings);
  const asked = node.zone.queries.slice(before);
  t.equal(asked.filter((query) => query === `ptr ${reverse}`).length, 1);
  const findings: { check: string; health: string }[] = first.body.findings;
  const healthOf = (name: string) => findings.filter(({ check }) => check === name).map(({ health }) => health);
  t.strictSame(
    ['outbound_port_25', 'reverse_dns', 'blocklist', 'base_url'].map((name) => healthOf(name)),
    [['ok'], ['problem'], ['unknown'], ['ok']],
  );
  t.equal((await examine(member)).status, 403);
  await examine(admin, '?mx=given.test');
  const askedLater = node.zone.queries.slice(before).filter((query) => query === `ptr ${reverse}`);
  t.equal(askedLater.length, 2, 'once it is over, the next call looks again');

  const queries = node.zone.queries.length;
  const machine = await examine(admin, '?only=machine');
  t.equal(machine.status, 200);
  t.strictSame(
    machine.body.findings.map(({ check }: { check: string }) => check),
    ['clock', 'disk_space', 'database_rights'],
  );
  t.equal(node.zone.queries.length, queries, 'nobody is asked');
  t.equal((await examine(member, '?only=machine')).status, 403);
  t.match(await examine(admin, '?only=machine&mx=given.test'), { status: 400, body: { detail: /^mx: / } });
  t.match(await examine(admin, '?only=names'), { status: 400, body: { detail: /^only: / } });
  t.match(await examine(admin, '?mx=not%20a%20host'), { status: 400, body: { detail: /^mx: / } });
});
