import t, { type Test } from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { startScriptedMx } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

/** A sender, and a server that does not answer the first final dot of each message and accepts the second copy. */
async function startDoubting(t: Test) {
  const received: string[] = [];
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet();
    const content = await peer.message({ dot: null });
    const id = /^Message-ID: (.*)\r$/im.exec(content)?.[1] ?? '';
    received.push(id);
    if (received.filter((one) => one === id).length === 1) peer.socket.destroy();
    else peer.send('250 taken\r\n');
    await peer.until('QUIT');
  });
  t.teardown(() => mx.close());
  const hook = await startHook(t);
  const node = await startDirectNode(t, { zone: { 'doubt.test': { A: ['127.0.0.1'] } }, mxPort: mx.port });
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const events = ['email.uncertain', 'email.delivered', 'email.failed'];
  await node.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events } });
  const explain = async (id: string) =>
    (await node.call('GET', `/api/v1/emails/${id}/explain`, { key: node.key })).body.recipients[0];
  const release = (id: string, as: string) =>
    node.call('POST', `/api/v1/emails/${id}/release`, { key: node.key, body: { as } });
  /** Waits until the first attempt has ended in doubt, and the email is held. */
  const held = async () => {
    const { id } = await node.send({ to: 'a@doubt.test', on_uncertain: 'hold' });
    await eventually(async () => (await explain(id)).cause === 'uncertain');
    return id as string;
  };
  const told = () => hook.calls.map(({ body }) => JSON.parse(body.toString()));
  return { node, received, explain, release, held, told };
}

t.test(
  'MX-03: a message that may have been accepted is sent again with the same Message-ID, and the log says so',
  async (t) => {
    const { node, received, told } = await startDoubting(t);
    const { id } = await node.send({ to: 'a@doubt.test' });
    await eventually(async () => (await node.read(id)).status === 'sent');
    t.equal(received.length, 2);
    t.equal(new Set(received).size, 1);
    const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body;
    t.match(attempts.map((one: { uncertain: boolean }) => one.uncertain).sort(), [false, true]);
    await eventually(async () => told().length === 2);
    t.match(told()[0], {
      type: 'email.uncertain',
      data: { email_id: id, recipients: [{ address: 'a@doubt.test', status: 'deferred' }] },
    });
  },
);

t.test('the log tells what is held from what just waits', async (t) => {
  const { node, held } = await startDoubting(t);
  const id = await held();
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  const { id: later } = await node.send({ to: 'a@doubt.test', scheduled_at: inAnHour });
  const { emails } = (await node.call('GET', '/api/v1/emails', { key: node.key })).body;
  t.strictSame(
    emails.map((one: { id: string; held: boolean }) => [one.id, one.held]),
    [
      [later, false],
      [id, true],
    ],
  );
});

t.test('with on_uncertain: hold it waits until somebody decides', async (t) => {
  const { node, received, explain, release, held, told } = await startDoubting(t);
  const id = await held();
  t.match(await explain(id), {
    next_attempt_at: null,
    gives_up_at: null,
    sentence: /^Is not tried again/,
    last_attempt: { uncertain: true },
  });
  const admin = { email: 'admin@example.test', password: node.adminPassword };
  const operator = { token: (await node.call('POST', '/api/v1/auth/login', { body: admin })).body.token };
  t.equal((await node.call('POST', '/api/v1/admin/destinations/doubt.test/flush', operator)).status, 200);
  const { body } = await node.call('GET', '/api/v1/admin/destinations', operator);
  t.match(body.destinations, [{ site: 'doubt.test', next_attempt_at: null }]);
  t.equal(received.length, 1, 'no second copy');

  t.match(await release(id, 'perhaps'), {
    status: 400,
    body: { detail: /^as: must be one of retry, delivered, failed/ },
  });
  t.match(await release(id, 'delivered'), { status: 200, body: { released: 1, email: { status: 'sent' } } });
  const nothing = { status: 409, body: { error: 'conflict', detail: 'no recipient of the email is held' } };
  for (const as of ['failed', 'retry']) t.match(await release(id, as), nothing);
  t.equal((await node.read(id)).status, 'sent', 'the decision does not change');
  t.equal(received.length, 1);

  const failed = await held();
  t.match(await release(failed, 'failed'), { status: 200, body: { released: 1, email: { status: 'failed' } } });
  const again = await held();
  t.match(await release(again, 'retry'), { status: 200, body: { released: 1, email: { status: 'queued' } } });
  await eventually(async () => (await node.read(again)).status === 'sent');
  t.equal(received.filter((one) => one.includes(again)).length, 2);

  const types = ['uncertain', 'delivered', 'uncertain', 'failed', 'uncertain', 'delivered'].map(
    (name) => `email.${name}`,
  );
  await eventually(async () => told().length === types.length);
  t.same(
    told()
      .map(({ type }) => type)
      .sort(),
    types.sort(),
  );
});
