import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { limits } from '../../src/core/accounts/send-limits.ts';
import { largestReturn } from '../../src/inbound/returns-content.ts';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { compose, type MessageParts } from '../../src/mail/compose/compose.ts';
import { createDatabase } from '../support/db.ts';
import { startGate } from '../support/gate.ts';
import { eventually } from '../support/node.ts';
import { bounce, complaint, host, returnPath, startReturns, unsubscribeAddress } from './returned.ts';
import { Dialog } from './scene.ts';

const scene = await startReturns(t);
const { dial, deliver } = scene;
const taken = /^250 2\.0\.0 taken/;

t.test('MAIL-01: nothing is relayed', async (t) => {
  const { send } = await scene.sender();
  const id = await send('jane@example.com');
  const good = returnPath(id);
  const [local = ''] = good.split('@');
  const envelope = async (from = '') => {
    const dialog = await dial();
    t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^250 /);
    return dialog;
  };
  const dialogs = [await envelope('spammer@spam.test'), await envelope('spammer@spam.test')] as const;
  for (const [index, address] of [
    'user@elsewhere.test',
    `user@${host}`,
    `user%elsewhere.test@${host}`,
    `elsewhere.test!user@${host}`,
    `"user@elsewhere.test"@${host}`,
    `"${good}"`,
    `"${good}"@${host}`,
    `" ${local}"@${host}`,
    `"${local}"@elsewhere.test`,
    `@${host}:user@elsewhere.test`,
    'user@[127.0.0.1]',
    `bounces@${host}`,
    `bounces+@${host}`,
    `bounces+${'a'.repeat(42)}@${host}`,
    `${local}@elsewhere.test`,
    `${local}%elsewhere.test@${host}`,
    `${local}@${host}.elsewhere.test`,
    `${local}@${host}@elsewhere.test`,
    `x${good}`,
    good.replace('bounces', 'unsubscribe'),
    unsubscribeAddress(id).replace('unsubscribe', 'bounces'),
    'abuse@elsewhere.test',
    `abuse+x@${host}`,
    'fbl',
  ].entries()) {
    // More than twenty errors are too many for one visit.
    const dialog = dialogs[index % 2 === 0 ? 0 : 1];
    t.match(await dialog.ask(`RCPT TO:<${address}>`), /^(?:550 5\.7\.1|501|553) /, address);
  }
  const [dialog] = dialogs;
  t.match(await dialog.ask('DATA'), /^503 /);
  t.match(await dialog.ask(`RCPT TO:<@relay.test:${good.toUpperCase()}>`), /^250 /, 'a source route is ignored');
  const quoted = (address: string) => `"${address.replace('@', '"@')}`;
  for (const same of [good, good.replace('+', '\\+'), unsubscribeAddress(id), `Abuse@${host}`].map(quoted)) {
    t.match(await dialog.ask(`RCPT TO:<${same}>`), /^250 /, `${same} is the same address: RFC 5321 section 4.1.2`);
  }
  t.match(await dialog.ask('VRFY jane'), /^25[02] |^50[02] /);
  for (const from of [`<postmaster@${host}>`, '<>']) {
    await dialog.ask('RSET');
    await dialog.ask(`MAIL FROM:${from}`);
    t.match(await dialog.ask('RCPT TO:<user@elsewhere.test>'), /^550 5\.7\.1 /, from);
  }
});

