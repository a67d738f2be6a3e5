import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { classifyNotice } from '../../src/core/returns/return-class.ts';
import { readNotice } from '../../src/mail/returns/dsn.ts';
import { least } from '../support/linear.ts';
import { original } from './bounces/build.ts';
import { bounces } from './bounces/index.ts';
import { bombs, readAll } from './notice-bombs.ts';

const bombProgram = fileURLToPath(new URL('notice-bombs.ts', import.meta.url));

const read = (message: Buffer) => {
  const { kind, recipients } = readNotice(message);
  const says = recipients.map((one) => {
    const { classification, permanent } = classifyNotice(one);
    return [one.address, classification, permanent];
  });
  return { kind, says };
};

t.test('MAIL-05: bounces from real servers are understood', async (t) => {
  t.ok(bounces.length >= 60, `${bounces.length} messages`);
  for (const { name, message, kind, says } of bounces) t.strictSame(read(message), { kind, says }, name);
});

t.test('MAIL-05: whatever its line ends, and wherever it is cut, a bounce is read without an error', async (t) => {
  for (const { name, message, kind, says } of bounces) {
    const text = message.toString('latin1');
    for (const [end, changed] of [
      ['LF', text.replaceAll('\r\n', '\n')],
      ['CR', text.replaceAll('\r\n', '\r')],
      ['NUL', text.replaceAll('\r\n', '\0\r\n')],
    ] as const) {
      // In some multi-octet charsets the octets of a line end mean something else.
      if (!/gb18030/.test(text)) t.strictSame(read(Buffer.from(changed, 'latin1')), { kind, says }, `${name}, ${end}`);
    }
    for (let cut = 0; cut < message.length; cut += 97)
      readNotice(message.subarray(0, cut)).recipients.map(classifyNotice);
  }
});

/** The final recipient of a notice, and the address that is read from it. */
function readsAs(t: Test, table: [written: string, address: string | null][]): void {
  for (const [written, address] of table) {
    const { recipients } = readNotice(reportOf('multipart/report; boundary=b', written));
    t.strictSame(
      recipients.map((one) => one.address),
      [address],
      written,
    );
  }
}

/** A report about one recipient, with this Content-Type and Final-Recipient. */
const reportOf = (contentType: string, recipient = 'rfc822; ann@example.test') =>
  Buffer.from(
    [
      ...['From: MAILER-DAEMON@mx.test', 'Subject: Undelivered Mail', `Content-Type: ${contentType}`, '', '--b'],
      ...['Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; mx.test', ''],
      ...[
        `Final-Recipient: ${recipient}`,
        'Action: failed',
        'Diagnostic-Code: smtp; 550 5.1.1 no such user',
        '',
        '--b--',
      ],
    ].join('\r\n'),
  );

t.test('MAIL-05: a duplicate parameter, or an unknown charset, hides no report', async (t) => {
  for (const type of [
    'multipart/report; report-type=delivery-status; report-type=delivery-status; boundary=b',
    'multipart/report; boundary=b; boundary=other',
    "multipart/report; report-type*=x-none''delivery-status; boundary=b",
  ]) {
    const expected = { kind: 'bounce', says: [['ann@example.test', 'bad_mailbox', true]] };
    t.strictSame(read(reportOf(type)), expected, type);
  }
});

t.test('MAIL-05: a field whose value begins only on its second line means the same', async (t) => {
  const [head = '', fields = '', end = ''] = reportOf('multipart/report; boundary=b')
    .toString('latin1')
    .split(/(?<=delivery-status\r\n)\r\n|\r\n(?=--b--)/);
  for (const [encoding, encoded] of [
    ['base64', Buffer.from(fields).toString('base64')],
    ['quoted-printable', fields.replaceAll('@', '=40').replaceAll('such', 's=\r\nuch')],
  ] as const) {
    const message = Buffer.from(`${head}Content-Transfer-Encoding:\r\n ${encoding}\r\n\r\n${encoded}\r\n${end}`);
    t.strictSame(read(message), { kind: 'bounce', says: [['ann@example.test', 'bad_mailbox', true]] }, encoding);
    t.match(readNotice(message).recipients, [{ diagnostic: '550 5.1.1 no such user' }], encoding);
  }
});

t.test('MAIL-05: a boundary that begins as the one around it ends nothing but its own parts', async (t) => {
  const [head = '', ...rest] = reportOf('multipart/report; boundary=b').toString('latin1').split('--b');
  for (const inner of ['bc', 'b--1']) {
    const words = `\r\nContent-Type: multipart/alternative; boundary="${inner}"\r\n\r\n--${inner}\r\n\r\nSorry.\r\n--${inner}--\r\n`;
    const message = Buffer.from([head, words, ...rest].join('--b'));
    t.strictSame(read(message), { kind: 'bounce', says: [['ann@example.test', 'bad_mailbox', true]] }, inner);
  }
});

