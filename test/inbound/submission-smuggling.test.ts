import t from 'tap';
import { eventually } from '../support/node.ts';
import { plain, startSubmitter } from './scene.ts';

const scene = await startSubmitter(t);
const { dial } = scene;

/** What a parser might take for the end of a message; none of these is. */
const enders = [
  '\n.\n',
  '\r.\r',
  '\n.\r\n',
  '\r\n.\n',
  '\r\n.\r',
  '\r.\n',
  '\r.\r\n',
  '\n.\r',
  '\r\n\0.\r\n',
  '\r\n.\0\r\n',
  '\r\n.\r\r\n',
  '\n\n.\r\n',
];

t.test('SMG-03: only CR LF . CR LF ends a message, and a message with another ender is refused whole', async (t) => {
  const { from, logIn, count } = await scene.sender();
  const dialog = await logIn();
  const header = `From: ${from}\r\nTo: a@b.test\r\nSubject: s\r\n\r\n`;
  for (const ender of enders) {
    const smuggled = `MAIL FROM:<${from}>\r\nRCPT TO:<victim@b.test>\r\nDATA\r\n${header}smuggled`;
    const reply = await dialog.message(from, `${header}text${ender}${smuggled}`);
    t.match(reply, /^554 5\.6\.0 the message contains (?:a|an) (?:CR|LF|NUL)/, JSON.stringify(ender));
  }
  t.match(await dialog.ask('NOOP'), /^250 /, 'the conversation is where it should be');
  t.equal(await count(), 0);
  t.match(await dialog.message(from, `${header}text\r\n..\r\n..dots`), /^250 /);
  t.equal(await count(), 1);
});

t.test('SMG-04: a message is the same in whatever pieces it arrives', async (t) => {
  const { from, logIn, read } = await scene.sender();
  const dialog = await logIn();
  const contents: [sent: string, stored: string][] = [
    ['..\r\n...\r\n..a.\r\nend', '.\n..\n.a.\nend'],
    ['a\r\n..\r\n\r\n..', 'a\n.\n\n.'],
  ];
  for (const [sent, stored] of contents) {
    const bytes = `Subject: s\r\nFrom: ${from}\r\n\r\n${sent}\r\n.\r\n`;
    const start = bytes.length - sent.length - 7;
    for (let at = start; at <= bytes.length; at++) {
      await dialog.envelope(from);
      if (at === bytes.length) for (const byte of bytes) dialog.send(byte);
      else {
        dialog.send(bytes.slice(0, at));
        dialog.send(bytes.slice(at));
      }
      const reply = await dialog.reply();
      const { id } = await read(reply);
      const [row] = await scene.node.db.query<{ text: string }>({
        text: 'SELECT text FROM email_contents WHERE email_id = $1',
        values: [id],
      });
      if (row?.text !== stored) t.fail(`cut at ${at}: ${JSON.stringify(row?.text)}`);
    }
    t.pass(JSON.stringify(sent));
  }
});

t.test('SMG-04: a dot that arrives alone as the first line does not end the message', async (t) => {
  const { from, logIn, read } = await scene.sender();
  const dialog = await logIn();
  await dialog.envelope(from);
  // A doubled dot, cut between the two.
  for (const piece of ['.', `.\r\nFrom: ${from}\r\nSubject: s\r\n\r\nt\r\n`, '.', '\r\n']) dialog.send(piece);
  t.match(await dialog.reply(), '554 5.6.0 the header has a line that is not a field');
  t.match(await read(await dialog.message(from, `From: ${from}\r\nSubject: s\r\n\r\nt`)), { status: 'queued' });
});

t.test('SMG-05: what was sent before TLS is discarded when TLS begins', async (t) => {
  const { from, key, count } = await scene.sender();
  const dialog = await dial('submission');
  await dialog.ask('EHLO client.test');
  await dialog.startTls(`EHLO injected.test\r\nAUTH PLAIN ${plain(key)}\r\nMAIL FROM:<${from}>\r\nRSET\r\n`);
  // Every command has one reply: a reply to what was injected would come first.
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^503 .*EHLO first/);
  await dialog.ask('EHLO client.test');
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^530 /);
  t.equal(await count(), 0);
});

t.test(
  'SMG-09: obsolete commands and those of proxies are unknown, and pipelined ones are answered one by one',
  async (t) => {
    const { from, logIn, count } = await scene.sender();
    const dialog = await logIn();
    for (const command of [
      'WIZ x',
      'SHELL',
      'KILL',
      'XCLIENT ADDR=10.0.0.1',
      'XFORWARD ADDR=10.0.0.1',
      'BDAT 4 LAST',
    ]) {
      t.match(await dialog.ask(command), /^50[02] /, command);
    }
    const content = `From: ${from}\r\nSubject: s\r\n\r\nt\r\n.\r\n`;
    dialog.send(
      `MAIL FROM:<${from}>\r\nRCPT TO:<a@b.test>\r\nRSET\r\nMAIL FROM:<${from}>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n`,
    );
    const replies = [];
    for (let i = 0; i < 6; i++) replies.push((await dialog.reply()).slice(0, 3));
    t.strictSame(replies, ['250', '250', '250', '250', '250', '354']);
    dialog.send(`${content}MAIL FROM:<${from}>\r\nQUIT\r\nRSET\r\n`);
    t.match(await dialog.reply(), /^250 2\.0\.0 Ok: queued/);
    t.match(await dialog.reply(), /^250 /);
    t.match(await dialog.reply(), /^221 /);
    t.equal(await dialog.rest(), '', 'nothing after QUIT is read');
    t.equal(await count(), 1);
  },
);

