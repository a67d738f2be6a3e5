import t from 'tap';
import { newId } from '../../src/ids.ts';
import { at } from '../http/scene.ts';
import { startSubmitter } from './scene.ts';

const scene = await startSubmitter(t);
const { node } = scene;

t.test('a message is accepted on both ports, and the 250 names the email', async (t) => {
  const { mail, read, from, account } = await scene.sender();
  for (const port of ['submission', 'submissions'] as const) {
    const outcome = await mail({ to: 'Ann <ann@b.test>', cc: 'c@b.test', bcc: 'd@b.test', subject: 'Grüße' }, { port });
    t.match(outcome, { accepted: /^250 2\.0\.0 Ok: queued as [0-9a-f-]{36}$/ });
    t.match(await read(outcome), {
      status: 'queued',
      from,
      to: 'Ann <ann@b.test>',
      cc: ['c@b.test'],
      bcc: ['d@b.test'],
      subject: 'Grüße',
      type: 'transactional',
    });
  }
  const jobs = await node.db.query({ text: `SELECT 1 FROM recipients WHERE account_id = $1`, values: [account.id] });
  t.equal(jobs.length, 6);
});

t.test('fields of the REST API are headers here, and are removed', async (t) => {
  const { mail, read } = await scene.sender();
  const when = at(3_600_000);
  const outcome = await mail({
    replyTo: ['"R, S" <r@b.test>', 'q@b.test'],
    headers: {
      'X-Sendwright-Tags': 'welcome, Größe one,, ',
      'X-Sendwright-Type': 'marketing',
      'X-PM-Message-Stream': 'broadcast',
      'X-Mailgun-Drop-Message': 'no',
      'X-Mailgun-Recipient-Variables': '{}',
      'X-SMTPAPI': '{"category": ["welcome"], "unique_args": {"to": 7}}',
      'X-Sendwright-Scheduled-At': when,
      'X-Entity-Ref-ID': '42',
      'List-Unsubscribe': '<https://b.test/u>, <mailto:u@b.test>',
      Received: 'from laptop.lan ([192.168.1.7]) by relay.test; Sat, 21 Nov 2026 08:00:00 +0000',
      'DKIM-Signature': 'v=1; d=elsewhere.test',
      'X-Empty': '',
    },
  });
  const email = await read(outcome);
  t.match(email, {
    type: 'marketing',
    tags: ['welcome', 'Größe one'],
    scheduled_at: when,
    reply_to: ['"R, S" <r@b.test>', 'q@b.test'],
  });
  const [content] = await node.db.query<{ headers: [string, string][] }>({
    text: 'SELECT headers FROM email_contents WHERE email_id = $1',
    values: [email.id],
  });
  t.strictSame(content?.headers.sort(), [
    ['List-Unsubscribe', '<https://b.test/u>, <mailto:u@b.test>'],
    ['X-Entity-Ref-ID', '42'],
  ]);
});

t.test(
  'the envelope decides who gets it: other addresses in To and Cc are left out, and those in neither get a blind copy',
  async (t) => {
    const { mail, read, from } = await scene.sender();
    const outcome = await mail({
      to: ['Ann <ann@b.test>', 'stranger@b.test'],
      cc: 'Team: cc@b.test, ann@b.test;',
      envelope: { from, to: ['ANN@b.test', 'cc@b.test', 'hidden@b.test'] },
    });
    const { to, cc, bcc, recipients } = await read(outcome);
    t.strictSame([to, cc, bcc], ['Ann <ANN@b.test>', ['cc@b.test'], ['hidden@b.test']]);
    t.strictSame(recipients.map(({ address }: { address: string }) => address).sort(), [
      'ANN@b.test',
      'cc@b.test',
      'hidden@b.test',
    ]);
    const blind = await read(await mail({ to: 'undisclosed-recipients:;', envelope: { from, to: 'x@b.test' } }));
    t.strictSame([blind.to, blind.bcc], ['x@b.test', ['x@b.test']]);
  },
);

