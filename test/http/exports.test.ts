import { once } from 'node:events';
import { connect } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import { buildSender } from '../support/build.ts';
import { eventually, startTestNode, type TestNode } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';

const waiting = `SELECT count(*)::int AS count FROM pg_locks WHERE NOT granted AND relation = 'suppressions'::regclass`;

/** Each of them is a line of some 350 bytes. */
async function suppressMany({ db }: TestNode, accountId: string, count: number): Promise<void> {
  const domain = `${'y'.repeat(60)}.${'z'.repeat(60)}.${'w'.repeat(60)}.test`;
  await db.query({
    text: `INSERT INTO suppressions (id, account_id, address, reason)
           SELECT gen_random_uuid(), $1, 'x' || n || '@' || $2, 'manual' FROM generate_series(1, $3::int) n`,
    values: [accountId, domain, count],
  });
}

t.test('an export that is not large is sent with its length, and any list with its count', async (t) => {
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { account } = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  const open = async (path: string) => {
    const answer = await fetch(`${node.baseUrl}/api/v1${path}`, { headers: { Authorization: `Bearer ${token}` } });
    const body = Buffer.from(await answer.arrayBuffer());
    const { headers, status } = answer;
    const [length, count] = [headers.get('content-length'), headers.get('x-total-count')];
    return { status, length: length === null ? null : Number(length), count, body, headers };
  };
  const empty = await open('/suppressions/export');
  t.match(empty, { length: empty.body.length, count: '0' });
  // In two reads.
  const many = Array.from({ length: 6_000 }, (_, at) => ({ address: `ü${at}@one.test` }));
  const imported = await node.call('POST', '/api/v1/suppressions/import', { token, body: { suppressions: many } });
  t.equal(imported.status, 200);
  const list = await open('/suppressions/export');
  t.match(
    list,
    { length: list.body.length, count: '6000' },
    'through HTTP/2 proxies only that shows that a part is missing',
  );
  t.equal(list.body.toString().split('\r\n').length, 6_000 + 2);
  const whole = await open('/account/export');
  t.match(whole, { length: whole.body.length, count: null });
  t.match(whole.body.toString(), /"type":"end","complete":true,"counts":\{[^}]*"suppression":6000\}\}\n$/);
  const head = await fetch(`${node.baseUrl}/api/v1/suppressions/export`, {
    method: 'HEAD',
    headers: { Authorization: `Bearer ${token}` },
  });
  t.equal(Number(head.headers.get('content-length')), list.body.length);

  await suppressMany(node, account.id, 36_000);
  const large = await open('/suppressions/export');
  t.match(large, { status: 200, length: null, count: '42000' }, 'a large one is not held');
  t.equal(large.body.toString().split('\r\n').length, 42_000 + 2);
  const largest = await open('/account/export');
  t.match(largest, { status: 200, length: null });
  t.equal(
    new Set(largest.body.toString().split('\n')).size,
    largest.body.toString().split('\n').length,
    'each line once',
  );
  t.match(largest.body.toString(), /"suppression":42000\}\}\n$/);

  await node.db.query({ text: 'DELETE FROM suppressions' });
  await node.db.query({ text: 'ALTER TABLE webhooks RENAME TO old_webhooks' });
  const failed = await open('/account/export');
  t.equal(failed.status, 500);
  t.equal(failed.headers.get('content-disposition'), null, 'an error, and no file that has a part');
});

t.test('pipelined exports end with their client, and one that breaks off is cut and logged', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') }, { log });
  const { account } = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  // More than is held, or sent while nobody reads.
  await suppressMany(node, account.id, 30_000);
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
