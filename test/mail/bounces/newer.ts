import { type Bounce, raw, report } from './build.ts';

const stalwart = {
  from: '"Mail Delivery Subsystem" <MAILER-DAEMON@mx.relay.test>',
  subject: 'Failed to deliver message',
  header: 'Auto-Submitted: auto-generated',
};
const stalwartSays = (said: string) =>
  `Your message could not be delivered to the following recipients:\n\n<jane@example.com> (${said})\n\n`;
const stalwartFields = (rest: string, action = 'failed') =>
  `Final-Recipient: rfc822;jane@example.com\nAction: ${action}\n${rest}`;

const maddySays = (said: string) => `
This is the mail delivery system at mx.relay.test.

Unfortunately, your message could not be delivered to one or more
recipients. The usual cause of this problem is invalid
recipient address or maintenance at the recipient side.

Contact the postmaster for further assistance, provide the Message ID (below):

Message ID: 7f3a21c9
Arrival: 2026-11-21 09:00:00 +0000 UTC
Last delivery attempt: 2026-11-21 09:00:01 +0000 UTC

Delivery to jane@example.com failed with error: ${said}
`;
const maddy = { from: 'MAILER-DAEMON@mx.relay.test', header: 'Auto-Submitted: auto-replied' };

const openSmtpd = (action: string, said: string, status: string, intro?: string) => `
Subject: Delivery status notification: ${action}
From: Mailer Daemon <MAILER-DAEMON@mx.relay.test>
To: bounces+x@mail.sender.test
Date: Sat, 21 Nov 2026 09:00:00 +0000 (UTC)
MIME-Version: 1.0
Content-Type: multipart/mixed;boundary="  31415926535897/mx.relay.test"

This is a MIME-encapsulated message.

--  31415926535897/mx.relay.test
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    ${intro ?? 'An error has occurred while attempting to deliver a message for\n    the following list of recipients:'}

jane@example.com: ${said}

    Below is a copy of the original message:

--  31415926535897/mx.relay.test
Content-Description: Delivery Report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.test

Final-Recipient: rfc822; jane@example.com
Action: ${action}
Status: ${status}

--  31415926535897/mx.relay.test
Content-Description: Message headers
Content-Type: text/rfc822-headers

From: Shop <hello@sender.test>
To: Jane <jane@example.com>
Subject: Your order

--  31415926535897/mx.relay.test--
`;

const dovecot = (why: string, part: string, type = 'delivery-status') => `
Message-ID: <dovecot-1371108033-927580-0@mx.example.com>
Date: Sat, 21 Nov 2026 09:00:00 +0000
From: Mail Delivery Subsystem <postmaster@example.com>
To: <bounces+x@mail.sender.test>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=${type};
	boundary="927580/mx.example.com"
Subject: Rejected: Your order
Auto-Submitted: auto-replied (rejected)
Precedence: bulk

This is a MIME-encapsulated message

--927580/mx.example.com
Content-Type: text/plain; charset=utf-8
Content-Disposition: inline
Content-Transfer-Encoding: 8bit

Your message to <jane@example.com> was automatically rejected:
${why}
--927580/mx.example.com
${part}

--927580/mx.example.com
Content-Type: message/rfc822

From: Shop <hello@sender.test>
To: Jane <jane@example.com>
Subject: Your order


--927580/mx.example.com--
`;
const dovecotStatus = (status: string) => `Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.com
Final-Recipient: rfc822; jane@example.com
Action: failed
Status: ${status}`;

const lmtp = (said: string, phase = 'RCPT TO') => ({
  text: `
This is the mail system at host mx.relay.test.

I'm sorry to have to inform you that your message could not
be delivered to one or more recipients. It's attached below.

<jane@example.com>: host mx.relay.test[private/dovecot-lmtp] said: ${said}
    (in reply to ${phase} command)
`,
  fields: `
Final-Recipient: rfc822; jane@example.com
Original-Recipient: rfc822;jane@example.com
Action: failed
Status: ${said.slice(4, 9)}
Remote-MTA: dns; mx.relay.test
Diagnostic-Code: smtp; ${said}`,
});