t.test('SSRF-11: mail that has passed more than 25 servers is in a loop, and is refused', async (t) => {
  const { from, logIn, count } = await scene.sender();
  const dialog = await logIn();
  const message = (hops: number) =>
    `${'received: from a.test\r\n\tby b.test\r\n'.repeat(hops)}From: ${from}\r\nSubject: s\r\n\r\nt`;
  t.match(await dialog.message(from, message(26)), /^554 5\.4\.6 .*more than 25 servers/);
  t.equal(await count(), 0);
  t.match(await dialog.message(from, message(25)), /^250 /);
});

t.test('an idempotency key makes one email of two messages, even if their boundaries and dates differ', async (t) => {
  const { mail, count } = await scene.sender();
  const headers = { 'X-Sendwright-Idempotency-Key': 'order-1' };
  const message = { headers, html: '<p>t', attachments: [{ filename: 'a.txt', content: 'hello' }] };
  const outcomes = await Promise.all([mail(message), mail(message), mail({ ...message, date: new Date(0) })]);
  t.match(outcomes[0], { accepted: /queued as/ });
  t.strictSame(outcomes[1], outcomes[0]);
  t.strictSame(outcomes[2], outcomes[0]);
  t.equal(await count(), 1);
  t.match(await mail({ ...message, html: '<p>other' }), {
    refused: '554 5.5.0 X-Sendwright-Idempotency-Key: was used with another message',
  });
  t.equal(await count(), 1);
});

t.test('a client that asks for REQUIRETLS, which is not offered, is refused and can continue without it', async (t) => {
  const { from, logIn, read } = await scene.sender();
  const dialog = await logIn();
  t.notMatch(await dialog.ask('EHLO client.test'), /REQUIRETLS/);
  t.equal(await dialog.ask(`MAIL FROM:<${from}> REQUIRETLS`), '555 5.5.4 REQUIRETLS is not offered');
  const content = `From: ${from}\r\nSubject: s\r\n\r\nt`;
  t.match(await read(await dialog.message(from, content)), { status: 'queued' });
  t.match(await dialog.ask('MAIL FROM:<x@foreign.test> SMTPUTF8'), /^550 /);
  t.match(await dialog.envelope(from, ['j\xc3\xb6rg@b.test']), /^553 5\.6\.7 /, 'another parameter is not kept either');
});

t.test('a parameter that is not offered is refused: what it asks for is never dropped in silence', async (t) => {
  const { from, logIn } = await scene.sender();
  const dialog = await logIn();
  for (const parameter of ['HOLDFOR=3600', 'BY=120;R', 'MT-PRIORITY=3', 'RET=HDRS', 'ENVID=a', 'XVERP', 'X\xff=1']) {
    const [name = ''] = parameter.split('=');
    t.equal(
      await dialog.ask(`MAIL FROM:<${from}> ${parameter}`),
      `555 5.5.4 ${name.replaceAll('\xff', '?')} is not offered`,
    );
  }
  t.match(await dialog.ask(`MAIL FROM:<${from}> size=100 Body=8BITMIME SMTPUTF8 AUTH=<>`), /^250 /);
  t.equal(await dialog.ask('RCPT TO:<a@b.test> NOTIFY=NEVER'), '555 5.5.4 NOTIFY is not offered');
  t.equal(await dialog.ask('RCPT TO:<a@b.test> SIZE=1'), '555 5.5.4 SIZE is not offered');
  t.match(await dialog.ask('RCPT TO:<a@b.test>'), /^250 /);
});

