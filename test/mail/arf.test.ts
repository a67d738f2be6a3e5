import t from 'tap';
import { readComplaint } from '../../src/mail/returns/arf.ts';

const arf = (fields: string, header: string, type = 'message/rfc822') =>
  Buffer.from(
    `From: feedback@provider.test
Subject: FW: Your order
Content-Type: multipart/report; report-type=feedback-report; boundary="b"

--b
Content-Type: text/plain

This is an email abuse report.

--b
Content-Type: message/feedback-report

${fields}

--b
Content-Type: ${type}

${header}

List-Unsubscribe: <mailto:in-the-body@x.test>
--b--
`.replaceAll('\n', '\r\n'),
  );

const fields = `Feedback-Type: abuse
User-Agent: SomeGenerator/1.0
Version: 1
Original-Mail-From: <bounces+aaaa@mail.sender.test>
Original-Rcpt-To: <jane@example.com>
Arrival-Date: Sat, 21 Nov 2026 09:00:00 +0000`;

const header = `Return-Path: <bounces+bbbb@mail.sender.test>
List-Unsubscribe: <https://send.test/unsubscribe/cccc>,
 <mailto:unsubscribe+cccc@mail.sender.test?subject=unsubscribe>
Message-ID: <0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001@sender.test>
Subject: Your order`;

t.test('a feedback report (RFC 5965) names what it is about', async (t) => {
  for (const type of ['message/rfc822', 'text/rfc822-headers', 'message/rfc822-headers', 'message/global-headers']) {
    t.strictSame(
      readComplaint(arf(fields, header, type)),
      {
        kind: 'complaint',
        type: 'abuse',
        tokens: [
          'bounces+aaaa@mail.sender.test',
          'bounces+bbbb@mail.sender.test',
          'https://send.test/unsubscribe/cccc',
          'mailto:unsubscribe+cccc@mail.sender.test?subject=unsubscribe',
        ],
        recipients: ['jane@example.com'],
      },
      type,
    );
  }
});

t.test('a report counts without the message, and without a sender in what other servers noted about it', async (t) => {
  const [alone = ''] = arf(fields, header).toString().split('\r\n--b\r\nContent-Type: message/rfc822', 1);
  const expected = { kind: 'complaint', recipients: ['jane@example.com'] };
  t.match(readComplaint(Buffer.from(alone)), { ...expected, tokens: ['bounces+aaaa@mail.sender.test'] });
  const noted = `${header}\nAuthentication-Results: mx.other.test; dkim=pass header.d=sender.test`;
  t.match(readComplaint(arf(fields, noted)), expected);
});

t.test('the return path is found in what the receiving server noted, if the copy has no other', async (t) => {
  const received = {
    Sendmail: `from mta.sender.test (mta.sender.test [192.0.2.1])
\tby mx.reader.test (8.17.1/8.17.1) with ESMTPS id 4ATH0K1x012345; Sun, 29 Nov 2026 17:00:20 GMT
\t(envelope-from bounces+ffff@mail.sender.test)`,
    Exim: `from mta.sender.test ([192.0.2.1]) by mx.reader.test with esmtps  (TLS1.3) tls TLS_AES_256_GCM_SHA384
\t(Exim 4.96) (envelope-from <bounces+ffff@mail.sender.test>) id 1vPabc-000000000Fa-2XyZ
\tfor jane@example.com; Sun, 29 Nov 2026 17:00:20 +0000`,
    qpsmtpd: `from mta.sender.test (HELO mta.sender.test) (192.0.2.1) by mx.reader.test with ESMTP
\t(envelope-sender <bounces+ffff@mail.sender.test>); Sun, 29 Nov 2026 17:00:20 +0000`,
    Postfix: `from mta.sender.test (mta.sender.test [192.0.2.1]) by mx.reader.test (Postfix) with ESMTPS id 4XyZ
\tfor <jane@example.com>; Sun, 29 Nov 2026 17:00:20 +0000 (UTC)`,
  };
  for (const [server, value] of Object.entries(received)) {
    const tokens = readComplaint(arf('Feedback-Type: abuse', `Received: ${value}\nSubject: Your order`))?.tokens;
    t.strictSame(tokens, server === 'Postfix' ? [] : ['bounces+ffff@mail.sender.test'], server);
  }
});

t.test('the longest link of ours is read whole', async (t) => {
  const link = `https://${'long.'.repeat(40)}test/unsubscribe/${'c'.repeat(420)}`;
  t.strictSame(readComplaint(arf('Feedback-Type: abuse', `List-Unsubscribe: <${link}>`))?.tokens, [link]);
});

t.test('a report is a complaint, an unsubscribe request, or neither', async (t) => {
  const kindOf = (type: string) => readComplaint(arf(`Feedback-Type: ${type}\nVersion: 1`, header))?.kind ?? null;
  for (const type of ['abuse', 'Fraud', 'virus', 'other', 'miscategorized']) t.equal(kindOf(type), 'complaint', type);
  for (const type of ['opt-out', 'opt-out-list']) t.equal(kindOf(type), 'unsubscribe', type);
  t.equal(kindOf('\n abuse'), 'complaint', 'folded before the type');
  for (const type of ['not-spam', 'auth-failure', 'dkim', '', 'constructor']) t.equal(kindOf(type), null, type);
});

t.test('a report from Microsoft is just the message', async (t) => {
  const jmrp = (subject: string, more: string) =>
    Buffer.from(
      `From: staff@hotmail.com\nSubject: ${subject}\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n${more}${header}\n\nx\n--b--\n`,
    );
  const subject = 'complaint about message from 192.0.2.1';
  const recipient = 'X-HmXmrOriginalRecipient: jane@hotmail.com\n';
  t.match(readComplaint(jmrp(subject, recipient)), { kind: 'complaint', recipients: ['jane@hotmail.com'] });
  t.equal(readComplaint(jmrp(subject, '')), null);
  const bare = Buffer.from(
    jmrp(
      subject,
      `${recipient}Authentication-Results: hotmail.com; spf=pass (sender IP is 192.0.2.1; identity
 alignment result is pass) smtp.mailfrom=bounces+dddd@mail.sender.test; dkim=pass header.d=sender.test;
 x-hmca=pass header.id=hello@sender.test
Received-SPF: pass (x: domain of sender.test) client-ip=192.0.2.1; envelope-from="bounces+eeee@mail.sender.test";
`,
    )
      .toString()
      .replace(header, 'Subject: Your order'),
  );
  const tokens = ['bounces+dddd@mail.sender.test', 'bounces+eeee@mail.sender.test'];
  t.match(readComplaint(bare), { tokens, recipients: ['jane@hotmail.com'] }, 'the return path, if it was noted');
  t.equal(readComplaint(jmrp('Fwd: Your order', recipient)), null);
});

t.test('anything else is no report', async (t) => {
  for (const text of ['', 'Feedback-Type: abuse\n\nx', 'Content-Type: message/feedback-report\n\n', header])
    t.equal(readComplaint(Buffer.from(text)), null, text);
});
