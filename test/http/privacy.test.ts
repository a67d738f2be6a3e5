import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { newId } from '../../src/ids.ts';
import { buildKey } from '../support/build.ts';
import { eventually, type TestNode } from '../support/node.ts';
import { startMailer } from './scene.ts';

const logIn = async ({ node, account }: Awaited<ReturnType<typeof startMailer>>): Promise<string> =>
  (await node.call('POST', '/api/v1/auth/login', { body: account })).body.token;

t.test('whoever may send for the whole account can erase a recipient, once for all who ask', async (t) => {
  const mailer = await startMailer();
  const { node, key, account, domain } = mailer;
  const token = await logIn(mailer);
  const ask = async (address: unknown, options: object = { key }, more: object = {}) => {
    const { status, body } = await node.call('POST', '/api/v1/recipients/erase', {
      ...options,
      body: { address, ...more },
    });
    return [status, body.erasure ?? body.detail ?? body.error];
  };
  const reader = await buildKey(node.db, account.id, { scopes: ['read'] });
  const restricted = await buildKey(node.db, account.id, { domains: [domain] });
  t.strictSame(await ask('a@b.test', { key: reader }), [403, 'forbidden']);
  t.strictSame(await ask('a@b.test', { key: restricted }), [403, 'forbidden'], 'it would reach into other domains');
  t.strictSame(await ask('nobody'), [400, 'address: not an email address']);
  t.strictSame(await ask(undefined), [400, 'address: is required']);
  t.strictSame(await ask('a@b.test', { key }, { suppression: 'lose' }), [
    400,
    'suppression: must be one of keep, remove',
  ]);

  // Claimed by a node, as during sending, so that the request stays pending.
  await mailer.send({ to: 'a@b.test' });
  const claimed = (claimedBy: string | null) =>
    node.db.query({
      text: `UPDATE recipients SET claimed_by = $2 WHERE account_id = $1 AND address = 'a@b.test'`,
      values: [account.id, claimedBy],
    });
  await claimed(newId());
  const [, first] = await ask('A@B.test');
  const [, again] = await ask('Ann <a@b.test>', { token }, { suppression: 'remove' });
  t.equal(again.id, first.id, 'a pending request is returned again');
  t.match([first.suppression, again.suppression], ['keep', 'remove'], 'with all that anybody asked for');
  const get = async (id: string) =>
    (await node.call('GET', `/api/v1/recipients/erasures/${id}`, { key: reader })).body.erasure;
  const [, other] = await ask('nobody@b.test');
  await eventually(async () => (await get(other.id)).status === 'done');
  t.match(await get(first.id), { status: 'pending', counts: { emails: 0, canceled: 0 } });
  const [{ sealed_address: sealed } = { sealed_address: null }] = await node.db.query<{
    sealed_address: Buffer | null;
  }>({
    text: 'SELECT sealed_address FROM erasures WHERE id = $1',
    values: [first.id],
  });
  t.ok(sealed && !sealed.includes('a@b.test'), 'until then the address is kept, sealed');
  await claimed(null);
  const done = await eventually(async () => {
    const erasure = await get(first.id);
    return erasure.status === 'done' && erasure;
  });
  t.match(done, { counts: { emails: 1, recipients: 1, canceled: 1, contents: 1 } });
  const [, later] = await ask('a@b.test');
  t.not(later.id, first.id, 'a finished request is not taken up again');
  t.equal(later.address_hash, first.address_hash);
});

const readLines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

