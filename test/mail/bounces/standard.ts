import { type Bounce, raw, report } from './build.ts';

/** Bounces with the fields of RFC 3464. */
export const standard: Bounce[] = [
  report('Postfix: unknown user at the remote server', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    text: `This is the mail system at host mx.relay.test.

I'm sorry to have to inform you that your message could not
be delivered to one or more recipients. It's attached below.

                   The mail system

<jane@example.com>: host mx.example.com[192.0.2.9] said: 550 5.1.1
    <jane@example.com>: Recipient address rejected: User unknown in virtual
    mailbox table (in reply to RCPT TO command)
`,
    fields: `Final-Recipient: rfc822; jane@example.com
Original-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.example.com
Diagnostic-Code: smtp; 550 5.1.1 <jane@example.com>: Recipient address
    rejected: User unknown in virtual mailbox table`,
  }),
  report('Postfix: one of its own users is unknown', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    text: '<jane@example.com>: unknown user: "jane"\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: X-Postfix; unknown user: "jane"`,
  }),
  report('Postfix: no such domain', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    text: '<jane@nowhere.test>: Host or domain name not found. Name service error for name=nowhere.test type=AAAA: Host not found\n',
    fields: `Final-Recipient: rfc822; jane@nowhere.test
Action: failed
Status: 5.4.4
Diagnostic-Code: X-Postfix; Host or domain name not found. Name service error
    for name=nowhere.test type=AAAA: Host not found`,
  }),
  report('Postfix: given up after five days', 'bounce', ['jane@example.com', 'network', false], {
    text: '<jane@example.com>: connect to mx.example.com[192.0.2.9]:25: Connection timed out\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 4.4.1
Diagnostic-Code: X-Postfix; connect to mx.example.com[192.0.2.9]:25:
    Connection timed out`,
  }),
  report('Postfix: delayed', 'delay', ['jane@example.com', 'network', false], {
    subject: 'Delayed Mail (still being retried)',
    text: `####################################################################
# THIS IS A WARNING ONLY.  YOU DO NOT NEED TO RESEND YOUR MESSAGE. #
####################################################################

Your message could not be delivered for more than 4 hour(s).
It will be retried until it is 5 day(s) old.

<jane@example.com>: connect to mx.example.com[192.0.2.9]:25: Connection refused
`,
    fields: `Final-Recipient: rfc822; jane@example.com
Action: delayed
Status: 4.4.1
Diagnostic-Code: X-Postfix; connect to mx.example.com[192.0.2.9]:25: Connection
    refused
Will-Retry-Until: Thu, 26 Nov 2026 09:00:00 +0000`,
  }),
  report('Postfix: spam, refused at the end of the message', 'bounce', ['jane@example.com', 'content', true], {
    text: '<jane@example.com>: host mx.example.com[192.0.2.9] said: 554 rejected (in reply to end of DATA command)\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.0.0
Remote-MTA: dns; mx.example.com
Diagnostic-Code: smtp; 554 rejected`,
  }),
  report('Postfix: a full mailbox', 'bounce', ['jane@example.com', 'mailbox_full', false], {
    text: '<jane@example.com>: host mx.example.com[192.0.2.9] said: 452 4.2.2 Over quota (in reply to RCPT TO command)\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 4.2.2
Diagnostic-Code: smtp; 452 4.2.2 <jane@example.com> Over quota`,
  }),
  report('Postfix: a loop', 'bounce', ['jane@example.com', 'network', true], {
    text: '<jane@example.com>: mail for example.com loops back to myself\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.4.6
Diagnostic-Code: X-Postfix; mail for example.com loops back to myself`,
  }),
  report('Postfix: delivered, which is no bounce', 'relayed', ['jane@example.com', 'other', false], {
    subject: 'Successful Mail Delivery Report',
    text: '<jane@example.com>: delivery via mx.example.com[192.0.2.9]:25: 250 2.0.0 Ok\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: relayed
Status: 2.0.0
Diagnostic-Code: smtp; 250 2.0.0 Ok`,
  }),
  report(
    'Postfix: three recipients, three outcomes',
    'bounce',
    [
      ['ann@example.com', 'bad_mailbox', true],
      ['bob@example.com', 'mailbox_full', false],
      ['cid@example.com', 'policy', true],
    ],
    {
      text: 'Three of them.\n',
      fields: `Final-Recipient: rfc822; ann@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user

Final-Recipient: rfc822; bob@example.com
Action: delayed
Status: 4.2.2
Diagnostic-Code: smtp; 452 4.2.2 mailbox full

Final-Recipient: rfc822; cid@example.com
Action: failed
Status: 5.7.1
Diagnostic-Code: smtp; 554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using bl.example.net`,
    },
  ),
  report('sendmail: unknown user', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@mx.relay.test>',
    subject: 'Returned mail: see transcript for details',
    text: `The original message was received at Sat, 21 Nov 2026 09:00:00 GMT
from localhost [127.0.0.1]

   ----- The following addresses had permanent fatal errors -----
<jane@example.com>
    (reason: 550 5.1.1 <jane@example.com>... User unknown)

   ----- Transcript of session follows -----
... while talking to mx.example.com.:
>>> DATA
<<< 550 5.1.1 <jane@example.com>... User unknown
550 5.1.1 <jane@example.com>... User unknown
<<< 503 5.0.0 Need RCPT (recipient)
`,
    fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.1.1
Remote-MTA: DNS; mx.example.com
Diagnostic-Code: SMTP; 550 5.1.1 <jane@example.com>... User unknown
Last-Attempt-Date: Sat, 21 Nov 2026 09:00:01 GMT`,
  }),
  report('sendmail: a mailbox behind an alias', 'bounce', ['jane@elsewhere.test', 'bad_mailbox', true], {
    subject: 'Returned mail: see transcript for details',
    text: `   ----- The following addresses had permanent fatal errors -----
jane@elsewhere.test
    (reason: 550 User <jane> unknown)
    (expanded from: <team@example.com>)

   ----- Transcript of session follows -----
... while talking to mx.elsewhere.test.:
>>> DATA
<<< 550 User <jane> unknown
550 5.1.1 jane@elsewhere.test... User unknown
<<< 502 ESMTP command error
`,
    fields: `Final-Recipient: RFC822; team@example.com
X-Actual-Recipient: rfc822; jane@elsewhere.test
Action: failed
Status: 5.1.1
Remote-MTA: DNS; mx.elsewhere.test
Diagnostic-Code: SMTP; 550 User <jane> unknown`,
  }),
  report('sendmail: a program behind an alias', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    subject: 'Returned mail: see transcript for details',
    text: `   ----- The following addresses had permanent fatal errors -----
"|/usr/bin/deliver -d box@mx.example.com"
    (reason: User unknown)
    (expanded from: <jane@example.com>)

   ----- Transcript of session follows -----
550 5.1.1 "|/usr/bin/deliver -d box@mx.example.com"... User unknown
`,
    fields: `Final-Recipient: RFC822; jane@example.com
X-Actual-Recipient: X-Unix; |/usr/bin/deliver -d box@mx.example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: X-Unix; 67`,
  }),
  report('sendmail: no such host', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    subject: 'Returned mail: Host unknown (Name server: nowhere.test: host not found)',
    text: '550 5.1.2 <jane@nowhere.test>... Host unknown (Name server: nowhere.test: host not found)\n',
    fields: `Final-Recipient: RFC822; jane@nowhere.test
Action: failed
Status: 5.1.2
Remote-MTA: DNS; nowhere.test`,
  }),
  report('sendmail: a warning', 'delay', ['jane@example.com', 'network', false], {
    subject: 'Warning: could not send message for past 4 hours',
    text: `    **********************************************
    **      THIS IS A WARNING MESSAGE ONLY      **
    **  YOU DO NOT NEED TO RESEND YOUR MESSAGE  **
    **********************************************

   ----- The following addresses had transient non-fatal errors -----
<jane@example.com>

   ----- Transcript of session follows -----
451 example.com: Name server timeout
Warning: message still undelivered after 4 hours
Will keep trying until message is 5 days old
`,
    fields: `Final-Recipient: RFC822; jane@example.com
Action: delayed
Status: 4.4.3
Last-Attempt-Date: Sat, 21 Nov 2026 13:00:00 GMT`,
  }),
  report(
    'sendmail: a program that failed, which only the text says',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    {
      subject: 'Returned mail: Service unavailable',
      text: `   ----- The following addresses had permanent fatal errors -----
"|/usr/bin/procmail"
    (reason: 67)
    (expanded from: <jane@example.com>)

   ----- Transcript of session follows -----
550 jane@example.com... User unknown
`,
      fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.0.0
Diagnostic-Code: X-Unix; 67`,
    },
  ),
  report(
    'Sympa-like gateway: fields run together and out of order',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    {
      text: 'Failed.\n',
      fields: `Status: 5.1.1
Action: failed
Diagnostic-Code: smtp;550 5.1.1 unknown
Final-Recipient: rfc822;<jane@example.com>`,
    },
  ),
  report('RFC 6533: an address that is not ASCII', 'bounce', ['jörg@example.com', 'bad_mailbox', true], {
    text: 'Unbekannt\n',
    fields: `Final-Recipient: utf-8; jörg@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 user unknown`,
  }),
  raw(
    'a report within a report: only the outer one counts',
    'bounce',
    ['jane@example.com', 'mailbox_full', true],
    `From: MAILER-DAEMON@mx.relay.test
Subject: Undelivered
Content-Type: multipart/report; report-type=delivery-status; boundary=outer

--outer
Content-Type: text/plain

failed

--outer
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.test

Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.2.2
Diagnostic-Code: smtp; 552 5.2.2 mailbox full

--outer
Content-Type: message/rfc822

From: MAILER-DAEMON@elsewhere.test
Content-Type: multipart/report; report-type=delivery-status; boundary=inner

--inner
Content-Type: message/delivery-status

Reporting-MTA: dns; elsewhere.test

Final-Recipient: rfc822; victim@example.com
Action: failed
Status: 5.1.1

--inner--

--outer--
`,
  ),
  raw(
    'the fields in base64, the text in quoted-printable',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: postmaster@example.com
Subject: =?utf-8?B?VW56dXN0ZWxsYmFy?=
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Empf=E4nger unbekannt

--b
Content-Type: message/delivery-status
Content-Transfer-Encoding: base64

${Buffer.from('Reporting-MTA: dns; x\n\nFinal-Recipient: rfc822; jane@example.com\nAction: failed\nStatus: 5.1.1\n').toString('base64')}

--b--
`,
  ),
];
