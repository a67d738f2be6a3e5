import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import pg from 'pg';
import t from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import { startSubmission } from '../../src/inbound/submission.ts';
import { silentLog } from '../../src/log.ts';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';
import { newTurns } from '../support/turns.ts';
import { certificate, Dialog, plain, serverName, startSubmitter } from './scene.ts';

const shared = await startSubmitter(t);

const content = (from: string) => `From: ${from}\r\nSubject: s\r\n\r\nt`;

t.test('an email has as many recipients as in the REST API; the client is told to send the rest later', async (t) => {
  const { from, logIn, read } = await shared.sender();
  const dialog = await logIn();
  await dialog.ask(`MAIL FROM:<${from}>`);
  for (let n = 0; n < 100; n++) dialog.send(`RCPT TO:<a${n}@b.test>\r\n`);
  for (let n = 0; n < 100; n++) t.match(await dialog.reply(), /^250 /);
  t.match(await dialog.ask('RCPT TO:<one-more@b.test>'), /^452 /);
  await dialog.ask('DATA');
  t.equal((await read(await dialog.ask(`${content(from)}\r\n.`))).bcc.length, 100);
});

t.test('a message that is too large is refused before it is sent, or after', async (t) => {
  const { from, logIn, count } = await shared.sender();
  const dialog = await logIn();
  t.match(await dialog.ask(`MAIL FROM:<${from}> SIZE=50000000`), /^552 /);
  const line = `${'x'.repeat(998)}\r\n`;
  const reply = await dialog.message(from, `${content(from)}\r\n${line.repeat(42 * 1024)}`);
  t.match(reply, '552 5.3.4 the message must have at most 40 MB (41,943,040 octets)');
  t.match(await dialog.message(from, content(from)), /^250 /, 'the connection goes on');
  t.equal(await count(), 1);
});

t.test('a client that does nothing, or too much, keeps nobody else away: DOS-09', async (t) => {
  const { sender, dial, ports } = await startSubmitter(t);
  const { from, logIn } = await sender();
  const good = await logIn();
  const idle = await Promise.all(Array.from({ length: 49 }, () => dial('submission')));
  // The other port counts separately.
  t.match(await good.message(from, content(from)), /^250 /);
  const last = await dial('submission');
  t.match(await last.ask('NOOP'), /^250 /);
  const over = await Dialog.open(t, ports.submission, false, false);
  t.match(await over.reply(), /^421 mail\.submission\.test 4\.7\.0 too many connections/);
  t.equal(await over.rest(), '');
  idle[0]?.end();
  await idle[0]?.rest();
  t.match(await (await dial('submission')).ask('NOOP'), /^250 /, 'room is given back');
  const babbler = await dial('submissions');
  babbler.send('NOOP\r\n'.repeat(50_000));
  babbler.send(`${'x'.repeat(100_000)}`);
  t.match(await good.message(from, content(from)), /^250 /);
});

t.test('an account gets as many connections as it leaves to others: DOS-09', async (t) => {
  const { sender, dial, ports } = await startSubmitter(t, { most: { mostInAll: 8, mostOfOne: 9 } });
  const [one, other] = [await sender(), await sender()];
  const logIn = async (key: string) => {
    const dialog = await dial('submissions');
    await dialog.ask('EHLO client.test');
    return { dialog, reply: await dialog.ask(`AUTH PLAIN ${plain(key)}`) };
  };
  const taken = [];
  for (let n = 0; n < 4; n++) taken.push(await logIn(one.key));
  for (const { reply } of taken) t.match(reply, /^235 /);
  const over = await logIn(one.key);
  t.equal(over.reply, '421 4.7.0 this account has too many connections, try again later');
  t.equal(await over.dialog.rest(), '');
  const { dialog, reply } = await logIn(other.key);
  t.match(reply, /^235 /, 'another account has its share');
  t.match(await dialog.message(other.from, content(other.from)), /^250 /);
  for (const { dialog } of taken.splice(2)) {
    dialog.end();
    await dialog.rest();
  }
  t.match((await logIn(one.key)).reply, /^235 /, 'room is given back');

  await Promise.all(Array.from({ length: 8 }, () => dial('submission')));
  const ninth = await Dialog.open(t, ports.submission, false, false);
  t.match(await ninth.reply(), /^421 .* too many connections/, 'of one network or of several');
});

