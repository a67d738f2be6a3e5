import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startScriptedMx, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

type Node = Awaited<ReturnType<typeof startDirectNode>>;

async function endOf(node: Node, to: string, status: string) {
  const { id } = await node.send({ to });
  if (status === 'failed') await timeIsUp(node, id);
  await eventually(async () => (await node.read(id)).recipients[0].status === status);
  const { body } = await node.call('GET', `/api/v1/emails/${id}/explain`, { key: node.key });
  return body.recipients[0];
}

/** Waits for two attempts if it is tried again, and then it is too old for another. */
async function timeIsUp(node: Node, id: string) {
  await eventually(async () => {
    const [{ status, attempts }] = (await node.read(id)).recipients;
    return status === 'failed' || attempts >= 2;
  });
  await node.db.query({
    text: `UPDATE emails SET created_at = created_at - interval '1 hour' WHERE id = $1`,
    values: [id],
  });
}

const suppressed = async (node: Node) => {
  const rows = await node.db.query<{ address: string }>({ text: 'SELECT address FROM suppressions ORDER BY address' });
  return rows.map((row) => row.address);
};

t.test('only addresses that are said not to exist are suppressed', async (t) => {
  const sink = await startSink({
    onRecipient: (address) => {
      if (address.startsWith('gone')) return '550 5.1.1 no such user';
      if (address.startsWith('perhaps')) return '450 4.1.1 no such user';
      if (address.startsWith('blocked')) return '550 5.7.1 your address is on a blocklist';
      return null;
    },
  });
  t.teardown(() => sink.close());
  const zone = {
    'receiver.test': { A: ['127.0.0.1'] },
    'null.test': { MX: [[0, '.']] as [number, string][] },
    'slip.test': { MX: [[10, 'mistyped.test']] as [number, string][] },
    'us.test': { MX: [[10, 'out.sender.test']] as [number, string][] },
  };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env: { RETRY_FOR: '1h' } });

  t.match(await endOf(node, 'gone@receiver.test', 'failed'), {
    classification: 'bad_mailbox',
    advice: /went onto the suppression list/,
  });
  t.match(await endOf(node, 'a@nowhere.test', 'failed'), {
    classification: 'bad_domain',
    sentence: 'Refused for good: The domain nowhere.test does not exist.',
    advice: /went onto the suppression list/,
  });
  t.match(await endOf(node, 'a@null.test', 'failed'), { classification: 'bad_domain' });
  t.same(await suppressed(node), ['a@nowhere.test', 'a@null.test', 'gone@receiver.test']);

  const others = {
    'perhaps@receiver.test': 'bad_mailbox',
    'blocked@receiver.test': 'policy',
    'a@slip.test': 'network',
    'a@us.test': 'sender',
  };
  const ends = await Promise.all(Object.keys(others).map((to) => endOf(node, to, 'failed')));
  for (const end of ends) {
    t.equal(end.classification, others[end.address as keyof typeof others], end.address);
    t.match(end.advice, /It is not tried again/, end.address);
    t.notMatch(end.advice, /suppression/, end.address);
  }
  t.match(ends[0], {
    cause: 'given_up',
    sentence: /^Tried \d times and given up after 60 minutes; the last answer was: 450 4\.1\.1 no such user\.$/,
  });
  t.equal((await suppressed(node)).length, 3);
});

t.test('a server that cannot be reached from here costs nobody their mail', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const zone = { 'receiver.test': { A: ['10.0.0.1'] }, 'parked.test': { A: ['127.0.0.1'] } };
  // Not the receiver's own address: mail to that would be a loop.
  const env = { ALLOW_PRIVATE_NETWORKS: 'false', SENDING_IPS: '127.0.0.2', RETRY_SCHEDULE: '1h' };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env });
  t.match(await endOf(node, 'a@receiver.test', 'deferred'), {
    cause: 'retrying',
    classification: 'network',
    sentence: /only private or reserved addresses, which ALLOW_PRIVATE_NETWORKS does not allow\. The next one/,
    advice: /tried again automatically/,
  });
  t.match(await endOf(node, 'a@parked.test', 'failed'), { classification: 'network', advice: /It is not tried again/ });
  t.same(await suppressed(node), []);
  t.equal(sink.messages.length, 0);
});

t.test('mail that may have arrived is reported as such, to the end', async (t) => {
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet();
    await peer.message({ dot: null });
    peer.socket.end();
  });
  t.teardown(() => mx.close());
  const zone = { 'receiver.test': { A: ['127.0.0.1'] } };
  const node = await startDirectNode(t, { zone, mxPort: mx.port, env: { RETRY_FOR: '1h' } });
  const end = await endOf(node, 'a@receiver.test', 'failed');
  t.match(end, { cause: 'given_up', last_attempt: { uncertain: true } });
  t.match(end.sentence, /Attempts 1, 2.* it may have arrived all the same\.$/);
  t.match(end.advice, /same Message-ID/);
  t.same(await suppressed(node), []);
});