/** Servers of the last years, and Dovecot, after what their sources write. */
export const newer: Bounce[] = [
  raw(
    'Dovecot LDA: quota',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    dovecot('Quota exceeded (mailbox for user is full)', dovecotStatus('5.2.2')),
  ),
  raw(
    'Dovecot LDA: a bare status',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    dovecot('', dovecotStatus('5.2.2')),
  ),
  raw(
    'Dovecot LDA: any other reason',
    'bounce',
    ['jane@example.com', 'other', true],
    dovecot('Refused to store the message', dovecotStatus('5.2.0')),
  ),
  raw(
    'Dovecot Sieve: reject',
    'auto_reply',
    null,
    dovecot(
      'I have moved. This mailbox does not exist any more, user unknown.',
      `Content-Type: message/disposition-notification

Reporting-UA: mx.example.com; Dovecot Mail Delivery Agent
Final-Recipient: rfc822; jane@example.com
Original-Message-ID: <0190aaaa@sender.test>
Disposition: automatic-action/MDN-sent-automatically; deleted`,
      'disposition-notification',
    ),
  ),
  report(
    'Postfix and Dovecot LMTP: unknown',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    lmtp("550 5.1.1 <jane@example.com> User doesn't exist: jane@example.com"),
  ),
  report(
    'Postfix and Dovecot LMTP: quota',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    lmtp('552 5.2.2 <jane@example.com> Quota exceeded (mailbox for user is full)', 'end of DATA'),
  ),
  report(
    'Postfix and Dovecot LMTP: Sieve ereject',
    'bounce',
    ['jane@example.com', 'policy', true],
    lmtp('554 5.7.1 <jane@example.com> I do not want this mail', 'end of DATA'),
  ),
  report('maddy', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...maddy,
    text: maddySays("SMTP error 550: User doesn't exist"),
    fields: `
Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 User doesn't exist`,
  }),
  report('maddy: SMTPUTF8', 'bounce', ['jané@example.com', 'bad_mailbox', true], {
    ...maddy,
    text: maddySays("SMTP error 550: User doesn't exist").replace('jane@', 'jané@'),
    fields: `
Final-Recipient: utf8; jané@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: X-Maddy; User doesn't exist`,
  }),
  report('maddy: gave up', 'bounce', ['jane@example.com', 'network', false], {
    ...maddy,
    text: maddySays('SMTP error 450: Unable to connect to any MX host: connection refused'),
    fields: `
Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 4.4.2
Diagnostic-Code: smtp; 450 4.4.2 Unable to connect to any MX host: connection refused`,
  }),
  report('maddy: null MX', 'bounce', ['jane@example.com', 'bad_domain', true], {
    ...maddy,
    text: maddySays('SMTP error 556: Domain does not accept email (null MX)'),
    fields: `
Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.1.10
Diagnostic-Code: smtp; 556 5.1.10 Domain does not accept email (null MX)`,
  }),
  raw(
    'OpenSMTPD: a report, unknown',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    openSmtpd('failed', '550 5.1.1 <jane@example.com>: Recipient address rejected: User unknown', '5.0.0'),
  ),
  raw(
    'OpenSMTPD: a report, its own recipient',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    openSmtpd('failed', '550 Invalid recipient: <jane@example.com>', '5.1.1'),
  ),
  raw(
    'OpenSMTPD: a report, blocked',
    'bounce',
    ['jane@example.com', 'policy', true],
    openSmtpd('failed', '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using a list', '5.0.0'),
  ),
  raw(
    'OpenSMTPD: a report, expired',
    'bounce',
    ['jane@example.com', 'network', true],
    openSmtpd('failed', 'Envelope expired', '5.4.7'),
  ),
  // As version 6.8 does if the last attempt was put off. It keeps nothing.
  raw(
    'OpenSMTPD: a report, expired, that says delayed',
    'bounce',
    ['jane@example.com', 'network', false],
    openSmtpd(
      'delayed',
      'Envelope expired',
      '4.4.7',
      'A message is delayed for more than 0 seconds for the following\n    list of recipients:',
    ),
  ),
  raw(
    'OpenSMTPD: a report, what the program for local delivery said',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    openSmtpd('failed', '"over quota"', '5.3.0'),
  ),
  raw(
    'OpenSMTPD: a report, no such domain',
    'bounce',
    ['jane@example.com', 'bad_domain', true],
    openSmtpd('failed', 'Domain does not exist', '5.0.0'),
  ),
  raw(
    'OpenSMTPD: a server that says so of some domain',
    'bounce',
    ['jane@example.com', 'other', true],
    openSmtpd('failed', '550 Domain does not exist', '5.0.0'),
  ),
  raw(
    'OpenSMTPD: a report, no MX yet',
    'delay',
    ['jane@example.com', 'network', false],
    openSmtpd(
      'delayed',
      'No MX found for domain',
      '4.0.0',
      'A message is delayed for more than 4 hours for the following\n    list of recipients:',
    ),
  ),
  raw(
    'OpenSMTPD: a report, full',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    openSmtpd('failed', '552 5.2.2 Mailbox full', '5.0.0'),
  ),
  raw(
    'OpenSMTPD: a report, delayed',
    'delay',
    ['jane@example.com', 'network', false],
    openSmtpd(
      'delayed',
      'Network error on destination MXs',
      '4.0.0',
      'A message is delayed for more than 4 hours for the following\n    list of recipients:',
    ),
  ),
  report('Stalwart', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...stalwart,
    text: stalwartSays(
      "host 'mx.example.com' rejected command 'RCPT TO:<jane@example.com>' with code 550 (5.1.1) 'User unknown'",
    ),
    fields: stalwartFields('Status: 5.1.1\nDiagnostic-Code: smtp;550 User unknown\nRemote-MTA: dns;mx.example.com'),
  }),
  report('Stalwart: a reply without an enhanced code', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...stalwart,
    text: stalwartSays(
      "host 'mx.example.com' rejected command 'RCPT TO:<jane@example.com>' with code 550 (0.0.0) 'No such user here'",
    ),
    fields: stalwartFields(
      'Status: 5.5.0\nDiagnostic-Code: smtp;550 No such user here\nRemote-MTA: dns;mx.example.com',
    ),
  }),
  report('Stalwart: a bare code', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    ...stalwart,
    text: stalwartSays("host 'mx.example.com' rejected transaction with code 552 (0.0.0) 'Mailbox full'"),
    fields: stalwartFields('Status: 5.5.2\nDiagnostic-Code: smtp;552 Mailbox full\nRemote-MTA: dns;mx.example.com'),
  }),
  report('Stalwart: a local mailbox', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...stalwart,
    text: stalwartSays("host 'localhost' rejected transaction with code 550 (5.5.0) 'Mailbox not found.'"),
    fields: stalwartFields('Status: 5.5.0\nDiagnostic-Code: smtp;550 Mailbox not found.\nRemote-MTA: dns;localhost'),
  }),
  report('Stalwart: a local mailbox over its quota', 'delay', ['jane@example.com', 'mailbox_full', false], {
    ...stalwart,
    subject: 'Warning: Delay in message delivery',
    text: stalwartSays("host 'localhost' rejected transaction with code 452 (4.3.1) 'Mailbox over quota.'").replace(
      'Your message could not be delivered to',
      'There was a temporary problem delivering your message to',
    ),
    fields: stalwartFields(
      'Status: 4.3.1\nDiagnostic-Code: smtp;452 Mailbox over quota.\nRemote-MTA: dns;localhost\nWill-Retry-Until: Tue, 24 Nov 2026 09:00:00 +0000',
      'delayed',
    ),
  }),
  report('Stalwart: no connection', 'bounce', ['jane@example.com', 'network', true], {
    ...stalwart,
    text: stalwartSays("connection to 'mx.example.com' failed: Connection timed out"),
    fields: stalwartFields('Status: 5.0.0\nRemote-MTA: dns;mx.example.com'),
  }),
  report('Stalwart: no such domain', 'bounce', ['jane@example.com', 'bad_domain', true], {
    ...stalwart,
    text: stalwartSays("failed to lookup 'example.com': DNS record not found: Non-Existent Domain"),
    fields: stalwartFields('Status: 5.0.0'),
  }),
  report('Stalwart: DNS has no answer', 'bounce', ['jane@example.com', 'network', true], {
    ...stalwart,
    text: stalwartSays("failed to lookup 'example.com': DNS resolution error: request timed out"),
    fields: stalwartFields('Status: 5.0.0'),
  }),
  report('Stalwart: MTA-STS', 'bounce', ['jane@example.com', 'policy', true], {
    ...stalwart,
    text: stalwartSays("MTA-STS failed to authenticate 'mx.example.com': MX 'mx.example.com' not authorized by policy"),
    fields: stalwartFields('Status: 5.0.0'),
  }),
];
