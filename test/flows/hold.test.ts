import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import t from 'tap';
import * as orders from '../../src/core/destinations/destination-orders.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { connect } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { sendwright, told } from '../cli/terminal.ts';
import { createDatabase } from '../support/db.ts';
import { eventually, startTestNode, type TestNode, testEnv } from '../support/node.ts';

/** A database as restored from a backup of this one, which is not in use. */
async function restore(url: string): Promise<string> {
  const { pathname } = new URL(url);
  const copy = new URL(url);
  copy.pathname = `${pathname}_copy`;
  const server = new URL(url);
  server.pathname = '/postgres';
  const admin = new pg.Client({ connectionString: server.href });
  await admin.connect();
  await admin.query(`CREATE DATABASE "${copy.pathname.slice(1)}" TEMPLATE "${pathname.slice(1)}"`);
  await admin.end();
  return copy.href;
}

const secrets = { JWT_SECRET: randomBytes(32).toString('hex'), ENCRYPTION_KEY: randomBytes(32).toString('hex') };

async function credentials(node: TestNode) {
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  return { token };
}

const arrived = async (node: TestNode, token: string): Promise<string[]> =>
  (await node.call('GET', '/api/v1/sandbox/messages', { token })).body.messages.map(
    (message: { rcpt_to: string[] }) => message.rcpt_to[0] ?? '',
  );

t.test('QUE-23: a restored database sends nothing by itself, and then only what somebody decides', async (t) => {
  const url = await createDatabase();
  const before = await startTestNode(t, { DATABASE_URL: url, ROLES: 'api', ...secrets });
  const { token } = await credentials(before);
  await before.call('POST', '/api/v1/domains', { token, body: { domain: 'shop.test' } });
  const { domains } = (await before.call('GET', '/api/v1/domains', { token })).body;
  await before.call('POST', `/api/v1/domains/${domains[0].id}/verify`, { token });
  const { key } = (await before.call('POST', '/api/v1/keys', { token, body: { name: 'k' } })).body;
  const send = (node: TestNode, to: string, later?: Date) =>
    node.call('POST', '/api/v1/emails', {
      key,
      body: { from: 'a@shop.test', to, subject: 's', text: 't', ...(later && { scheduled_at: later.toISOString() }) },
    });
  const ids: string[] = [];
  for (const name of ['one', 'two', 'three']) ids.push((await send(before, `${name}@anywhere.test`)).body.email.id);
  const later = new Date(Date.now() + 3_600_000);
  const scheduled = (await send(before, 'scheduled@anywhere.test', later)).body.email.id;
  await before.stop();

  const restored = await restore(url);
  const said: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void said.push(line) });
  const node = await startTestNode(t, { DATABASE_URL: restored, START_ON_HOLD: 'true', ...secrets }, { log });
  t.equal(said.filter((line) => line.includes('the service is on hold, so nothing is sent')).length, 1);
  const db = connect(restored, silentLog, 2);
  const queue = createQueue(restored, silentLog);
  await queue.start();
  t.teardown(async () => {
    await queue.stop();
    await db.close();
  });
  const statusOf = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email;
  t.equal((await send(node, 'four@anywhere.test')).status, 200, 'mail is accepted');
  await db.query({
    text: `UPDATE recipients SET next_attempt_at = now() + interval '1 s' WHERE email_id = $1`,
    values: [scheduled],
  });
  await sleep(2_000);
  t.same(await arrived(node, token), [], 'and none is sent, not even mail that became due meanwhile');
  t.equal(await hold.countWaiting(db), 3);
  t.match((await node.call('GET', `/api/v1/emails/${ids[0]}/explain`, { key })).body, {
    summary: /^queued: .* service is on hold and has sent nothing since /,
    recipients: [{ cause: 'on_hold', advice: /sendwright release/ }],
  });

  // Emails that were set aside may have been sent as well, even those made due during the hold.
  const aside = `UPDATE recipients SET waiting_for = 'anywhere.test is paused', job_id = NULL, next_attempt_at = now() + interval '1 day'
                  WHERE email_id = ANY($1)`;
  await db.query({ text: aside, values: [ids.slice(0, 2)] });
  t.equal(await hold.countWaiting(db), 3);
  t.same(await orders.flush(db, 'anywhere.test', ['anywhere.test']), { recipients: 2, rest: false });
  t.equal(await hold.countWaiting(db), 3);

  // Somebody is locking some of them right now, as if to make jobs for them.
  const locked = Promise.withResolvers<void>();
  const inHand = db.transaction(async (tx) => {
    await tx.query({ text: 'SELECT FROM recipients WHERE email_id = ANY($1) FOR UPDATE', values: [ids.slice(0, 2)] });
    locked.resolve();
    await sleep(500);
  });
  await locked.promise;
  t.same(await hold.end(db, queue, 'fail'), { failed: 3 });
  await inHand;
  const sent = await eventually(async () => {
    const names = await arrived(node, token);
    return names.length >= 2 && names.toSorted();
  });
  t.same(sent, ['four@anywhere.test', 'scheduled@anywhere.test'], 'mail that became due after the hold began is sent');
  for (const id of ids) t.match(await statusOf(id), { status: 'failed', error: /may have been sent before/ });
  await eventually(async () => (await statusOf(scheduled)).status === 'sent');

  await hold.begin(db);
  await sleep(6_000);
  let id = '';
  let isHeld = false;
  // On a busy machine the node may need a little more than five seconds to notice.
  for (let round = 0; round < 20 && !isHeld; round += 1) {
    id = (await send(node, 'five@anywhere.test')).body.email.id;
    await sleep(1_500);
    isHeld = (await statusOf(id)).status === 'queued';
  }
  t.ok(isHeld, 'a running node notices');
  t.same(await hold.end(db, queue, 'send'), { failed: 0 });
  await eventually(async () => (await statusOf(id)).status === 'sent');
});

