import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { startDirectNode } from '../support/direct.ts';
import { throughProxy } from '../support/gate.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

/** A proxy between a node and its database that can cut them off: every connection is reset, new ones are refused. */
async function startCut(target: URL) {
  const open = new Set<Socket>();
  let away = false;
  const server = createServer((client) => {
    if (away) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(one);
      one.on('error', () => undefined);
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: throughProxy(target, server.address() as AddressInfo),
    cut() {
      away = true;
      for (const socket of open) socket.resetAndDestroy();
    },
    mend() {
      away = false;
    },
    close() {
      this.cut();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

t.test('the database goes away in the middle of deliveries and comes back', async (t) => {
  const database = await startCut(new URL(await createDatabase()));
  // Registered first, so taken down last: the node needs its database to shut down cleanly.
  t.teardown(() => database.close());
  let answer = () => {};
  let held = 0;
  const sink = await startSink({
    onMessage: async () => {
      held += 1;
      await new Promise<void>((resolve) => {
        const before = answer;
        answer = () => {
          before();
          resolve();
        };
      });
      return null;
    },
  });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: { 'receiver.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { DATABASE_URL: database.url },
  });
  const ids: string[] = [];
  for (let index = 0; index < 5; index += 1) ids.push((await node.send({ to: `a${index}@receiver.test` })).id);
  await eventually(async () => held === ids.length);

  database.cut();
  answer();
  await eventually(async () => sink.messages.length === ids.length);
  const ask = () =>
    node.call('POST', '/api/v1/emails', {
      key: node.key,
      body: { from: node.from, to: 'z@receiver.test', subject: 's', text: 't' },
    });
  let asked = Date.now();
  let refused = await ask();
  // Again if the machine stalled meanwhile.
  for (let again = 0; again < 4 && Date.now() - asked >= 5_000; again += 1) {
    asked = Date.now();
    refused = await ask();
  }
  t.ok(Date.now() - asked < 5_000);
  t.match([refused.status, refused.body], [503, { error: 'unavailable' }]);
  t.ok(Number(refused.headers.get('retry-after')) >= 1);
  t.equal((await node.call('GET', '/readyz')).status, 503);
  t.equal((await node.call('GET', '/healthz')).status, 200);
  await new Promise((resume) => setTimeout(resume, 2_500));

  database.mend();
  await eventually(async () => (await node.call('GET', '/readyz')).status === 200);
  for (const id of ids) await eventually(async () => (await node.read(id))?.status === 'sent');
  t.equal(sink.messages.length, ids.length, 'mail that had been accepted was not sent again');
  const after = await node.send({ to: 'b@receiver.test' });
  answer = () => {};
  await eventually(async () => held === ids.length + 1);
  answer();
  await eventually(async () => (await node.read(after.id)).status === 'sent');
});