t.test('a connection with STARTTLS gives its room back too', async (t) => {
  const { sender } = await startSubmitter(t);
  const { mail } = await sender();
  for (let n = 0; n < 51; n++) t.match(await mail({}, { port: 'submission' }), { accepted: /^250 / });
});

t.test('the length of a command line is limited, and so are the commands before a login', async (t) => {
  const { dial } = shared;
  const long = await dial('submission');
  t.match(await long.ask(`EHLO ${'x'.repeat(5_000)}`), /^421 4\.5\.2 /);
  const stranger = await dial('submission');
  let last = '';
  for (let n = 0; n < 10 && !last.startsWith('421'); n++) last = await stranger.ask('NOOP');
  t.match(last, /^421 4\.7\.0 Error: too many unauthenticated/);
});

t.test('a client that does not log in, idles or lets a message trickle is hung up on in time: DOS-09', async (t) => {
  // Each on a server of its own: if the machine stands still, a client that says little looks like one that says nothing.
  const patient = { idleMs: 120_000, loginMs: 120_000, contentMs: 120_000 };
  const serverOf = (patience: Partial<typeof patient>) => startSubmitter(t, { patience: { ...patient, ...patience } });
  const [one, other, third] = [
    await serverOf({ idleMs: 6_000 }),
    await serverOf({ loginMs: 3_000 }),
    await serverOf({ contentMs: 4_000 }),
  ];
  const { key, from, count, logIn } = await one.sender();
  // In time: whoever has logged in, and whose message is through, may stay.
  const [guest, quick] = [await other.logIn(key), await third.logIn(key)];
  t.match(await quick.message(from, content(from)), /^250 /);
  const [slow, idle, stranger] = [await third.logIn(key), await logIn(), await other.dial('submission')];
  await slow.envelope(from);
  const trickle = setInterval(() => {
    stranger.send('N');
    slow.send('x');
  }, 50);
  t.teardown(() => clearInterval(trickle));
  t.match(await idle.reply(), /^421 4\.4\.2 Timeout/);
  t.match(await stranger.reply(), '421 4.7.0 no login in time');
  t.match(await slow.reply(), '421 4.4.2 the message took too long');
  for (const dialog of [idle, stranger, slow]) t.equal(await dialog.rest(), '');
  for (const dialog of [guest, quick]) t.match(await dialog.ask('NOOP'), /^250 /);
  t.equal(await count(), 1);
});

t.test('a client that does not end its TLS handshake is hung up on in time, others stay: DOS-09', async (t) => {
  const { ports, dial } = await startSubmitter(t, {
    patience: { idleMs: 120_000, loginMs: 3_000, contentMs: 120_000 },
  });
  const hello = Buffer.from([0x16, 0x03, 0x01, 0x40, 0x00]);
  const begins: Buffer[] = [Buffer.alloc(0), hello];
  const halves = begins.map((begin) => {
    const socket = connect(ports.submissions, '127.0.0.1').on('error', () => {});
    t.teardown(async () => {
      socket.destroy();
    });
    socket.write(begin);
    const trickle = begin === hello && setInterval(() => socket.write('\x01'), 50);
    return once(socket.resume(), 'close').then(() => trickle && clearInterval(trickle));
  });
  const whole = await dial('submissions');
  await Promise.all(halves);
  // It has time of its own for the login.
  t.match(await whole.reply(), '421 4.7.0 no login in time');
});