t.test('every reply has one enhanced code: RFC 2034', async (t) => {
  const { from, logIn } = await scene.sender();
  const dialog = await logIn();
  t.match(await dialog.ask('EHLO client.test'), /^250[ -]ENHANCEDSTATUSCODES\r?$/m);
  const content = `From: ${from}\r\nSubject: s\r\n\r\nt\r\n.`;
  const replies: [command: string, reply: RegExp][] = [
    ['NONSENSE', /^500 5\.5\.2 Error/],
    ['DATA', /^503 5\.5\.1 Error/],
    ['MAIL FROM:nobody', /^501 5\.1\.7 Error/],
    ['MAIL FROM:<x@foreign.test>', /^550 5\.7\.1 MAIL FROM/],
    [`MAIL FROM:<${from}> SIZE=99999999999`, /^552 5\.3\.4 Error/],
    [`MAIL FROM:<${from}>`, /^250 2\.1\.0 Accepted$/],
    [`MAIL FROM:<${from}>`, /^503 5\.5\.1 Error/],
    ['RCPT TO:<a b@c.test>', /^501 5\.1\.3 Error/],
    ['RCPT TO:<a@b>', /^553 5\.1\.3 a@b/],
    ['RCPT TO:<a@b.test>', /^250 2\.1\.5 Accepted$/],
    ['DATA', /^354 End data/],
    [content, /^250 2\.0\.0 Ok: queued as/],
    ['RSET', /^250 2\.0\.0 Flushed$/],
    ['AUTH PLAIN AGEAYg==', /^503 5\.5\.1 Error/],
    ['QUIT', /^221 2\.0\.0 Bye$/],
  ];
  for (const [command, reply] of replies) t.match(await dialog.ask(command), reply, command);
});

t.test('a refused message leaves its idempotency key free', async (t) => {
  const { mail, from, read } = await scene.sender();
  const headers = { 'X-Sendwright-Idempotency-Key': 'k' };
  t.match(await mail({ from: 'x@foreign.test', headers, envelope: { from, to: 'a@b.test' } }), {
    refused: /^550 5\.7\.1/,
  });
  t.match(await read(await mail({ headers })), { status: 'queued' });
});

t.test('a suppressed recipient is accepted and recorded, as by the REST API', async (t) => {
  const { mail, read, account } = await scene.sender();
  await node.db.prisma.suppression.create({
    data: { id: newId(), accountId: account.id, address: 'gone@b.test', reason: 'bounce' },
  });
  const outcome = await mail({ to: 'gone@b.test' });
  t.match(outcome, { accepted: /^250 2\.0\.0 Ok: queued as \S+ \(suppressed\)$/ });
  t.match(await read(outcome), { status: 'suppressed', error: 'gone@b.test is suppressed (bounce)' });
});