t.test('MAIL-05: if the fields have only a status, the reason is the reply in the text that fits it', async (t) => {
  const said = '550 5.1.1 <ann@example.test>... User unknown';
  const table: [status: string, text: string, diagnostic: string | null][] = [
    ['5.1.1', `----- Transcript of session follows -----\r\n${said}`, said],
    ['4.4.3', '451 example.test: Name server timeout', '451 example.test: Name server timeout'],
    ['5.7.1', `The usual reasons:\r\n${said}`, null],
    ['4.4.7', '550 User unknown', null],
    ['5.1.1\r\nDiagnostic-Code: X-Unix; 67', said, said],
    ['4.2.0\r\nDiagnostic-Code: X-Unix; 75', 'Deferred', null],
    ['5.3.0', "550 5.0.0 /var/mail/ann... Can't create output", "550 5.0.0 /var/mail/ann... Can't create output"],
    ['5.3.0', 'ann@example.test: "over quota"', 'over quota'],
    ['5.3.0', 'ann@example.test: over quota\r\nann@example.test: or not', null],
    ['5.3.0', 'It failed for ann@example.test: over quota', null],
  ];
  for (const [status, text, diagnostic] of table) {
    const report = reportOf('multipart/report; boundary=b')
      .toString('latin1')
      .replace(/Diagnostic.*/, `Status: ${status}`);
    const { recipients } = readNotice(Buffer.from(report.replace('--b', `--b\r\n\r\n${text}\r\n--b`)));
    t.match(recipients, [{ status: status.slice(0, 5), diagnostic }], `${status} ${text}`);
  }
});

t.test(
  'MAIL-05: if the fields have no reason at all, it is what the text says about the recipient, and nothing else',
  async (t) => {
    const to = 'ann@example.test';
    const table: [text: string, diagnostic: string | null, is: string][] = [
      [
        `The following failed:\r\n\r\n  ${to}\r\n    No such user\r\n    here\r\n\r\nSorry.`,
        'No such user here',
        'bad_mailbox',
      ],
      [`It failed for ${to}.\r\n\r\nTo: ${to}\r\nSubject: User unknown`, null, 'other'],
      [`${to}\r\n\r\nPerhaps the user is unknown, perhaps not.`, null, 'other'],
    ];
    for (const [text, diagnostic, is] of table) {
      const report = reportOf('multipart/report; boundary=b')
        .toString('latin1')
        .replace(/Diagnostic.*/, 'Status: 5.0.0');
      const { recipients } = readNotice(Buffer.from(report.replace('--b', `--b\r\n\r\n${text}\r\n--b`)));
      t.match(recipients, [{ address: to, diagnostic }], text);
      t.match(recipients.map(classifyNotice), [{ classification: is }], text);
    }
  },
);

t.test('MAIL-05: a recipient without an action failed, unless its status says otherwise', async (t) => {
  const table: [fields: string, action: string][] = [
    ['Diagnostic-Code: smtp; no such user', 'failed'],
    ['Status: 5.1.1', 'failed'],
    ['Status: 4.4.1', 'delayed'],
    ['Status: 2.0.0', 'delivered'],
    ['Action: ?\r\nStatus: 5.1.1', 'failed'],
    ['Action: Delivered (to a mailbox)', 'delivered'],
  ];
  for (const [fields, action] of table) {
    const report = reportOf('multipart/report; boundary=b').toString('latin1');
    const { recipients } = readNotice(Buffer.from(report.replace(/Action.*\r\nDiagnostic.*/, fields)));
    t.match(recipients, [{ action }], fields);
  }
});

t.test("MAIL-05: a diagnostic is read to its end, and of several a server's counts", async (t) => {
  const said = '550 5.1.1 no such user';
  const table: [fields: string, diagnostic: string][] = [
    ['Diagnostic-Code: smtp;\r\n 550 5.1.1\r\n\tno such user', said],
    ['Diagnostic-Code: smtp; 550 5.1.1\r\nno such user', said],
    [`Diagnostic-Code:\r\n smtp; ${said}`, said],
    [`Diagnostic-Code:\r\n smtp; ${said}\r\nDiagnostic-Code: x-ours; it failed`, said],
    [`Diagnostic-Code: smtp; ${said}\r\n\r\nSorry about that.`, said],
    [`Diagnostic-Code: smtp; ${said}\r\nDiagnostic-Code: x-ours; it failed`, said],
    [`Diagnostic-Code: x-ours; it failed\r\nDiagnostic-Code: smtp; ${said}`, said],
  ];
  for (const [fields, diagnostic] of table) {
    const report = reportOf('multipart/report; boundary=b').toString('latin1');
    const { recipients } = readNotice(Buffer.from(report.replace(/Diagnostic.*/, fields)));
    t.strictSame(
      recipients.map((one) => one.diagnostic),
      [diagnostic],
      fields,
    );
  }
});

