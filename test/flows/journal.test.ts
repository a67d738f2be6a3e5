import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { connect, type Database } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, prepareSender, receiverZone } from '../support/direct.ts';
import { type Peer, startScriptedMx } from '../support/mx.ts';
import { eventually, startTestNode, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

interface Scene {
  db: Database;
  peer: Peer;
  kill(): Promise<void>;
}

/** A service that is killed in the middle of its first message, when `atDot` says so, and restarted, in this process. */
async function killAndRestart(t: Test, atDot: (scene: Scene) => Promise<void>) {
  const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-journal-'));
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  const databaseUrl = await createDatabase();
  const db = connect(databaseUrl, silentLog);
  t.teardown(() => db.close());
  const received: string[] = [];
  const dead = Promise.withResolvers<void>();
  const mx = await startScriptedMx(async (peer, number) => {
    await peer.greet();
    for (const answer of ['250 ok', '250 ok', '354 go']) await peer.answer(answer);
    received.push(await peer.until('\r\n.\r\n'));
    if (number > 0) return peer.send('250 2.0.0 taken again\r\n');
    await atDot({ db, peer, kill: async () => void (await app.end('SIGKILL')) }).then(dead.resolve, dead.reject);
  });
  t.teardown(() => mx.close());
  const zone = await startZone(receiverZone);
  t.teardown(() => zone.close());
  const env = testEnv(databaseUrl, { ...directEnv(zone, mx.port), DATA_DIR: dataDir });
  const app = await startSendwright(env);
  t.teardown(() => app.end('SIGKILL'));
  const key = await prepareSender(app, zone, 'killed.test');
  const body = { from: 'a@killed.test', to: 'b@receiver.test', subject: 'journal', text: 'journal' };
  const { id } = (await app.call('POST', '/api/v1/emails', { key, body })).body.email;
  await dead.promise;
  t.equal((await readdir(join(dataDir, 'journal'))).length, 1, 'the killed process left its journal');

  const restarted = await startTestNode(t, env);
  const read = async (path = '') => (await restarted.call('GET', `/api/v1/emails/${id}${path}`, { key })).body;
  await eventually(async () => (await read()).email.status === 'sent');
  const { email } = await read();
  const { attempts } = await read('/attempts');
  await t.resolves(restarted.stop());
  t.same(await readdir(join(dataDir, 'journal')), [], 'nothing is left to recover');
  return { received, email, attempts };
}

t.test('killed between the answer to the dot and the record of it: it is not sent again', async (t) => {
  const { received, email, attempts } = await killAndRestart(t, async ({ db, peer, kill }) => {
    const over = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const lock = db.transaction(async (tx) => {
      // A full machine takes longer than a transaction may be idle.
      await tx.query({ text: 'SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE attempts' });
      locked.resolve();
      await over.promise;
    });
    await locked.promise;
    peer.send('250 2.0.0 taken\r\n');
    // Of this database: others on the same server wait for locks of their own.
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await eventually(async () => (await db.query({ text: waits })).length > 0);
    await kill();
    over.resolve();
    await lock;
  });
  t.equal(received.length, 1);
  t.match(email.recipients, [{ status: 'delivered', attempts: 1 }]);
  t.equal(attempts.length, 1);
  t.match(attempts[0], {
    outcome: 'delivered',
    uncertain: false,
    reply: '250 2.0.0 taken',
    mx_host: 'receiver.test',
  });
});

t.test('killed between the dot and the answer to it: sent again, and the log says so', async (t) => {
  const { received, email, attempts } = await killAndRestart(t, ({ kill }) => kill());
  t.equal(received.length, 2);
  const ids = received.map((text) => /^Message-ID: (.*)\r$/im.exec(text)?.[1]);
  t.ok(ids[0]);
  t.equal(ids[0], ids[1], 'a receiver can tell that they are the same');
  t.match(email.recipients, [{ status: 'delivered', attempts: 2 }]);
  t.match(attempts, [
    {
      number: 1,
      outcome: 'deferred',
      uncertain: true,
      phase: 'dot',
      reason: /server was stopped.*may have been taken/,
    },
    { number: 2, outcome: 'delivered', uncertain: false },
  ]);
});
