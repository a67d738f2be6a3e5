import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, mailHostname, prepareSender } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { startScriptedMx } from '../support/mx.ts';
import { adminPassword, eventually, startTestNode, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

t.test(
  'a node is killed between the dot and the answer, and another one buries it: with on_uncertain: hold the email is held and reported',
  async (t) => {
    const databaseUrl = await createDatabase();
    const db = connect(databaseUrl, silentLog);
    t.teardown(() => db.close());
    const received: string[] = [];
    let answers = false;
    const mx = await startScriptedMx(async (peer) => {
      await peer.greet();
      for (const answer of ['250 ok', '250 ok', '354 go']) await peer.answer(answer);
      const content = await peer.until('\r\n.\r\n');
      received.push(/^Subject: (.*)\r$/m.exec(content)?.[1] ?? '');
      if (!answers) return new Promise<void>(() => {});
      peer.send('250 taken\r\n');
      await peer.until('QUIT');
    });
    t.teardown(() => mx.close());
    const zone = await startZone({
      [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
      'held.test': { A: ['127.0.0.1'] },
      'retried.test': { A: ['127.0.0.1'] },
    });
    t.teardown(() => zone.close());
    const hook = await startHook(t);
    const env = testEnv(databaseUrl, directEnv(zone, mx.port));
    const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-uncertain-'));
    t.teardown(() => rm(dataDir, { recursive: true, force: true }));
    const killed = await startSendwright({ ...env, DATA_DIR: dataDir });
    t.teardown(() => killed.end('SIGKILL'));
    const key = await prepareSender(killed, zone, 'killed.test');
    const admin = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await killed.call('POST', '/api/v1/auth/login', { body: admin })).body;
    const events = ['email.uncertain', 'email.delayed', 'email.sent'];
    await killed.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events } });
    const send = async (subject: 'held' | 'retried', fields: object) => {
      const body = { from: 'a@killed.test', to: `b@${subject}.test`, subject, text: 't', ...fields };
      return (await killed.call('POST', '/api/v1/emails', { key, body })).body.email.id as string;
    };
    const held = await send('held', { on_uncertain: 'hold' });
    const retried = await send('retried', {});
    await eventually(async () => received.length === 2);
    await killed.end('SIGKILL');
    answers = true;

    const [dead] = await db.query<{ id: string }>({ text: 'SELECT id FROM nodes' });
    const other = await startTestNode(t, env);
    // As if it had not been seen for that long.
    await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '40 s' WHERE id = $1`, values: [dead?.id] });
    const read = async (path: string) => (await other.call('GET', `/api/v1/emails/${path}`, { key })).body;
    await eventually(async () => (await read(retried)).email.status === 'sent');
    const explained = await eventually(async () => {
      const [one] = (await read(`${held}/explain`)).recipients;
      return one.cause !== 'being_delivered' && one;
    });
    t.match(explained, { cause: 'uncertain', next_attempt_at: null });
    t.match((await read(held)).email.recipients, [
      { status: 'deferred', attempts: 1, last_response: /may have been taken/, next_attempt_at: null },
    ]);
    await eventually(async () => hook.calls.length >= 2);
    t.match(
      hook.calls.map(({ json }) => [json.type, json.data.email_id]).sort(),
      [
        ['email.sent', retried],
        ['email.uncertain', held],
      ],
      'the held one is not delayed: nobody retries it',
    );
    t.match(hook.calls.find(({ json }) => json.type === 'email.uncertain')?.json.data.recipients, [
      { address: 'b@held.test', status: 'deferred' },
    ]);

    const released = await other.call('POST', `/api/v1/emails/${held}/release`, { key, body: { as: 'retry' } });
    t.match(released, { status: 200, body: { released: 1 } });
    await eventually(async () => (await read(held)).email.status === 'sent');
    t.same(received.sort(), ['held', 'held', 'retried', 'retried'], 'it was sent again once that was decided');
    await t.resolves(other.stop());
  },
);
