import { mock } from 'node:test';
import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { adminPassword, eventually } from '../support/node.ts';

const hourMs = 3_600_000;

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
  },
);
