import { classifyNotice } from '../../src/core/returns/return-class.ts';
import { readComplaint } from '../../src/mail/returns/arf.ts';
import { readNotice } from '../../src/mail/returns/dsn.ts';

const megabyte = 1024 * 1024;
const filled = (unit: string, size = megabyte) => unit.repeat(Math.ceil(size / unit.length));
const plain = (body: string, type = 'text/plain') =>
  `From: MAILER-DAEMON@x.test\nSubject: Undelivered\nContent-Type: ${type}\n\n${body}`;
const report = (body: string) =>
  `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n${body.slice(0, 70_000)}\n--b\nContent-Type: message/delivery-status\n\n${body}\n--b--`;
const nested = (deep: number) =>
  Array.from({ length: deep }, (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\n\n--b${i}\n`).join('');

/** Messages to the inbound port that are made to be hard to read. */
export const bombs: Record<string, () => string> = {
  '10,000 nested multiparts': () => nested(10_000),
  'a million parts': () => `Content-Type: multipart/mixed; boundary=b\n\n${filled('--b\n\n', 5 * megabyte)}`,
  '100,000 headers': () => `${filled('X-A: b\n', 700_000)}\n`,
  'a header of 10 MB': () => `X-A: ${filled('a', 10 * megabyte)}\n\n`,
  'a header in a million lines': () => `X-A: b\n${filled(' c\n', 10 * megabyte)}\n`,
  'the same boundary over and over': () => filled('Content-Type: multipart/mixed; boundary=b\n\n--b\n'),
  'a million recipients': () => report(filled('Final-Recipient: rfc822; a@b.test\nAction: failed\nStatus: 5.1.1\n\n')),
  'a long diagnostic': () =>
    report(`Final-Recipient: rfc822; a@b.test\nDiagnostic-Code: smtp; ${filled('550-5.1.1 ')}`),
  'many failed recipients': () => `X-Failed-Recipients: ${filled('a@b.test,', 60_000)}\n${plain(filled('a@b.test\n'))}`,
  'quotes in a parameter': () => `Content-Type: ${filled('"\\', 60_000)}\n\nx`,
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
        [`text of ${JSON.stringify(unit)}`, () => plain(filled(unit))],
        [`HTML of ${JSON.stringify(unit)}`, () => plain(filled(unit), 'text/html')],
      ]),
  ),
};

/** Everything that is read from such a message. */
export function readAll(message: Buffer): void {
  readNotice(message).recipients.map(classifyNotice);
  readComplaint(message);
}

/**
 * Run as a program, it reads all of them, and prints the peak memory in MB. In a process that does other work too,
 * nobody could tell whose memory it is, or what is merely not collected yet.
 */
if (import.meta.main) {
  const before = process.resourceUsage().maxRSS;
  for (const build of Object.values(bombs)) readAll(Buffer.from(build(), 'latin1'));
  process.stdout.write(String((process.resourceUsage().maxRSS - before) / 1024));
}
