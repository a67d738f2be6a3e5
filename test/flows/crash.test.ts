import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { directEnv, prepareSender, receiverZone } from '../support/direct.ts';
import { startScriptedMx } from '../support/mx.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

const admin = { ADMIN_EMAIL: 'admin@example.test', ADMIN_PASSWORD: adminPassword };

t.test('an email survives three kill -9, each in the middle of its delivery', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sendwright crash '));
  await chmod(dataDir, 0o755);
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  let kills = 0;
  let reached = () => {};
  const delivered: string[] = [];
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet('PIPELINING');
    await peer.until('DATA\r\n');
    if (kills < 3) {
      kills += 1;
      reached();
      return new Promise<void>(() => {});
    }
    peer.send('250 ok\r\n250 ok\r\n354 go\r\n');
    delivered.push(await peer.until('\r\n.\r\n'));
    peer.send('250 taken\r\n');
    await peer.until('QUIT');
  });
  t.teardown(() => mx.close());
  const zone = await startZone(receiverZone);
  t.teardown(() => zone.close());
  const env = { ...directEnv(zone, mx.port), ...admin, DATA_DIR: dataDir };

  let app = await startSendwright(env);
  const key = await prepareSender(app, zone, 'crashing.test');
  let hit = new Promise<void>((resolve) => (reached = resolve));
  const sent = await app.call('POST', '/api/v1/emails', {
    key,
    body: { from: 'a@crashing.test', to: 'b@receiver.test', subject: 'not lost', text: 'not lost' },
  });
  t.equal(sent.status, 200);
  for (let round = 1; round <= 3; round += 1) {
    await hit;
    hit = new Promise<void>((resolve) => (reached = resolve));
    t.equal(await app.end('SIGKILL'), 'SIGKILL', `kill ${round}`);
    app = await startSendwright(env);
  }
  const email = await eventually(async () => {
    const { body } = await app.call('GET', `/api/v1/emails/${sent.body.email.id}`, { key });
    return body.email.status === 'sent' && body.email;
  });
  t.equal(email.recipients[0].status, 'delivered');
  t.equal(delivered.length, 1);
  t.match(delivered[0], /not lost/);
  t.match(app.stderr(), /the password from the first start/, 'the second start does not create another admin');
  t.equal(await app.end('SIGTERM'), 0, 'it finishes its work and ends');
});

t.test('SIGTERM under load, over and over, loses nothing and sends nothing twice: QUE-16', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sendwright drain '));
  await chmod(dataDir, 0o755);
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  const received: string[] = [];
  let waiting = 0;
  const toldTwice = Promise.withResolvers<void>();
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet();
    for (;;) {
      const line = await peer.line();
      if (line === 'QUIT') return;
      if (line !== 'DATA') {
        peer.send('250 ok\r\n');
        continue;
      }
      peer.send('354 go\r\n');
      const content = await peer.until('\r\n.\r\n');
      if (received.length >= 10) {
        waiting += 1;
        await toldTwice.promise;
      }
      received.push(/^Subject: (.*)\r$/m.exec(content)?.[1] ?? '');
      peer.send('250 taken\r\n');
    }
  });
  t.teardown(() => mx.close());
  const zone = await startZone(receiverZone);
  t.teardown(() => zone.close());
  const env = { ...directEnv(zone, mx.port), ...admin, DATA_DIR: dataDir };

  let app = await startSendwright(env);
  const key = await prepareSender(app, zone, 'draining.test');
  const subjects = Array.from({ length: 120 }, (_, index) => `message ${index}`);
  const answers = await Promise.all(
    subjects.map((subject) =>
      app.call('POST', '/api/v1/emails', {
        key,
        body: { from: 'a@draining.test', to: 'b@receiver.test', subject, text: 't' },
      }),
    ),
  );
  for (const answer of answers) t.equal(answer.status, 200);
  await eventually(async () => waiting > 0);
  const ended = app.end('SIGTERM');
  const finishing = () => app.stderr().match(/finishing the work in progress/g)?.length;
  await eventually(async () => finishing());
  // As impatient operators do, and supervisors that signal all processes.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGTERM'] as const) process.kill(app.pid, signal);
  await eventually(async () => {
    process.kill(app.pid, 'SIGINT');
    return /still finishing: this ends within \d+ s/.test(app.stderr());
  });
  t.ok(received.length < subjects.length, 'there is work left when it is told to stop');
  toldTwice.resolve();
  t.equal(await ended, 0);
  t.equal(finishing(), 1, 'the stop is logged once');
  app = await startSendwright(env);
  // Until nothing is left to send: a second copy would come after the other emails.
  await eventually(async () => {
    const { body } = await app.call('GET', '/api/v1/emails?status=queued&limit=1', { key });
    return received.length >= subjects.length && body.emails.length === 0;
  });
  t.strictSame(received.toSorted(), subjects.toSorted(), 'each arrived once');
  t.equal(await app.end('SIGINT'), 0);
  for (const line of app.stdout().trim().split('\n')) JSON.parse(line);
});