t.test('SMG-10: a browser is hung up on, and PROXY is refused', async (t) => {
  for (const line of ['POST /x HTTP/1.1', 'GET / HTTP/1.1']) {
    const dialog = await dial('submission');
    t.match(await dialog.ask(line), /^421 /);
    t.equal(await dialog.rest(), '');
  }
  const dialog = await dial('submission');
  t.match(await dialog.ask('PROXY TCP4 10.0.0.1 10.0.0.2 1 2'), /^50[02] /);
});

t.test('INJ: bytes above 127 must be UTF-8 in a header, and need SMTPUTF8 in an envelope address', async (t) => {
  const { from, logIn, read } = await scene.sender();
  const dialog = await logIn();
  const latin1 = `From: ${from}\r\nSubject: Gr\xfc\xdfe\r\n\r\nt`;
  const utf8 = `From: ${from}\r\nSubject: ${Buffer.from('Grüße').toString('latin1')}\r\n\r\nt`;
  t.match(await dialog.message(from, latin1), /^554 5\.6\.0 Subject: contains bytes that are not UTF-8/);
  t.match(await read(await dialog.message(from, utf8)), { subject: 'Grüße' });
  const withUtf8 = async (content: string) => {
    await dialog.ask(`MAIL FROM:<${from}> SMTPUTF8 BODY=8BITMIME`);
    await dialog.ask(`RCPT TO:<${Buffer.from('jörg@b.test').toString('latin1')}>`);
    await dialog.ask('DATA');
    return dialog.ask(`${content}\r\n.`);
  };
  t.match(await withUtf8(latin1), /^554 5\.6\.0 Subject: contains bytes that are not UTF-8/);
  t.match(await read(await withUtf8(utf8)), { subject: 'Grüße', bcc: ['jörg@b.test'] });
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^250 /);
  t.match(
    await dialog.ask(`RCPT TO:<${Buffer.from('jörg@b.test').toString('latin1')}>`),
    /^553 5\.6\.7 .*needs SMTPUTF8/,
  );
});

t.test('INJ: an encoded-word cannot bring in a line, a header or an address', async (t) => {
  const { from, logIn, read, count } = await scene.sender();
  const dialog = await logIn();
  const send = (header: string) => dialog.message(from, `${header}\r\n\r\nt`);
  t.match(
    await send(`From: ${from}\r\nSubject: =?utf-8?Q?a=0D=0ABcc:_x@y.test?=`),
    '554 5.6.0 Subject: contains control',
  );
  t.match(
    await send(`From: ${from}\r\nSubject: s\r\nX-A: =?utf-8?B?YQ0KWC1COiBj?=`),
    '554 5.6.0 X-A: contains control',
  );
  t.match(
    await send(`From: =?utf-8?Q?a=0D=0AX=3Ay?= <${from}>\r\nSubject: s`),
    '550 5.6.0 From: the name contains control',
  );
  t.match(await send(`From: ${from}\r\nSubject: s\r\nX-Sendwright-Tags: =?utf-8?Q?a=00b?=`), /Tags: contains control/);
  t.match(await send(`From: ${from}\r\nNo Field: x\r\nSubject: s`), /the header has a line that is not a field/);
  t.equal(await count(), 0);
  const named = await read(
    await send(`From: =?utf-8?Q?x=40evil.test=3E=2C_=3Cy=40evil.test?= <${from}>\r\nSubject: s`),
  );
  t.equal(named.from, `"x@evil.test>, <y@evil.test" <${from}>`);
});

t.test('RCPT refuses malformed addresses, and parameters', async (t) => {
  const { from, logIn } = await scene.sender();
  const dialog = await logIn();
  await dialog.ask(`MAIL FROM:<${from}>`);
  for (const address of [
    '"a b"@b.test',
    'a@[127.0.0.1]',
    'a@b',
    'postmaster',
    'a..b@b.test',
    'a@-b.test',
    '<a@b.test',
  ]) {
    t.match(await dialog.ask(`RCPT TO:<${address}>`), /^(?:501|553) /, address);
  }
  t.match(await dialog.ask('RCPT TO:<a@b.test> SIZE=1 X'), /^555 5\.5\.4 /);
});

t.test('a connection that breaks off before the final dot leaves nothing', async (t) => {
  const { from, logIn, count } = await scene.sender();
  const dialog = await logIn();
  await dialog.envelope(from);
  dialog.send(`From: ${from}\r\nSubject: s\r\n\r\nt`);
  dialog.end();
  await dialog.rest();
  const next = await logIn();
  t.match(await next.message(from, `From: ${from}\r\nSubject: s\r\n\r\nt`), /^250 /);
  t.equal(await eventually(async () => (await count()) || null), 1);
});