t.test(
  'MAIL-05: the address that we wrote to is read as it was written, and out of its encoding (RFC 3461)',
  async (t) => {
    const original = 'Original-Recipient: rfc822; ann+2Bshop@example.test\r\nAction:';
    const report = reportOf('multipart/report; boundary=b', 'rfc822; ann@inside.test').toString('latin1');
    const { recipients } = readNotice(Buffer.from(report.replace('Action:', original)));
    const aliases = ['ann+shop@example.test', 'ann+2Bshop@example.test'];
    t.match(recipients, [{ address: 'ann@inside.test', aliases }]);
  },
);

t.test('MAIL-05: an internationalized address is read in each of its forms (RFC 6533)', async (t) => {
  const long = '\u7528'.repeat(20);
  const table: [written: string, address: string][] = [
    ['utf-8; \\x{7528}\\x{6237}@example.test', '\u7528\u6237@example.test'],
    [`utf-8; ${'\\x{7528}'.repeat(20)}@example.test`, `${long}@example.test`],
    ['utf-8; a\\x{2B}\\x{1F600}@example.test', 'a+\u{1f600}@example.test'],
    // No address comes out that was not in it, and nothing that is not text.
    ['utf-8; a\\x{40}b\\x{D800}\\x{0A}@example.test', 'a\\x{40}b\\x{D800}\\x{0A}@example.test'],
    ['rfc822; a\\x{7528}@example.test', 'a\\x{7528}@example.test'],
  ];
  readsAs(t, table);
});

t.test('MAIL-05: an address in quotes is read, and an unreadable one still counts as a recipient', async (t) => {
  const table: [written: string, address: string | null][] = [
    ['rfc822;"j d"@b.example', '"j d"@b.example'],
    ['rfc822; <"a@b"@c.example>', '"a@b"@c.example'],
    ['rfc822; "a\\"b"@c.example', '"a\\"b"@c.example'],
    ['rfc822; "jane"@a.example', 'jane@a.example'],
    ['rfc822; "jane@a.example"', 'jane@a.example'],
    ['rfc822; "Jane Doe" <jane@a.example>', 'jane@a.example'],
    ['x400; /c=us/admd= /o=x/s=doe', '/c=us/admd= /o=x/s=doe'],
    ['LOCAL; |/usr/bin/procmail', '|/usr/bin/procmail'],
    ['rfc822; jane', 'jane'],
    ['rfc822;', null],
    ['rfc822; <>', null],
    ['', null],
  ];
  readsAs(t, table);
});

t.test('MAIL-05: what the returned message says is not what happened to it', async (t) => {
  for (const { name, message } of bounces) {
    const whole = Buffer.concat([message, Buffer.from(`\r\n--\r\n${original.replaceAll('\n', '\r\n')}`)]);
    const addresses = readNotice(whole).recipients.map(({ address }) => address);
    t.notOk(addresses.includes('nobody@elsewhere.test'), name);
    t.notOk(addresses.includes('other@elsewhere.test'), name);
    t.notOk(addresses.includes('victim@elsewhere.test'), name);
  }
});

t.test('INJ-13: the stored diagnostic is clean and short', async (t) => {
  const fields = `Final-Recipient: rfc822; jane@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 \x1b[31mno\0 such\xff user ${'x'.repeat(10_000)}`;
  const message = `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n${fields}\n\n--b--\n`;
  const [one] = readNotice(Buffer.from(message, 'latin1')).recipients;
  if (!one) throw new Error('nobody is named');
  const { diagnostic, classification } = classifyNotice(one);
  t.equal(classification, 'bad_mailbox');
  t.match(diagnostic, /^550 5\.1\.1 \[31mno such/);
  t.ok((diagnostic?.length ?? 0) <= 2_000);
  t.notMatch(diagnostic, /[\x00-\x1f\x7f]/);
});

t.test('DOS-07: whatever a message consists of, reading it takes little time', async (t) => {
  for (const [name, build] of Object.entries(bombs)) {
    const message = Buffer.from(build(), 'latin1');
    const { recipients } = readNotice(message);
    const ms = await least(() => readAll(message), 1_000, 3);
    t.ok(ms < 1_000, `${name}: ${Math.round(ms)} ms`);
    t.ok(recipients.length <= 100, `${name}: ${recipients.length} recipients`);
  }
});

t.test('DOS-07: and little memory', async (t) => {
  // So little memory that garbage not collected yet does not matter.
  const args = ['--no-warnings', '--max-old-space-size=60', '--max-semi-space-size=1', bombProgram];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  t.equal(status, 0, stderr);
  t.ok(stdout !== '' && Number(stdout) < 100, `${stdout} MB`);
});
