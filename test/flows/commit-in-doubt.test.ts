import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { createDatabase } from '../support/db.ts';
import { startDirectNode } from '../support/direct.ts';
import { throughProxy } from '../support/gate.ts';
import { startHook } from '../support/hook.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

/**
 * A proxy between a node and its database. The first transaction that prepares or runs the statement of this name is
 * committed, but the connection breaks before the node gets the answer.
 */
async function startBreaker(t: Test, databaseUrl: string) {
  const target = new URL(databaseUrl);
  let statement: string | null = null;
  let broken = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    let chosen = false;
    let last = false;
    client.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1');
      if (statement !== null && text.includes(`${statement}\0`)) chosen = true;
      if (chosen && text.includes('COMMIT\0')) {
        last = true;
        statement = null;
      }
      upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => {
      if (!last) return client.write(chunk);
      broken += 1;
      client.resetAndDestroy();
      upstream.destroy();
    });
    client.on('error', () => undefined).on('close', () => upstream.destroy());
    upstream.on('error', () => undefined).on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return {
    url: throughProxy(databaseUrl, server.address() as AddressInfo),
    breakAt: (name: string) => (statement = name),
    broken: () => broken,
  };
}

/** A node behind such a proxy that sends to a receiver of its own and calls an endpoint about its emails. */
async function startScene(t: Test) {
  const breaker = await startBreaker(t, await createDatabase());
  const hook = await startHook(t);
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: { 'receiver.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { DATABASE_URL: breaker.url },
  });
  const { email, password } = node.account;
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  await node.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events: ['email.delivered'] } });
  return { breaker, hook, sink, node };
}

for (const [what, statement] of [
  ['recipients were claimed', 'recipients-claim'],
  ['an outcome was recorded', 'recipients-settle'],
  ['a webhook delivery was claimed', 'webhook-deliveries-claim'],
] as const) {
  t.test(`${what}, and the answer to the COMMIT was lost: everything that follows happens once`, async (t) => {
    const { breaker, hook, sink, node } = await startScene(t);
    breaker.breakAt(statement);
    const { id } = await node.send({ to: 'a@receiver.test' });
    await eventually(async () => hook.calls.length > 0);
    t.equal(breaker.broken(), 1);
    t.equal(sink.messages.length, 1);
    const { body } = await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key });
    t.equal(body.attempts.length, 1, 'and the log says so');
    t.equal(hook.calls.length, 1);
  });
}