t.test('what the REST API refuses is refused with a sentence that names the header', async (t) => {
  const { count, offers } = await scene.sender();
  const offer = await offers();
  const many = (n: number, make: (i: number) => [string, string]) =>
    Object.fromEntries(Array.from({ length: n }, (_, i) => make(i)));
  const file = (content = 'x') => ({ filename: 'a.txt', content });
  const cases: [message: Record<string, unknown>, refused: string | RegExp][] = [
    [{ subject: 'x'.repeat(999) }, '554 5.6.0 Subject: must have at most 998 characters'],
    [{ headers: { 'X-Sendwright-TLS': 'yes' } }, /X-Sendwright-TLS: must be one of opportunistic, required, verified$/],
    [{ headers: { 'X-Sendwright-On-Uncertain': 'x' } }, /X-Sendwright-On-Uncertain: must be one of retry, hold$/],
    [
      { headers: { 'X-PM-Message-Stream': 'broadcast' } },
      /^554 5\.6\.0 X-PM-Message-Stream: must be called X-Sendwright-Type$/i,
    ],
    [{ headers: { 'Resend-Idempotency-Key': '1' } }, /must be called X-Sendwright-Idempotency-Key$/],
    [{ headers: { 'X-Mailgun-Require-TLS': 'True' } }, /X-Mailgun-Require-TLS: must be called X-Sendwright-TLS$/i],
    [
      { headers: { 'X-Mailgun-Drop-Message': 'yes' } },
      /Drop-Message: asks for a test, but the message would be sent: use POST /i,
    ],
    [{ headers: { 'X-MC-SendAt': '2031-01-01 09:00:00' } }, /X-MC-SendAt: must be called X-Sendwright-Scheduled-At$/i],
    [
      { headers: { 'X-SMTPAPI': '{"to": ["ann@b.test", "bob@b.test"]}' } },
      /^554 5\.6\.0 X-SMTPAPI: "to" must be recipients of the envelope$/i,
    ],
    ...Object.entries({
      'X-SMTPAPI': '{"send_at": 1924992000}',
      'x-smtpapi': '{"send_each_at": [1924992000, 1924992060]}',
      'X-Mailgun-Delivery-Time-Optimize-Period': '24h',
    }).map(([name, value]): (typeof cases)[number] => [
      { headers: { [name]: value } },
      new RegExp(`${name}: ("send_(each_)?at" )?must be called X-Sendwright-Scheduled-At$`, 'i'),
    ]),
    ...Object.entries({
      'X-PM-Message-Stream': 'weekly-newsletter',
      'X-SMTPAPI': '{"asm_group_id": 7}',
      'X-SES-List-Management-Options': 'contactListName=news; topic=weekly',
    }).map(([name, value]): (typeof cases)[number] => [
      { headers: { [name]: value } },
      new RegExp(`${name}: ("asm_group_id" )?must be called X-Sendwright-Type$`, 'i'),
    ]),
    [{ headers: { 'X-MC-BccAddress': 'c@b.test' } }, /X-MC-BccAddress: must be a recipient of the envelope$/i],
    ...Object.entries({
      'X-Mailgun-Recipient-Variables': '{"a@b.test": {"code": 7}}',
      'X-MC-MergeVars': '{"_rcpt": "a@b.test", "code": 7}',
    }).map(([name, value]): (typeof cases)[number] => [
      { headers: { [name]: value } },
      new RegExp(`${name}: ("_rcpt" )?must be a separate message for each recipient: `, 'i'),
    ]),
    [{ headers: { 'X-Sib-Sandbox': 'drop' } }, /Sandbox: asks for a test, but the message would be sent: use POST /i],
    [{ headers: { 'X-Sendwright-Type': 'spam' } }, /^554 5\.6\.0 X-Sendwright-Type: must be one of/],
    [
      { headers: { 'X-Sendwright-Scheduled-At': 'tomorrow' } },
      /^554 5\.6\.0 X-Sendwright-Scheduled-At: must be an RFC 3339/,
    ],
    [{ headers: { 'X-Sendwright-Scheduled-At': at(-3_600_000) } }, /Scheduled-At: is in the past$/],
    [{ headers: { 'X-Sendwright-Scheduled-At': at(400 * 86_400_000) } }, /Scheduled-At: is more than a year ahead$/],
    [
      { headers: { 'X-Sendwright-Tags': Array(51).fill('t').join() } },
      /X-Sendwright-Tags: must have at most 50 entries/,
    ],
    [
      { headers: { 'X-Sendwright-Tags': 'x'.repeat(257) } },
      /X-Sendwright-Tags: a tag must have at most 256 characters/,
    ],
    [{ headers: { 'X-Sendwright-Idempotency-Key': 'x'.repeat(257) } }, /Idempotency-Key: must have 1 to 256/],
    [
      { headers: { 'X-Sendwright-Template': 'welcome' } },
      /^554 5\.6\.0 X-Sendwright-Template: is not one of X-Sendwright-Idempotency-Key, .*, X-Sendwright-TLS$/,
    ],
    [{ headers: many(51, (i) => [`X-H-${i}`, 'v']) }, /the header must have at most 50 fields of its own/],
    [{ headers: { 'X-Long': 'word '.repeat(500) } }, '554 5.6.0 X-Long: must have at most 2,000 characters'],
    [{ headers: { 'Auto-Submitted': ['a', 'b'] } }, '554 5.6.0 Auto-Submitted: appears twice'],
    [{ attachments: Array(11).fill(file()) }, /the message must have at most 10 attachments/],
    [
      { attachments: [{ ...file(), filename: 'a\u202egpj.exe' }] },
      /attachment 1: filename contains characters that reverse/,
    ],
    [{ attachments: [file('x'.repeat(10 * 1024 * 1024 + 1))] }, '552 5.3.4 attachment 1: is larger than 10 MB'],
    [{ text: 'x'.repeat(5 * 1024 * 1024 + 1) }, /^552 5\.3\.4 the text must have at most/],
    [{ to: '"quoted local"@b.test' }, /^554 5\.6\.0 To: quotes in the part before/],
  ];
  for (const [message, refused] of cases) {
    t.match(await offer(message), refused, JSON.stringify(message).slice(0, 80));
  }
  t.equal(await count(), 0);
});
