import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { connect, type Database } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, prepareSender, receiverZone } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { startScriptedMx } from '../support/mx.ts';
import { adminPassword, eventually, startTestNode, testEnv } from '../support/node.ts';
import { type SendwrightProcess, startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

/** Runs `work` while nobody can write an attempt down. */
async function withoutRecord(db: Database, work: () => Promise<void>) {
  await db.transaction(async (tx) => {
    // On a full machine the work takes longer than the service lets a transaction be idle: the lock would end halfway through.
    await tx.query({ text: 'SET LOCAL idle_in_transaction_session_timeout = 0' });
    await tx.query({ text: 'LOCK TABLE attempts' });
    await work();
  });
}

/** Resolves when somebody is about to settle the recipient, and cannot go on. */
const beingSettled = (db: Database) =>
  eventually(async () => {
    const free = await db.query({ text: 'SELECT FROM recipients FOR NO KEY UPDATE SKIP LOCKED' });
    return free.length === 0;
  });

/** Twenty times what it takes: whatever does not come is said to be late, and what the test started is ended. */
const inTime = { timeout: 400_000 };

/** SQL: sessions that wait for a lock in a statement like this. */
const waiting = (statement: string) =>
  `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '${statement}'`;

/**
 * An email whose node was killed after its receiver had said 250, and before that was written down. The other node, which
 * is in this process, sends nothing itself, so that what comes of the email is decided by what the test asks of it.
 */
async function openScene(t: Test) {
  const databaseUrl = await createDatabase();
  const db = connect(databaseUrl, silentLog);
  t.teardown(() => db.close());
  const received: string[] = [];
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet();
    for (const answer of ['250 ok', '250 ok', '354 go']) await peer.answer(answer);
    received.push(await peer.until('\r\n.\r\n'));
    peer.send('250 2.0.0 taken\r\n');
    await peer.until('QUIT');
  });
  t.teardown(() => mx.close());
  const zone = await startZone(receiverZone);
  t.teardown(() => zone.close());
  const hook = await startHook(t);
  const env = testEnv(databaseUrl, directEnv(zone, mx.port));
  const start = (more: Record<string, string>) => {
    const starting = startSendwright({ ...env, ...more });
    // Before it is there: a test that fails meanwhile would leave it running, and wait for it forever.
    t.teardown(() =>
      starting.then(
        (app) => app.end('SIGKILL'),
        () => undefined,
      ),
    );
    return starting;
  };
  const other = await startTestNode(t, { ...env, ROLES: 'api,webhooks' });
  const key = await prepareSender(other, zone, 'killed.test');
  const admin = { email: 'admin@example.test', password: adminPassword };
  const { token } = (await other.call('POST', '/api/v1/auth/login', { body: admin })).body;
  const events = ['email.sent', 'email.delivered', 'email.failed'];
  await other.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events } });

  const DATA_DIR = await mkdtemp(join(tmpdir(), 'sendwright-stopped-'));
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true }));
  const sending = await start({ DATA_DIR });
  const [node] = await db.query<{ id: string }>({ text: `SELECT id FROM nodes WHERE 'mta' = ANY(roles)` });
  const body = { from: 'a@killed.test', to: 'b@receiver.test', subject: 'stopped', text: 'stopped' };
  let id = '';
  await withoutRecord(db, async () => {
    ({ id } = (await other.call('POST', '/api/v1/emails', { key, body })).body.email);
    await eventually(async () => received.length === 1);
    await beingSettled(db);
    await sending.end('SIGKILL');
    // Its COMMIT may be on the way already.
    await eventually(async () => {
      await db.query({ text: `SELECT pg_terminate_backend(pid) ${waiting('%attempts%')}` });
      return (await db.query({ text: 'SELECT FROM recipients FOR NO KEY UPDATE SKIP LOCKED' })).length > 0;
    });
  });
  const seen = (when: string) =>
    db.query({ text: `UPDATE nodes SET seen_at = now() + interval '${when}' WHERE id = $1`, values: [node?.id] });
  // It is found dead when that is asked for, however long this takes.
  await seen('1 hour');
  return {
    ...{ db, other, received, hook, DATA_DIR },
    stop: () => other.call('POST', `/api/v1/emails/${id}/stop`, { key }),
    read: async (path = '') => (await other.call('GET', `/api/v1/emails/${id}${path}`, { key })).body,
    /** Starts the killed one again; resolves when it has written down what its journal says. */
    startAgain: (): Promise<SendwrightProcess> => start({ DATA_DIR }),
    /** Has it found dead, as if so long had passed without a sign of its life. */
    async bury() {
      await seen('-40 s');
      const free = { text: 'SELECT FROM recipients WHERE claimed_by IS NULL' };
      await eventually(async () => (await db.query(free)).length > 0);
    },
  };
}

t.test('given up after its node was found dead: it failed, and is explained as what arrived', inTime, async (t) => {
  const { other, received, hook, DATA_DIR, stop, read, startAgain, bury } = await openScene(t);
  t.match(await stop(), { status: 409, body: { detail: /is being delivered at this moment/ } });
  await bury();
  t.match(await stop(), { status: 200, body: { stopped: 1, in_hand: 0, email: { status: 'failed' } } });

  const again = await startAgain();
  const { attempts } = await read('/attempts');
  t.equal(attempts.length, 1);
  t.match(attempts, [{ outcome: 'delivered', reply: '250 2.0.0 taken', uncertain: false }]);
  t.match((await read()).email, { status: 'failed', recipients: [{ status: 'failed' }] });
  t.match((await read('/explain')).recipients, [{ cause: 'given_up', sentence: /but did arrive/, attempts: 0 }]);
  t.match(await stop(), { status: 409, body: { detail: /no recipient of the email is waiting any more/ } });
  t.equal(await again.end('SIGTERM'), 0);
  t.same(await readdir(join(DATA_DIR, 'journal')), []);
  t.equal(received.length, 1);
  await eventually(async () => hook.calls.length > 0);
  await t.resolves(other.stop());
  t.same(
    hook.calls.map(({ json }) => json.type),
    ['email.failed'],
  );
});

t.test('to be given up while the journal of its node is written down: it was delivered', inTime, async (t) => {
  const { db, other, received, hook, stop, read, startAgain } = await openScene(t);
  let starting: ReturnType<typeof startAgain> | undefined;
  let stopping: ReturnType<typeof stop> | undefined;
  await withoutRecord(db, async () => {
    starting = startAgain();
    await beingSettled(db);
    stopping = stop();
    await eventually(async () => (await db.query({ text: `SELECT ${waiting('%in_hand%')}` })).length > 0);
  });
  t.match(await stopping, { status: 409, body: { detail: /no recipient of the email is waiting any more/ } });
  const again = await starting;
  t.match((await read()).email, { status: 'sent', recipients: [{ status: 'delivered', attempts: 1 }] });
  t.equal(await again?.end('SIGTERM'), 0);
  t.equal(received.length, 1, 'and is not sent again');
  await eventually(async () => hook.calls.length === 2);
  await t.resolves(other.stop());
  t.same(hook.calls.map(({ json }) => json.type).sort(), ['email.delivered', 'email.sent']);
});
