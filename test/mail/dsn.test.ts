import t from 'tap';
import { judge } from '../../src/core/return-class.ts';
import { readComplaint } from '../../src/mail/arf.ts';
import { readNotice } from '../../src/mail/dsn.ts';
import { least } from '../support/linear.ts';
import { original } from './bounces/build.ts';
import { bounces } from './bounces/index.ts';

const read = (message: Buffer) => {
  const { kind, recipients } = readNotice(message);
  const says = recipients.map((one) => {
    const { classification, permanent } = judge(one);
    return [one.address, classification, permanent];
  });
  return { kind, says };
};

t.test('MAIL-05: what servers write is understood', async (t) => {
  t.ok(bounces.length >= 60, `${bounces.length} messages`);
  for (const { name, message, kind, says } of bounces) t.strictSame(read(message), { kind, says }, name);
});

t.test('MAIL-05: however its lines end, and wherever it is cut, it is read without an error', async (t) => {
  for (const { name, message, kind, says } of bounces) {
    const text = message.toString('latin1');
    for (const [end, changed] of [
      ['LF', text.replaceAll('\r\n', '\n')],
      ['CR', text.replaceAll('\r\n', '\r')],
      ['NUL', text.replaceAll('\r\n', '\0\r\n')],
    ] as const) {
      // As text of several octets a line end is another thing in some charsets.
      if (!/gb18030/.test(text)) t.strictSame(read(Buffer.from(changed, 'latin1')), { kind, says }, `${name}, ${end}`);
    }
    for (let cut = 0; cut < message.length; cut += 97) readNotice(message.subarray(0, cut)).recipients.map(judge);
  }
});

/** A report of one recipient, with this Content-Type and Final-Recipient. */
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

t.test('MAIL-05: a parameter that is there twice, or in a charset that nobody knows, hides no report', async (t) => {
  for (const type of [
    'multipart/report; report-type=delivery-status; report-type=delivery-status; boundary=b',
    'multipart/report; boundary=b; boundary=other',
    "multipart/report; report-type*=x-none''delivery-status; boundary=b",
  ]) {
    const expected = { kind: 'bounce', says: [['ann@example.test', 'bad_mailbox', true]] };
    t.strictSame(read(reportOf(type)), expected, type);
  }
});

t.test('MAIL-05: an internationalised address is read in each of its forms (RFC 6533)', async (t) => {
  const long = '\u7528'.repeat(20);
  const table: [written: string, address: string][] = [
    ['utf-8; \\x{7528}\\x{6237}@example.test', '\u7528\u6237@example.test'],
    [`utf-8; ${'\\x{7528}'.repeat(20)}@example.test`, `${long}@example.test`],
    ['utf-8; a\\x{2B}\\x{1F600}@example.test', 'a+\u{1f600}@example.test'],
    // No address comes out of it that was not there, and nothing that is no text.
    ['utf-8; a\\x{40}b\\x{D800}\\x{0A}@example.test', 'a\\x{40}b\\x{D800}\\x{0A}@example.test'],
    ['rfc822; a\\x{7528}@example.test', 'a\\x{7528}@example.test'],
  ];
  for (const [written, address] of table) {
    const { recipients } = readNotice(reportOf('multipart/report; boundary=b', written));
    t.strictSame(
      recipients.map((one) => one.address),
      [address],
      written,
    );
  }
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

t.test('INJ-13: what is kept of a diagnostic is clean and short', async (t) => {
  const fields = `Final-Recipient: rfc822; jane@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 \x1b[31mno\0 such\xff user ${'x'.repeat(10_000)}`;
  const message = `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n${fields}\n\n--b--\n`;
  const [one] = readNotice(Buffer.from(message, 'latin1')).recipients;
  if (!one) throw new Error('nobody is named');
  const { diagnostic, classification } = judge(one);
  t.equal(classification, 'bad_mailbox');
  t.match(diagnostic, /^550 5\.1\.1 \[31mno such/);
  t.ok((diagnostic?.length ?? 0) <= 2_000);
  t.notMatch(diagnostic, /[\x00-\x1f\x7f]/);
});

const megabyte = 1024 * 1024;
const filled = (unit: string, size = megabyte) => unit.repeat(Math.ceil(size / unit.length));
const plain = (body: string, type = 'text/plain') =>
  `From: MAILER-DAEMON@x.test\nSubject: Undelivered\nContent-Type: ${type}\n\n${body}`;
const report = (body: string) =>
  `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n${body.slice(0, 70_000)}\n--b\nContent-Type: message/delivery-status\n\n${body}\n--b--`;
const nested = (deep: number) =>
  Array.from({ length: deep }, (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\n\n--b${i}\n`).join('');

const bombs: Record<string, string> = {
  '10,000 nested multiparts': nested(10_000),
  'a million parts': `Content-Type: multipart/mixed; boundary=b\n\n${filled('--b\n\n', 5 * megabyte)}`,
  '100,000 headers': `${filled('X-A: b\n', 700_000)}\n`,
  'a header of 10 MB': `X-A: ${filled('a', 10 * megabyte)}\n\n`,
  'a header in a million lines': `X-A: b\n${filled(' c\n', 10 * megabyte)}\n`,
  'the same boundary again and again': filled('Content-Type: multipart/mixed; boundary=b\n\n--b\n'),
  'a million recipients': report(filled('Final-Recipient: rfc822; a@b.test\nAction: failed\nStatus: 5.1.1\n\n')),
  'a long diagnostic': report(`Final-Recipient: rfc822; a@b.test\nDiagnostic-Code: smtp; ${filled('550-5.1.1 ')}`),
  'many failed recipients': `X-Failed-Recipients: ${filled('a@b.test,', 60_000)}\n${plain(filled('a@b.test\n'))}`,
  'quotes in a parameter': `Content-Type: ${filled('"\\', 60_000)}\n\nx`,
  ...Object.fromEntries(
    [
      '<',
      '<style>',
      '<a ',
      '&#',
      ' ',
      '- ',
      'a@',
      'a.',
      '550 ',
      '550-',
      '5.',
      '<<< 550 a\n',
      ':',
      'a a ',
      '\n',
      '\r',
      '\0',
    ]
      .concat([
        'mail',
        'could not ',
        'connect ',
        'domain ',
        'not delivered ',
        'failed a a ',
        '=?utf-8?Q?',
        'a@b.test 550 x\n',
      ])
      .flatMap((unit) => [
        [`text of ${JSON.stringify(unit)}`, plain(filled(unit))],
        [`HTML of ${JSON.stringify(unit)}`, plain(filled(unit), 'text/html')],
      ]),
  ),
};

t.test('DOS-07: whatever a message is made of, reading it takes little time and memory', async (t) => {
  for (const [name, text] of Object.entries(bombs)) {
    const message = Buffer.from(text, 'latin1');
    const before = process.memoryUsage().rss;
    const { recipients } = readNotice(message);
    const work = () => {
      readNotice(message).recipients.map(judge);
      readComplaint(message);
    };
    const ms = await least(work, 1_000, 3);
    t.ok(ms < 1_000, `${name}: ${Math.round(ms)} ms`);
    t.ok(process.memoryUsage().rss - before < 100 * megabyte, `${name}: memory`);
    t.ok(recipients.length <= 100, `${name}: ${recipients.length} recipients`);
  }
});
