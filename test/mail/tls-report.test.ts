import { gzipSync } from 'node:zlib';
import PostalMime from 'postal-mime';
import t from 'tap';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { composeReportMail, reportFilename, type TlsReport, writeReport } from '../../src/mail/compose/tls-report.ts';

const failure = {
  result: 'certificate-expired',
  host: 'mx1.example.net',
  address: '203.0.113.56',
  localAddress: '8.8.4.4',
  reason: 'presented a certificate that has expired',
  sessions: 100,
};
const report: TlsReport = {
  day: '2016-04-01',
  domain: 'example.net',
  contact: 'sts-reporting@mail.sndr.example.com',
  policies: [
    {
      type: 'sts',
      lines: ['version: STSv1', 'mode: testing', 'mx: *.mail.example.net', 'max_age: 86400'],
      mx: ['*.mail.example.net'],
      successful: 5_326,
      failed: 303,
      failures: [
        failure,
        { ...failure, localAddress: '10.1.2.3', sessions: 200 },
        { ...failure, localAddress: '192.168.0.1', sessions: 2 },
        { ...failure, result: 'validation-failure', address: '', localAddress: '', reason: '', sessions: 1 },
      ],
    },
    { type: 'no-policy-found', lines: [], mx: [], successful: 1, failed: 0, failures: [] },
  ],
};

t.test('RFC 8460 section 4.4: the report as JSON', async (t) => {
  const shown = {
    'result-type': 'certificate-expired',
    'receiving-mx-hostname': 'mx1.example.net',
    'receiving-ip': '203.0.113.56',
    'failure-reason-code': 'presented a certificate that has expired',
  };
  t.same(JSON.parse(writeReport(report)), {
    'organization-name': 'mail.sndr.example.com',
    'date-range': { 'start-datetime': '2016-04-01T00:00:00Z', 'end-datetime': '2016-04-01T23:59:59Z' },
    'contact-info': 'sts-reporting@mail.sndr.example.com',
    'report-id': '2016-04-01.example.net@mail.sndr.example.com',
    policies: [
      {
        policy: {
          'policy-type': 'sts',
          'policy-string': ['version: STSv1', 'mode: testing', 'mx: *.mail.example.net', 'max_age: 86400'],
          'policy-domain': 'example.net',
          'mx-host': ['*.mail.example.net'],
        },
        summary: { 'total-successful-session-count': 5_326, 'total-failure-session-count': 303 },
        'failure-details': [
          { ...shown, 'sending-mta-ip': '8.8.4.4', 'failed-session-count': 100 },
          // Addresses of our own network are not disclosed, and reasons that differ only by them are merged.
          { ...shown, 'failed-session-count': 202 },
          {
            'result-type': 'validation-failure',
            'receiving-mx-hostname': 'mx1.example.net',
            'failed-session-count': 1,
          },
        ],
      },
      {
        policy: { 'policy-type': 'no-policy-found', 'policy-domain': 'example.net' },
        summary: { 'total-successful-session-count': 1, 'total-failure-session-count': 0 },
      },
    ],
  });
});

t.test('RFC 8460 section 5.1: the file name', async (t) => {
  t.equal(reportFilename(report), 'mail.sndr.example.com!example.net!1459468800!1459555199.json.gz');
});

t.test('RFC 8460 section 5.3: the mail, as another program reads it', async (t) => {
  const packed = gzipSync(writeReport(report));
  const to = parseMailbox('reports@example.net');
  const compose = (options = {}) => composeReportMail(report, packed, { to, date: new Date(0), ...options });
  const bytes = compose();
  const mail = await PostalMime.parse(bytes);
  t.match(mail, {
    from: { address: 'sts-reporting@mail.sndr.example.com' },
    to: [{ address: 'reports@example.net' }],
    subject:
      'Report Domain: example.net Submitter: mail.sndr.example.com Report-ID: <2016-04-01.example.net@mail.sndr.example.com>',
    date: '1970-01-01T00:00:00.000Z',
    text: /about the mail servers of example\.net on 2016-04-01 \(UTC\)\.\n/,
    attachments: [{ mimeType: 'application/tlsrpt+gzip', filename: reportFilename(report) }],
  });
  t.same(Buffer.from(mail.attachments[0]?.content as ArrayBuffer), packed);
  const value = (key: string) => mail.headers.find((header) => header.key === key)?.value;
  t.match(value('content-type'), /^multipart\/report; report-type="tlsrpt"; boundary=/);
  t.equal(value('tls-report-domain'), 'example.net');
  t.equal(value('tls-report-submitter'), 'mail.sndr.example.com');
  t.same(compose(), bytes, 'the same each time');
  const other = await PostalMime.parse(compose({ to: parseMailbox('others@example.net') }));
  t.not(other.messageId, mail.messageId, 'a mail to somebody else is different');

  const domain = `${'x'.repeat(60)}.`.repeat(4).slice(0, -1);
  const longest = composeReportMail(
    { ...report, domain, contact: `${'c'.repeat(64)}@${'y'.repeat(60)}.${'y'.repeat(60)}.test` },
    packed,
    { to, date: new Date(0) },
  );
  t.ok(
    longest
      .toString()
      .split('\r\n')
      .every((line) => line.length <= 998),
  );
});
