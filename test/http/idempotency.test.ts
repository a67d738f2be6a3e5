import { createHash } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Koa from 'koa';
import t from 'tap';
import { readIdempotency } from '../../src/http/idempotency.ts';
import { buildSender, buildVerifiedDomain } from '../support/build.ts';
import { figure } from '../support/figure.ts';
import { testKey } from '../support/keys.ts';
import { startTestNode } from '../support/node.ts';
import { served, storedRows } from './scene.ts';

const encryptionKey = testKey(9);
const env = { ENCRYPTION_KEY: encryptionKey.toString('hex') };

/** A call with a key, as the service gets it. */
function callTo(url: string, key = 'k') {
  const req = Object.assign(new IncomingMessage(new Socket()), { method: 'POST', url });
  req.headers['idempotency-key'] = key;
  return new Koa().createContext(req, new ServerResponse(req));
}

t.test('a key is as long as its characters, in UTF-8 as in Latin-1, and stays as it was read', async (t) => {
  const read = (bytes: Buffer) => readIdempotency(callTo('/api/v1/emails', bytes.toString('latin1')), {});
  for (const encoding of ['utf8', 'latin1'] as const) {
    const longest = Buffer.from('é'.repeat(256), encoding);
    t.equal((await read(longest))?.key, longest.toString('latin1'));
    await t.rejects(read(Buffer.from('é'.repeat(257), encoding)), { message: 'invalid request' });
  }
  t.ok(await read(Buffer.from('\u{1F600}'.repeat(256))));
});

t.test('a long body has the same fingerprint as ever, and lets other work have turns meanwhile', async (t) => {
  // Surrogate pairs wherever a piece may end, halves of them, and what JSON escapes.
  const odd = ['\u{1F600}', '\uD800', '\uDE00', '"\\\n\u0001', 'x'].map((text) => text.repeat(70_000));
  // The first and the last pair, where the first piece would end, and nothing like them around it.
  const split = ['\u{10000}', '\u{10FFFF}'].map((pair) => `${'x'.repeat(64 * 1024 - 1)}${pair}xx`);
  const shifted = [...odd, ...split].flatMap((text) => [text, `a${text}`]);
  const texts = { b: shifted, a: { z: 'short', y: [1, -0.5, true, null, ''] } };
  const sorted = `{"a":{"y":[1,-0.5,true,null,"",],"z":"short",},"b":[${shifted.map((text) => `${JSON.stringify(text)},`).join('')}],}`;
  const expected = createHash('sha256').update(`POST /api/v1/emails ${sorted}`).digest('hex');
  t.equal((await readIdempotency(callTo('/api/v1/emails'), texts))?.fingerprint.toString('hex'), expected);

  const one = 'x'.repeat(40_000_000);
  const many = Array.from({ length: 1_000 }, () => ({ text: 'x'.repeat(40_000) }));
  for (const body of [{ one }, { many }]) {
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 1);
    await readIdempotency(callTo('/api/v1/emails'), body);
    clearInterval(timer);
    t.ok(turns >= 2, `${turns} turns`);
  }
});