t.test('an export contains everything of the account, and no secret', async (t) => {
  const mailer = await startMailer();
  const { node, key, account, domainId } = mailer;
  const token = await logIn(mailer);
  const post = (path: string, body: object) => node.call('POST', `/api/v1${path}`, { token, body });
  const { secret } = (await post('/webhooks', { url: 'https://hooks.example.com/', events: ['email.queued'] })).body;
  await post('/templates', { name: 'n', text: 'of the template' });
  await post('/suppressions', { address: 'them@b.test' });
  const attachments = [{ filename: 'a.txt', content: Buffer.from('the file').toString('base64') }];
  const { email } = (await mailer.send({ to: ['a@b.test', 'c@d.test'], bcc: 'e@f.test', html: '<p>h', attachments }))
    .body;
  await node.db.query({
    text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, phase, outcome, reason)
           SELECT $1, gen_random_uuid(), 'a@b.test', n, now(), 5, 'data', 'deferred', 'later' FROM generate_series(1, 1100) n`,
    values: [email.id],
  });
  const get = async (query = '') => {
    const answer = await node.call('GET', `/api/v1/account/export${query}`, { token });
    t.match(answer.headers.get('content-disposition'), `attachment; filename="sendwright-${account.id}.ndjson"`);
    return answer.body as string;
  };
  const text = await get();
  const lines = readLines(text);
  const of = (type: string) => lines.filter((line) => line.type === type);
  t.match(of('account'), [{ id: account.id, plan: 'unlimited', retention: { log_days: 30, content_days: 30 } }]);
  t.match(of('user'), [{ email: account.email, role: 'member' }]);
  t.match(of('domain'), [{ id: domainId, dkim_public_key: /^[A-Za-z0-9+/=]{300,}$/ }]);
  t.match(of('api_key'), [{ key_prefix: key.slice(0, 12) }]);
  t.match(of('template'), [{ name: 'n', draft: { text: 'of the template' }, published: null }]);
  t.match(of('suppression'), [{ address: 'them@b.test' }]);
  t.match(of('webhook'), [{ url: 'https://hooks.example.com/' }]);
  t.match(of('email'), [
    { id: email.id, to: ['a@b.test', 'c@d.test'], recipients: { length: 3 }, returns: [], email_type: 'transactional' },
  ]);
  t.match(of('attempt')[0], {
    email_id: email.id,
    duration_ms: 5,
    phase: 'data',
    outcome: 'deferred',
    reason: 'later',
  });
  t.equal(new Set(of('attempt').map(({ id }) => id)).size, 1_100, 'page after page');
  t.match(of('content'), [{ email_id: email.id, html: '<p>h', text: 't', attachments: [{ filename: 'a.txt' }] }]);
  const [{ sha256 }] = of('content')[0].attachments;
  t.match(of('attachment'), [{ sha256, size: 8, content: attachments[0]?.content }]);
  t.match(of('webhook_delivery'), [{ email_id: email.id, payload: { type: 'email.queued' } }]);
  const end = lines.at(-1);
  t.match(end, { type: 'end', complete: true, counts: { email: 1, attempt: 1_100, content: 1, user: 1 } });
  t.equal(
    Object.values(end.counts as Record<string, number>).reduce((sum, n) => sum + n),
    lines.length - 1,
  );

  const stored = await node.db.query<{ hash: string; sealed: string; password: string }>({
    text: `SELECT encode(k.key_hash, 'hex') AS hash, encode(d.dkim_private_key, 'base64') AS sealed, u.password_hash AS password
             FROM api_keys k JOIN domains d USING (account_id) JOIN users u USING (account_id) WHERE account_id = $1`,
    values: [account.id],
  });
  const secrets = [secret, key, ...stored.flatMap((row) => Object.values(row))];
  t.ok(secrets.length >= 5);
  for (const one of secrets) t.notOk(text.includes(one.slice(0, 60)), 'no secret is in it');
  t.strictSame(
    readLines(await get('?attachments=referenced')).find(({ type }) => type === 'attachment'),
    {
      type: 'attachment',
      sha256,
      size: 8,
    },
  );
  const without = readLines(await get('?webhook_deliveries=omitted'));
  t.strictSame(
    [...new Set(lines.map(({ type }) => type))].filter((type) => !without.some((line) => line.type === type)),
    ['webhook_delivery'],
  );
  const other = await startMailer();
  const theirs = await node.call('GET', '/api/v1/account/export', { token: await logIn(other) });
  for (const trace of [account.id, email.id, account.email, 'them@b.test']) t.notOk(theirs.body.includes(trace));
});

/** How often contents were read so far, and how many statements are running. */
function countReads(node: TestNode): { reads: () => number; underWay: () => number } {
  const { query } = node.db;
  let [reads, underWay] = [0, 0];
  node.db.query = async (statement) => {
    if (statement.text.startsWith('SELECT email_id AS "emailId", html')) reads += 1;
    underWay += 1;
    return query<never>(statement).finally(() => (underWay -= 1));
  };
  return { reads: () => reads, underWay: () => underWay };
}

t.test('an export is read as fast as its client reads, and ends with its client', async (t) => {
  const mailer = await startMailer();
  const { node } = mailer;
  const emails = 24;
  for (let n = 0; n < emails; n += 1) await mailer.send({ text: 'x'.repeat(3 * 1024 * 1024) });
  const { query } = node.db;
  t.teardown(() => {
    node.db.query = query;
  });
  const { reads, underWay } = countReads(node);
  const token = await logIn(mailer);
  const open = async (): Promise<IncomingMessage> => {
    const asked = request(`${node.baseUrl}/api/v1/account/export`, { headers: { Authorization: `Bearer ${token}` } });
    const [response] = await once(asked.end(), 'response');
    return response as IncomingMessage;
  };
  const idle = await open();
  // A short standstill of the database or this process is not the end: so it looks twice, and at what is running.
  const steady = async () => {
    const before = reads();
    await pause(300);
    const between = reads() === before && underWay() === 0;
    await pause(300);
    return between && reads() === before && underWay() === 0;
  };
  await eventually(async () => reads() > 0 && (await steady()));
  const paused = reads();
  t.ok(paused < emails / 2, `${paused} of ${emails} were read for a client that reads nothing`);
  idle.destroy();
  await pause(300);
  t.ok(reads() <= paused + 1, 'nothing more for one that is gone');

  const [unread, second] = [await open(), await open()];
  const ask = (bearer: string) => node.call('GET', '/api/v1/account/export', { token: bearer });
  const refused = await ask(token);
  t.match(
    [refused.status, refused.body, refused.headers.get('retry-after')],
    [429, { error: 'rate limited', detail: 'an account may have 2 exports running at a time' }, '30'],
  );
  t.equal((await ask(await logIn(await startMailer()))).status, 200, 'other accounts may');
  second.destroy();
  const third = await eventually(async () => {
    const response = await open();
    return response.statusCode === 429 ? !response.resume() : response;
  });
  t.equal(third.statusCode, 200, 'and so may this one, once one has ended');
  unread.destroy();

  let end = '';
  for await (const chunk of third) end = `${end}${chunk}`.slice(-300);
  t.match(readLines(`{}\n${end.slice(end.lastIndexOf('{"type":"end"'))}`)[1], {
    counts: { email: emails, content: emails },
  });
  t.equal((await node.call('GET', '/api/v1/emails?limit=1', { token })).status, 200);
});