t.test('MAIL-03: nothing is ever sent from here', async (t) => {
  // What is not imported cannot be used.
  const folder = new URL('../../src/inbound/', import.meta.url);
  for (const file of readdirSync(folder)) {
    const source = readFileSync(new URL(file, folder), 'utf8');
    t.notMatch(source, /from '(?:nodemailer|node:dns|\.\.\/smtp\/(?:deliver|transport|connect))/, file);
  }
  const { send } = await scene.sender();
  const id = await send('jane@example.com');
  const jobs = async () =>
    (
      await scene.node.db.query<{ n: string }>({ text: `SELECT count(*) AS n FROM pgboss.job WHERE name = 'deliver'` })
    )[0]?.n;
  const before = await jobs();
  await deliver(returnPath(id), bounce({}));
  await deliver(`fbl@${host}`, complaint(`Return-Path: <${returnPath(id)}>`));
  t.equal(await jobs(), before, 'no email was queued');
});

t.test('SSRF-11: mail that has passed more than 25 servers is in a loop, and is refused', async (t) => {
  const { send, suppressed } = await scene.sender();
  const to = returnPath(await send('jane@example.com'));
  const hops = (count: number) => 'Received: from a.test by b.test;\n\tSat, 21 Nov 2026 09:00:00 +0000\n'.repeat(count);
  for (const content of [bounce({}), complaint(`Return-Path: <${to}>`), 'Subject: hello\n\nx\n'])
    t.match(await deliver(to, hops(26) + content), /^554 5\.4\.6 .*more than 25 servers/);
  t.strictSame(await suppressed(), []);
  // The Received lines of the returned message do not count for the notice.
  t.match(await deliver(to, hops(25) + bounce({}).replace('It failed.', hops(26))), taken);
  t.strictSame(await suppressed(), ['jane@example.com bounce']);
});

t.test('an address for reports accepts nothing else, and says so', async (t) => {
  for (const to of [`fbl@${host}`, `abuse@${host}`, `postmaster@${host}`, 'Postmaster']) {
    t.match(
      await deliver(to, 'Subject: hello\n\nIs anybody there?\n', 'jane@example.com'),
      /^554 5\.6\.0 .*feedback reports/,
    );
    t.match(await deliver(to, bounce({})), /^554 5\.6\.0 /);
  }
});

t.test('one message can be for several addresses, and counts for each of them', async (t) => {
  const { send, suppressed } = await scene.sender();
  const ids = [await send('jane@example.com'), await send('jane@example.com', { subject: 'other' })];
  t.match(
    await deliver(
      ids.map((id) => returnPath(id)),
      bounce({}),
    ),
    taken,
  );
  t.strictSame(await suppressed(), ['jane@example.com bounce']);
  for (const id of ids) {
    const rows = await scene.node.db.query({ text: 'SELECT FROM returns WHERE email_id = $1', values: [id] });
    t.equal(rows.length, 1);
  }
  const dialog = await dial();
  await dialog.ask('MAIL FROM:<>');
  for (let n = 0; n < 10; n++) t.match(await dialog.ask(`RCPT TO:<${returnPath(ids[0] ?? '', n)}>`), /^250 /);
  t.match(await dialog.ask(`RCPT TO:<${returnPath(ids[0] ?? '', 10)}>`), /^452 /);
});

t.test('SMG-03: only CR LF . CR LF ends a message, and other line ends are just line ends', async (t) => {
  const { send, read } = await scene.sender();
  const other = await send('other@example.com');
  for (const [index, ender] of [
    '\n.\n',
    '\r.\r',
    '\n.\r\n',
    '\r\n.\n',
    '\r\n.\r',
    '\r.\r\n',
    '\r\n\0.\r\n',
    '\r\n.\0\r\n',
  ].entries()) {
    const to = `jane${index}@example.com`;
    const id = await send(to);
    const dialog = await dial();
    await dialog.envelope('', [returnPath(id)]);
    const smuggled = `MAIL FROM:<>\r\nRCPT TO:<${returnPath(other)}>\r\nDATA\r\n${bounce({ to: 'other@example.com' })}`;
    dialog.send(`${bounce({ to })}${ender}${smuggled}\r\n.\r\n`);
    t.match(await dialog.reply(), taken, JSON.stringify(ender));
    t.match(await dialog.ask('NOOP'), /^250 /, 'one message had one reply');
    dialog.end();
    t.match((await read(id)).returns, [{ recipient: to, kind: 'bounce' }], JSON.stringify(ender));
  }
  t.strictSame((await read(other)).returns, []);
});

t.test('SMG-04: a message is the same in whatever pieces it arrives', async (t) => {
  const { send, read } = await scene.sender();
  const dialog = await dial();
  const text = `${bounce({}).replaceAll('\n', '\r\n')}\r\n..\r\n.\r\n`;
  for (const cut of [1, text.length - 8, ...Array.from({ length: 7 }, (_, n) => text.length - 7 + n)]) {
    const id = await send('jane@example.com');
    await dialog.envelope('', [returnPath(id)]);
    dialog.send(text.slice(0, cut));
    dialog.send(text.slice(cut));
    t.match(await dialog.reply(), taken, `cut at ${cut - text.length}`);
    t.equal((await read(id)).returns.length, 1);
    await scene.node.db.query({ text: 'DELETE FROM suppressions' });
  }
  const id = await send('jane@example.com');
  await dialog.envelope('', [returnPath(id)]);
  for (const byte of text) dialog.send(byte);
  t.match(await dialog.reply(), taken, 'byte by byte');
  t.equal((await read(id)).returns.length, 1);
});

t.test('SMG-05: what was sent before TLS is discarded when TLS begins', async (t) => {
  const { send, read } = await scene.sender();
  const id = await send('jane@example.com');
  const dialog = await dial();
  await dialog.startTls(`EHLO injected.test\r\nMAIL FROM:<>\r\nRCPT TO:<${returnPath(id)}>\r\nRSET\r\n`);
  t.match(await dialog.ask('MAIL FROM:<>'), /^503 .*EHLO first/);
  await dialog.ask('EHLO mx.other.test');
  t.match(
    await dialog.message('', bounce({}).replaceAll('\n', '\r\n'), [returnPath(id)]),
    taken,
    'with TLS as without',
  );
  t.equal((await read(id)).returns.length, 1);
});

t.test('SMG-09: no AUTH, no CHUNKING, and no obsolete commands', async (t) => {
  const dialog = await dial();
  const offered = await dialog.ask('EHLO mx.other.test');
  t.match(offered, /STARTTLS/);
  t.match(offered, new RegExp(`SIZE ${largestReturn}$`));
  t.notMatch(offered, /AUTH|CHUNKING|XCLIENT|XFORWARD|DSN|BINARYMIME/);
  for (const command of ['AUTH PLAIN AGEAYg==', 'WIZ', 'SHELL', 'KILL', 'XCLIENT ADDR=10.0.0.1', 'BDAT 4 LAST'])
    t.match(await dialog.ask(command), /^50[023] 5\.5\.[12] /, command);
  t.match(await dialog.ask('GET / HTTP/1.1'), /^421 4\.7\.0 HTTP/);
  const confused = await dial();
  for (let n = 0; n < 9; n += 1) await confused.ask('FROB');
  t.match(await confused.ask('FROB'), /^421 4\.7\.0 Error: too many unrecognized/);
});

t.test(
  'HTTP is not SMTP, and SMTP is not HTTP: clients on the wrong port are hung up on, and nothing is done: SMG-10',
  async (t) => {
    const { send, read } = await scene.sender();
    const id = await send('jane@example.com');
    const said = `EHLO x.test\r\nMAIL FROM:<>\r\nRCPT TO:<${returnPath(id)}>\r\nDATA\r\n${bounce({}).replaceAll('\n', '\r\n')}\r\n.\r\n`;
    for (const line of ['POST / HTTP/1.1', 'GET /healthz HTTP/1.0', 'post /x http/1.1']) {
      const browser = await Dialog.open(t, scene.server.port, false);
      // A page can make a browser post any text, even a whole dialogue.
      browser.send(`${line}\r\nHost: 127.0.0.1\r\nContent-Length: ${said.length}\r\n\r\n${said}`);
      t.match(await browser.rest(), /^421 .*HTTP.*\r\n$/, line);
    }
    t.strictSame((await read(id)).returns, [], 'nothing after the first line was read');
    const { port } = new URL(scene.node.baseUrl);
    for (const bytes of [said, 'EHLO x.test\r\n', 'QUIT\r\n', 'HELO']) {
      const client = await Dialog.open(t, Number(port), false, false);
      client.send(bytes);
      t.match(
        await client.rest(),
        /^HTTP\/1\.1 400 .*\r\n\r\n\{"error":"invalid request","detail":"[^"]+"\}$/s,
        bytes.slice(0, 20),
      );
    }
  },
);

t.test('DOS-07: a message that is too large is refused, before or after it is sent', async (t) => {
  const { send, read } = await scene.sender();
  const id = await send('jane@example.com');
  const dialog = await dial();
  t.match(await dialog.ask(`MAIL FROM:<> SIZE=${largestReturn + 1}`), /^552 /);
  t.match(await dialog.ask(`MAIL FROM:<> SIZE=${largestReturn}`), /^250 /);
  await dialog.ask('RSET');
  const notice = bounce({}).replaceAll('\n', '\r\n');
  /** Sends the notice, and lines after it up to this many octets in all. */
  const offer = async (octets: number) => {
    await dialog.envelope('', [returnPath(id)]);
    dialog.send(notice);
    const missing = octets - notice.length;
    const lines = Math.floor(missing / 1_000) - 1;
    const line = `${'x'.repeat(998)}\r\n`;
    for (let left = lines; left > 0; left -= 10_000) dialog.send(line.repeat(Math.min(left, 10_000)));
    return dialog.ask(`${'x'.repeat(900)}\r\n${'x'.repeat(missing - lines * 1_000 - 904)}\r\n.`);
  };
  t.match(await offer(largestReturn + 1), /^552 5\.3\.4 /);
  t.strictSame((await read(id)).returns, []);
  t.match(await offer(largestReturn), taken, 'exactly the limit');
  t.equal((await read(id)).returns.length, 1);
});

t.test('a bounce has room for the largest message that goes out', async (t) => {
  const files = limits.attachmentsBytes / 10;
  const text = '\u20ac'.repeat(limits.body);
  const parts: MessageParts = {
    from: parseMailbox('a@sender.test'),
    to: [parseMailbox('jane@example.com')],
    cc: [],
    replyTo: [],
    subject: 's',
    html: text,
    text,
    headers: [],
    attachments: Array.from({ length: 10 }, (_, n) => ({
      filename: `${n}.bin`,
      contentType: 'application/octet-stream',
      contentId: null,
      content: Buffer.alloc(files, n),
    })),
    messageId: 'a@sender.test',
    date: new Date(),
  };
  const { header, body } = await compose(parts);
  const size = header.length + body.bytes.length;
  t.ok(size > 70_000_000 && size + bounce({}).length < largestReturn - 1024 * 1024, `${size} of ${largestReturn}`);
});

t.test('a report counts however long the parts in front of it are: DOS-07', async (t) => {
  const { send, suppressed } = await scene.sender();
  const long = 'Nobody reads all of this, and it goes on.\n'.repeat(40_000);
  const type = 'Content-Type: multipart/report; report-type=delivery-status; boundary=b';
  const inFront = (part: string, text = long) => bounce({}).replace('It failed.\n', `It failed.\n${part}${text}`);
  const nested = (report: string) =>
    report.replace(type, 'Content-Type: multipart/mixed; boundary="b c"').replace('--b\n', `--b c\n${type}\n\n--b\n`);
  const attachment = `--i\nContent-Type: text/plain\n\n${long}\n`;
  const copy = '--b\nContent-Type: message/rfc822\n\nSubject: s\nContent-Type: multipart/mixed; boundary=i\n\n';
  const messages = {
    'a text': inFront(''),
    'a text of the same lines as a delimiter': inFront('', '--bb\n--\n-- b\n'.repeat(30_000) + long),
    'a text in a multipart within': nested(inFront('')),
    'the message with its attachments': inFront(copy, attachment.repeat(5)),
    'a text after a short one': inFront('--b\nContent-Type: text/plain\n\n'),
  };
  for (const [index, [what, message]] of Object.entries(messages).entries()) {
    const to = `jane${index}@example.com`;
    const id = await send(to);
    t.match(await deliver(returnPath(id), message.replaceAll('jane@example.com', to)), taken, what);
    t.ok((await suppressed()).includes(`${to} bounce`), what);
  }
  const id = await send('reader@example.com');
  const reported = complaint(`Return-Path: <${returnPath(id)}>`);
  const text = `--b\nContent-Type: text/plain\n\n${long}\n`;
  t.match(await deliver(`fbl@${host}`, reported.replace('--b\n', `${text}--b\n`), 'x@provider.test'), taken);
  t.ok((await suppressed()).includes('reader@example.com complaint'));
});

t.test('DOS-07: of incoming messages only the beginning is held in memory', async (t) => {
  const dialogs = await Promise.all(Array.from({ length: 10 }, () => dial()));
  const line = `${'x'.repeat(998)}\r\n`;
  const megabyte = line.repeat(1_000);
  for (const dialog of dialogs) await dialog.envelope('', [`fbl@${host}`]);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const held = () => {
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = held();
  for (let n = 0; n < 8; n += 1) {
    for (const dialog of dialogs) dialog.send(megabyte);
    await sleep(50);
  }
  // Many small chunks take as little as one large one.
  for (let n = 0; n < 1_000; n += 1) for (const dialog of dialogs) dialog.send('x');
  await eventually(async () => held() - before < 20_000_000);
  for (const dialog of dialogs) t.match(await dialog.ask('\r\n.'), /^554 5\.6\.0 /);
});

t.test(
  'S14: while the database is away the sender is told to try again, and then the bounce counts once',
  async (t) => {
    const gate = await startGate(await createDatabase());
    t.teardown(() => gate.close());
    const behind = await startReturns(t, { databaseUrl: gate.url });
    const { send, read, events } = await behind.sender();
    const id = await send('jane@example.com');
    gate.set('shut');
    t.match(await behind.deliver(returnPath(id), bounce({})), /^451 4\.3\.0 /);
    gate.set('open');
    t.match(await eventually(async () => (await behind.deliver(returnPath(id), bounce({}))).match(taken)?.[0]), taken);
    t.match(await behind.deliver(returnPath(id), bounce({})), taken);
    t.equal((await read(id)).returns.length, 1);
    t.equal((await events()).length, 1);
  },
);

t.test('S14: a message that breaks off before the final dot changes nothing', async (t) => {
  const { send, read } = await scene.sender();
  const id = await send('jane@example.com');
  const dialog = await dial();
  await dialog.envelope('', [returnPath(id)]);
  dialog.send(bounce({}).replaceAll('\n', '\r\n'));
  dialog.end();
  await dialog.rest();
  t.match(await deliver(`fbl@${host}`, 'x'), /^554/, 'the next message is served');
  t.strictSame((await read(id)).returns, []);
});

t.test('a client that makes only errors, or sends pointless commands, is hung up on: DOS-09', async (t) => {
  const { send } = await scene.sender();
  const to = returnPath(await send('jane@example.com'));
  const unknown = ['RCPT TO:<user@elsewhere.test>', 'DATA', 'MAIL FROM:<> SIZE=99999999', 'RCPT TO:<'];
  const wrong = await dial();
  await wrong.ask('MAIL FROM:<>');
  for (let n = 0; n < 20; n++) t.match(await wrong.ask(unknown[n % 4] ?? ''), /^5/);
  t.match(await wrong.ask('RCPT TO:<user@elsewhere.test>'), '421 4.7.0 too many errors');
  t.equal(await wrong.rest(), '');
  const idle = await dial();
  idle.send('NOOP\r\nRSET\r\nVRFY x\r\nEHLO again.test\r\n'.repeat(100));
  t.match(
    await idle.rest(),
    /^(?:25[02][ -].*\r\n)+421 4\.7\.0 too many commands\r\n$/,
    'and nothing after that is read',
  );
  const honest = await dial();
  for (let n = 0; n < 4; n++) {
    for (let errors = 0; errors < 8; errors++) await honest.ask('RCPT TO:<user@elsewhere.test>');
    t.match(
      await honest.message('', bounce({}).replaceAll('\n', '\r\n'), [to]),
      taken,
      'but not one that delivers messages',
    );
  }
});

t.test('nobody can hold a connection forever, or all of them: DOS-09', async (t) => {
  const patient = { idleMs: 60_000, contentMs: 60_000, visitMs: 60_000 };
  // Each on a server of its own: if the machine stands still, a client that says little looks like one that says nothing.
  const dialOf = async (patience: Partial<typeof patient>) =>
    (await startReturns(t, { patience: { ...patient, ...patience } })).dial();
  const idle = await dialOf({ idleMs: 3_000 });
  t.match(await idle.rest(), /^421 4\.4\.2 /, 'says nothing');
  const slow = await dialOf({ contentMs: 1_800 });
  await slow.envelope('', [`fbl@${host}`]);
  const drip = setInterval(() => slow.send('x'), 50);
  t.match(await slow.rest(), /^421 4\.4\.2 the message took too long/, 'sends one byte at a time');
  clearInterval(drip);
  const busy = await dialOf({ visitMs: 5_000 });
  const noise = setInterval(() => busy.send('NOOP\r\n'), 100);
  t.match(await busy.rest(), /421 4\.4\.2 the session took too long\r\n$/, 'never ends');
  clearInterval(noise);
  const guests = await Promise.all(Array.from({ length: 20 }, () => dial()));
  const tooMany = await Dialog.open(t, scene.server.port, false, false);
  t.match(await tooMany.reply(), /^421 .* too many connections/);
  for (const guest of guests) guest.end();
});