t.test('idempotency', async (t) => {
  const node = await startTestNode(t, env);
  const sender = await buildSender(node.db, encryptionKey);
  const { key, from } = sender;
  const body = { from, to: ['a@b.test'], subject: 'once', text: 't' };
  const send = (idempotencyKey: string, sent: unknown = body, path = '/api/v1/emails', by = key) =>
    node.call('POST', path, { key: by, body: sent, headers: { 'Idempotency-Key': idempotencyKey } });

  t.test('the same call twice makes one email, and the second answer says so', async (t) => {
    const first = await send('k1');
    const second = await send('k1');
    t.equal(first.status, 200);
    t.equal(first.headers.get('idempotent-replayed'), null);
    t.equal(second.headers.get('idempotent-replayed'), 'true');
    t.same(JSON.stringify(second.body), JSON.stringify(first.body), 'byte for byte');
    const reordered = await send('k1', `{ "text":"t",\n "subject":"once", "to":["a@b.test"], "from":"${from}" }`);
    t.same([reordered.status, reordered.body], [200, first.body], 'the order of names and white space do not count');
  });

  t.test('a hundred calls at once, on two nodes, make one email', async (t) => {
    const other = await startTestNode(t, {
      ...env,
      DATABASE_URL: node.databaseUrl,
      ADMIN_PASSWORD: 'another password',
    });
    const before = await node.db.prisma.email.count();
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        served(() =>
          (n % 2 ? node : other).call('POST', '/api/v1/emails', { key, body, headers: { 'Idempotency-Key': 'race' } }),
        ),
      ),
    );
    t.same([...new Set(answers.map((answer) => answer.status))], [200]);
    const made = new Set(answers.map((answer) => answer.body.email.id)).size;
    figure('P7', `${answers.length} calls with one key at once, on two nodes: ${made} email`);
    t.equal(made, 1);
    t.equal(answers.filter((answer) => answer.headers.get('idempotent-replayed') === null).length, 1);
    t.equal(await node.db.prisma.email.count(), before + 1);
  });

  t.test('another body, or another path, is a conflict', async (t) => {
    t.equal((await send('k2')).status, 200);
    for (const answer of [
      await send('k2', { ...body, subject: 'another' }),
      await send('k2', { emails: [body] }, '/api/v1/emails/batch'),
    ]) {
      t.match([answer.status, answer.body], [409, { error: 'conflict', detail: String }]);
    }
    const [one, two] = await Promise.all([
      send('k3', { ...body, subject: 'x' }),
      send('k3', { ...body, subject: 'y' }),
    ]);
    t.same([one.status, two.status].sort(), [200, 409]);
  });

  t.test('belongs to the account', async (t) => {
    const other = await buildSender(node.db, encryptionKey);
    const mine = await send('shared');
    const theirs = await send('shared', { ...body, from: other.from }, '/api/v1/emails', other.key);
    t.same([mine.status, theirs.status], [200, 200]);
    t.not(mine.body.email.id, theirs.body.email.id);
    t.equal((await send('shared', { ...body, from: 'a@unknown.test' }, '/api/v1/emails', other.key)).status, 409);
    t.strictSame((await send('shared')).body, mine.body);
    t.strictSame((await send('shared', { ...body, from: other.from }, '/api/v1/emails', other.key)).body, theirs.body);

    const only = await send('only mine');
    const refused = await send('only mine', { ...body, from: 'a@unknown.test' }, '/api/v1/emails', other.key);
    t.equal(refused.status, 400);
    t.strictSame((await send('only mine')).body, only.body, 'what they do not send frees no key of mine');
  });

  t.test('only successes are kept', async (t) => {
    const before = await storedRows(node);
    t.equal((await send('k4', { ...body, to: ['nonsense'] })).status, 400);
    t.equal((await send('k4', { ...body, from: 'a@unknown.test' })).status, 400);
    t.same(await storedRows(node), before);
    t.equal((await send('k4')).status, 200);
  });

  t.test('the key has 1 to 256 characters', async (t) => {
    t.equal((await send('k'.repeat(256))).status, 200);
    for (const wrong of ['', 'k'.repeat(257)]) {
      const answer = await send(wrong);
      t.match([answer.status, answer.body], [400, { error: 'invalid request', detail: /^Idempotency-Key: / }]);
    }
  });

  t.test('expires after 24 hours', async (t) => {
    const first = await send('day');
    const [row] = await node.db.query<{ hours: number }>({
      text: `SELECT extract(epoch FROM expires_at - now())::int / 3600.0 AS hours FROM idempotency_keys WHERE key = 'day'`,
    });
    t.ok(Number(row?.hours) > 23.9 && Number(row?.hours) <= 24);
    await node.db.query({
      text: `UPDATE idempotency_keys SET expires_at = now() - make_interval(secs => 1) WHERE key = 'day'`,
    });
    const second = await send('day', { ...body, subject: 'the day after' });
    t.equal(second.status, 200);
    t.not(second.body.email.id, first.body.email.id);
    t.equal((await send('day')).status, 409);
  });

  t.test('gives the first answer also to a request whose time has passed since', async (t) => {
    const other = await buildSender(node.db, encryptionKey);
    const past = { ...body, scheduled_at: new Date(Date.now() - 3_600_000).toISOString() };
    for (const [path, first, again] of [
      ['/api/v1/emails', body, past],
      ['/api/v1/emails/batch', { emails: [body] }, { emails: [past] }],
    ] as const) {
      const { body: answer } = await send('past', first, path);
      const stamp = async (value: unknown) =>
        node.db.query({
          text: `UPDATE idempotency_keys SET fingerprint = $1 WHERE key = 'past'`,
          values: [(await readIdempotency(callTo(path), value))?.fingerprint],
        });
      t.match(await send('past', again, path), { status: 400, body: { detail: /scheduled_at: is in the past$/ } });
      await stamp(again);
      const replayed = await send('past', again, path);
      t.strictSame([replayed.status, replayed.body], [200, answer], path);
      t.equal(replayed.headers.get('idempotent-replayed'), 'true');
      t.equal((await send('another', again, path)).status, 400, 'with another key it is refused');
      t.equal((await send('past', again, path, other.key)).status, 400, 'and to another account');
      await node.db.query({ text: `UPDATE idempotency_keys SET expires_at = now() WHERE key = 'past'` });
      t.equal((await send('past', again, path)).status, 400, 'and when the key has expired');
      await node.db.query({ text: `DELETE FROM idempotency_keys WHERE key = 'past'` });
    }
  });

  t.test('works for batches too', async (t) => {
    const emails = { emails: [body, { ...body, from: 'a@unknown.test' }] };
    const first = await send('b1', emails, '/api/v1/emails/batch');
    const second = await send('b1', emails, '/api/v1/emails/batch');
    t.match(first.body, { count: 2, errors: [{ index: 1 }] });
    t.same(second.body, first.body);
    t.equal(second.headers.get('idempotent-replayed'), 'true');
  });

  t.test('does not keep a batch of which nothing was accepted', async (t) => {
    const before = await storedRows(node);
    const refused = { emails: [0, 1].map(() => ({ ...body, from: 'a@later.test' })) };
    for (const _ of [1, 2]) {
      const answer = await send('b2', refused, '/api/v1/emails/batch');
      t.match(answer, { status: 200, body: { emails: [], count: 2, errors: [{ index: 0 }, { index: 1 }] } });
      t.equal(answer.headers.get('idempotent-replayed'), null);
    }
    t.same(await storedRows(node), before);
    await buildVerifiedDomain(node.db, sender.account.id, encryptionKey, 'later.test');
    const accepted = await send('b2', refused, '/api/v1/emails/batch');
    t.match(accepted.body, { emails: [{ status: 'queued' }, { status: 'queued' }], errors: [] });
    t.same((await send('b2', refused, '/api/v1/emails/batch')).body, accepted.body);
  });
});
