import t from 'tap';
import { buildAccount, buildKey } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { startMailer } from './scene.ts';

t.test('the state of an email is explained', async (t) => {
  let hold = () => {};
  const held = new Promise<void>((resolve) => (hold = resolve));
  const sink = await startSink({
    onRecipient: (address) => {
      if (address.startsWith('busy')) return '452 4.2.2 mailbox full';
      if (address.startsWith('gone')) return '550 5.1.1 no such user';
      return null;
    },
    onMessage: async ({ to }) => {
      if (to[0]?.startsWith('slow')) await held;
      return null;
    },
  });
  t.teardown(() => sink.close());
  const zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'away.test': 'SERVFAIL' as const };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env: { RETRY_SCHEDULE: '1h', RETRY_FOR: '2h' } });
  const explain = async (id: string, key = node.key) => node.call('GET', `/api/v1/emails/${id}/explain`, { key });
  const settled = async (id: string, status: string) => {
    await eventually(async () =>
      (await node.read(id)).recipients.every((one: { status: string }) => one.status === status),
    );
    return (await explain(id)).body;
  };

  const delivered = await node.send({ to: 'fine@receiver.test' });
  t.match(await settled(delivered.id, 'delivered'), {
    email: { id: delivered.id, status: 'sent' },
    summary: /^sent: 1 recipient \(1 delivered\)\. Delivered to receiver\.test/,
    recipients: [
      {
        cause: null,
        classification: null,
        advice: null,
        next_attempt_at: null,
        gives_up_at: null,
        last_attempt: { response: /^250 / },
      },
    ],
  });

  const refused = await node.send({ to: 'gone@receiver.test' });
  t.match(await settled(refused.id, 'failed'), {
    recipients: [
      {
        cause: 'refused',
        classification: 'bad_mailbox',
        sentence: /550 5\.1\.1 no such user/,
        advice: /suppression list/,
      },
    ],
  });
  const suppressed = await node.send({ to: ['gone@receiver.test', 'fine@receiver.test'] });
  t.match((await explain(suppressed.id)).body, {
    recipients: [
      { cause: 'suppressed', advice: /take it off/, last_attempt: null },
      { cause: 'canceled', sentence: /another recipient is suppressed/ },
    ],
  });

  const mixed = await node.send({ to: ['fine@receiver.test', 'gone.too@receiver.test'] });
  await eventually(async () => (await node.read(mixed.id)).status === 'failed');
  t.match(
    (await explain(mixed.id)).body.summary,
    /^failed: 2 recipients \(1 delivered, 1 failed\)\. gone\.too@receiver\.test: Refused for good: .* 550 5\.1\.1/,
    'it names the recipient it is about',
  );

  const full = await node.send({ to: 'busy@receiver.test' });
  const waiting = await settled(full.id, 'deferred');
  t.match(waiting.recipients[0], {
    cause: 'retrying',
    classification: 'mailbox_full',
    attempts: 1,
    sentence: /452 4\.2\.2 mailbox full/,
  });
  const minutes = (at: string) => (Date.parse(at) - Date.now()) / 60_000;
  t.ok(minutes(waiting.recipients[0].next_attempt_at) > 50 && minutes(waiting.recipients[0].next_attempt_at) < 67);
  t.ok(minutes(waiting.recipients[0].gives_up_at) > 118 && minutes(waiting.recipients[0].gives_up_at) <= 120);

  const away = await node.send({ to: 'a@away.test' });
  t.match((await settled(away.id, 'deferred')).recipients[0], {
    cause: 'retrying',
    classification: 'network',
    last_attempt: { phase: 'dns', mx_host: null },
  });

  const later = await node.send({
    to: 'fine@receiver.test',
    scheduled_at: new Date(Date.now() + 3_600_000).toISOString(),
  });
  t.match((await explain(later.id)).body.recipients[0], {
    cause: 'scheduled',
    advice: null,
    sentence: /scheduled time/,
  });
  const { apiKeyId, domainId } = await node.db.prisma.email.findUniqueOrThrow({ where: { id: later.id } });
  const reader = await buildKey(node.db, node.account.id, { scopes: ['read'] });
  const foreseen = async () => (await explain(later.id, reader)).body.recipients[0];
  const revoke = (revokedAt: Date | null) =>
    node.db.prisma.apiKey.update({ where: { id: apiKeyId ?? '' }, data: { revokedAt } });
  await revoke(new Date());
  t.match(await foreseen(), {
    cause: 'scheduled',
    sentence: / As things are it will not be sent: the API key that scheduled it was revoked\.$/,
    advice: 'Cancel it, and schedule it again with another key.',
  });
  await revoke(null);
  const verify = (status: 'verified' | 'pending') =>
    node.db.prisma.domain.update({ where: { id: domainId }, data: { status } });
  await verify('pending');
  t.match(await foreseen(), { sentence: / was removed, or is no longer verified\.$/, advice: /verify it\.$/ });
  await verify('verified');
  t.match(await foreseen(), { sentence: /Z\.$/, advice: null });
  await node.call('DELETE', `/api/v1/emails/${later.id}`, { key: node.key });
  t.match((await explain(later.id)).body.recipients[0], { cause: 'canceled', sentence: /was canceled/ });

  const slow = await node.send({ to: 'slow@receiver.test' });
  await eventually(async () => (await explain(slow.id)).body.recipients[0].cause === 'being_delivered');

  const other = await buildAccount(node.db);
  t.equal((await explain(slow.id, await buildKey(node.db, other.id))).status, 404);
  t.equal((await explain('nonsense')).status, 404);
  hold();
});

t.test('an email that no node would deliver is said to wait for one', async (t) => {
  const { node, send, key } = await startMailer();
  const { status, body } = await send({});
  t.equal(status, 200);
  const explained = await node.call('GET', `/api/v1/emails/${body.email.id}/explain`, { key });
  t.match(explained.body.recipients, [
    {
      cause: 'in_queue',
      sentence: / No node that delivers mail is running\.$/,
      advice: /start a node with the role mta/,
    },
  ]);
});