t.test('what is being received when the server stops is finished, the others are hung up on at once', async (t) => {
  const { sender, server, dial } = await startSubmitter(t);
  const { from, logIn, read } = await sender();
  const [busy, idle, stranger] = [await logIn(), await logIn(), await dial('submission')];
  await busy.envelope(from);
  busy.send('From: ');
  const closed = server.close(60_000);
  t.match(await idle.reply(), '421 4.3.2 the server is stopping');
  t.match(await stranger.reply(), '421 4.3.2 the server is stopping');
  const reply = await busy.ask(`${from}\r\nSubject: s\r\n\r\nt\r\n.`);
  t.match(await read(reply), { status: 'queued' });
  busy.end();
  await closed;
});

t.test('a client that connects at the moment of the stop ends with the server, not with the process', async (t) => {
  const { server, ports } = await startSubmitter(t);
  const stopped = Promise.withResolvers<void>();
  const stop = (message: unknown) => {
    // In the turn in which it was accepted: its TLS begins in the next one.
    if ((message as { socket: Socket }).socket.localPort === ports.submissions) stopped.resolve(server.close(1_000));
  };
  subscribe('net.server.socket', stop);
  t.teardown(async () => unsubscribe('net.server.socket', stop));
  const client = connect(ports.submissions, '127.0.0.1').on('error', () => undefined);
  await once(client.resume(), 'close');
  await stopped.promise;
});

t.test('while the database is away the client is told to try again, and nothing is accepted', async (t) => {
  const { sender, node, dial } = await startSubmitter(t);
  const { from, logIn, count, key } = await sender();
  const dialog = await logIn();
  await dialog.envelope(from);
  const name = new URL(node.databaseUrl).pathname.slice(1);
  const admin = new pg.Client({ connectionString: node.databaseUrl.replace(`/${name}`, '/postgres') });
  await admin.connect();
  await admin.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
  await admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
  t.equal(await dialog.ask(`${content(from)}\r\n.`), '451 4.3.0 the service is unavailable now, try again');
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^451 4\.3\.0 /);
  const late = await dial('submissions');
  await late.ask('EHLO client.test');
  t.match(await late.ask(`AUTH PLAIN ${plain(key)}`), /^454 4\.7\.0 /);
  await admin.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
  await admin.end();
  t.match(await dialog.message(from, content(from)), /^250 /);
  t.equal(await count(), 1);
});

t.test('a connection that went on with STARTTLS is not kept once it has ended', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const served: WeakRef<object>[] = [];
  const note = (message: unknown) => served.push(new WeakRef((message as { socket: object }).socket));
  subscribe('net.server.socket', note);
  t.teardown(() => unsubscribe('net.server.socket', note));
  for (let n = 0; n < 20; n += 1) {
    const dialog = await shared.dial('submission');
    await dialog.ask('EHLO client.test');
    await dialog.startTls();
    await dialog.ask('EHLO client.test');
    dialog.end();
    await dialog.rest();
  }
  unsubscribe('net.server.socket', note);
  const kept = () => served.filter((one) => one.deref() !== undefined).length;
  for (let round = 0; round < 20 && kept() > 5; round += 1) {
    await sleep(20);
    collect();
  }
  t.ok(served.length >= 20 && kept() <= 5, `${kept()} of ${served.length} are still there`);
});

t.test('a port that is in use stops the start with a line that names it', async (t) => {
  const { node, queue, ports } = shared;
  const options = {
    db: node.db,
    queue,
    fresh: new FreshBodies({ room: 0 }),
    commitTurns: newTurns(),
    log: silentLog,
    host: '127.0.0.1',
    name: serverName,
    tls: certificate,
    limiter: new TokenBuckets({ perSecond: 1, burst: 1 }),
  };
  await t.rejects(startSubmission({ ...options, ports: { submission: 0, submissions: ports.submission } }), {
    message: `SUBMISSIONS_PORT ${ports.submission} is in use by another program: stop it, or set SUBMISSIONS_PORT to a free one`,
  });
  const off = await startSubmission({ ...options, ports: { submission: null, submissions: null } });
  t.strictSame(off.ports, { submission: null, submissions: null });
  await off.close(0);
});