t.test('for a backup made during a hold, or a start that continues it, whoever ends it must decide', async (t) => {
  const url = await createDatabase();
  const first = await startTestNode(t, { DATABASE_URL: url, ...secrets });
  const { token } = await credentials(first);
  await first.call('POST', '/api/v1/domains', { token, body: { domain: 'shop.test' } });
  const { domains } = (await first.call('GET', '/api/v1/domains', { token })).body;
  await first.call('POST', `/api/v1/domains/${domains[0].id}/verify`, { token });
  const { key } = (await first.call('POST', '/api/v1/keys', { token, body: { name: 'k' } })).body;
  const send = async (node: TestNode, to: string) => {
    const body = { from: 'a@shop.test', to, subject: 's', text: 't' };
    return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id as string;
  };
  const statusOf = async (node: TestNode, id: string) =>
    (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email;
  await first.stop();

  // On hold since before the email, so a new node sees it at once.
  const environment = (databaseUrl: string) => testEnv(databaseUrl, secrets);
  t.match(await sendwright(environment(url), 'hold'), { code: 0, printed: /; 0 recipients were due/ });
  const original = await startTestNode(t, { DATABASE_URL: url, ...secrets });
  const duringHold = await send(original, 'during@anywhere.test');
  await original.stop();
  const copy = await restore(url);

  await t.test('a start that continues it loses nothing', async (t) => {
    const node = await startTestNode(t, { DATABASE_URL: url, START_ON_HOLD: 'true', ...secrets });
    const afterStart = await send(node, 'after@anywhere.test');
    const asked = await told(environment(url), 'release', '--waiting', 'fail');
    t.match(asked, { code: 1, released: false, undecided: { waiting: 0, waiting_at_last_start: 1 } });
    const { on_hold_since: since, starts } = asked.undecided;
    t.equal(starts.length, 2);
    const { printed } = await sendwright(environment(url), 'release', '--waiting', 'fail');
    for (const time of [since, starts.at(-1)]) t.match(printed, `--due-by ${time}`);
    t.match(await statusOf(node, duringHold), { status: 'queued' });

    t.match(await told(environment(url), 'release', '--waiting', 'fail', '--due-by', since), { code: 0, failed: 0 });
    for (const id of [duringHold, afterStart])
      await eventually(async () => (await statusOf(node, id)).status === 'sent');
    t.same((await arrived(node, token)).toSorted(), ['after@anywhere.test', 'during@anywhere.test']);
    await node.stop();
  });

  await t.test('a start on a copy from before the release sends nothing twice', async (t) => {
    const node = await startTestNode(t, { DATABASE_URL: copy, START_ON_HOLD: 'true', ...secrets });
    const afterStart = await send(node, 'anew@anywhere.test');
    const asked = await told(environment(copy), 'release', '--waiting', 'fail');
    t.match(asked, { code: 1, released: false, undecided: { waiting: 0, waiting_at_last_start: 1 } });
    const { on_hold_since: since, starts } = asked.undecided;
    const misused: [string[], RegExp][] = [
      [['fail', '--due-by', 'today'], /due-by: must be an RFC 3339 timestamp/],
      [['send', '--due-by', since], /--due-by needs --waiting fail/],
      [['fail', '--due-by', '2020-01-01T00:00:00Z'], /must be between 20.*, when the hold began, and now/],
      [['fail', '--due-by', '9000-01-01T00:00:00Z'], /must be between/],
    ];
    for (const [args, said] of misused)
      t.match(await sendwright(environment(copy), 'release', '--waiting', ...args), { code: 2, said });

    const released = await told(environment(copy), 'release', '--waiting', 'fail', '--due-by', starts.at(-1));
    t.match(released, { code: 0, released: true, failed: 1 });
    await eventually(async () => (await statusOf(node, afterStart)).status === 'sent');
    t.match(await statusOf(node, duringHold), { status: 'failed', error: /may have been sent before/ });
    t.same(await arrived(node, token), ['anew@anywhere.test']);
  });
});
