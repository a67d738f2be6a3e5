import { once } from 'node:events';
import { connect } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import { buildSender } from '../support/build.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';

const waiting = `SELECT count(*)::int AS count FROM pg_locks WHERE NOT granted AND relation = 'suppressions'::regclass`;

t.test('pipelined exports end with their client, and one that breaks off is cut and logged', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') }, { log });
  const { account } = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  // More than is sent while nobody reads.
  const suppressions = Array.from({ length: 20_000 }, (_, at) => ({ address: `${'x'.repeat(50)}${at}@one.test` }));
  for (let at = 0; at < suppressions.length; at += 5_000) {
    const body = { suppressions: suppressions.slice(at, at + 5_000) };
    t.equal((await node.call('POST', '/api/v1/suppressions/import', { token, body })).status, 200);
  }
  const { hostname, port } = new URL(node.baseUrl);
  await node.db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE suppressions' });
    const client = connect(Number(port), hostname);
    for (const path of ['', '/export', '/export'])
      client.write(`GET /api/v1/suppressions${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await eventually(async () => (await tx.query<{ count: number }>({ text: waiting }))[0]?.count === 3);
    client.destroy();
    await once(client, 'close');
    // Time for the server to hear of it: before that there is nothing to show.
    await new Promise((resume) => setTimeout(resume, 300));
  });
  const served = () =>
    eventually(async () => {
      const answer = await node.call('GET', '/api/v1/suppressions/export', { token });
      return answer.status !== 429 && answer.status;
    });
  t.equal(await served(), 200);
  const headers = { Authorization: `Bearer ${token}` };
  for (const _ of [1, 2]) {
    const begun = await fetch(`${node.baseUrl}/api/v1/account/export`, { headers });
    await begun.body?.cancel();
  }
  t.equal(await served(), 200);
  t.strictSame(lines, [], 'that a client goes is no error');

  // An account's export has them after much that is sent before.
  await node.db.query({ text: 'ALTER TABLE webhooks RENAME TO old_webhooks' });
  const broken = await fetch(`${node.baseUrl}/api/v1/account/export`, { headers });
  t.equal(broken.status, 200);
  await t.rejects(broken.text(), 'nobody takes a part of it for all');
  const requestId = broken.headers.get('x-request-id');
  t.match(lines, [{ requestId, error: /webhooks/, msg: 'an export broke off' }]);
  t.equal(lines.length, 1);
  const old = connect(Number(port), hostname).resume();
  old.write(`GET /api/v1/account/export HTTP/1.0\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await t.rejects(once(old, 'end'), { code: 'ECONNRESET' }, 'nor does a client of HTTP/1.0, which hears of no length');

  await node.db.query({ text: 'ALTER TABLE suppressions RENAME TO old_suppressions' });
  for (const _ of [1, 2, 3])
    t.equal(
      (await fetch(`${node.baseUrl}/api/v1/suppressions/export`, { headers })).status,
      500,
      'one that does not begin is not under way',
    );
});
