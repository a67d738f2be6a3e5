import { type Bounce, plain, raw, report } from './build.ts';

/** Google, Yahoo, AOL, large national providers, and gateways. */
export const providers: Bounce[] = [
  report('Gmail: no such user', 'bounce', ['jane@gmail.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: `** Address not found **

Your message wasn't delivered to jane@gmail.com because the address couldn't be found, or is unable to receive mail.

The response was:

550 5.1.1 The email account that you tried to reach does not exist.
`,
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does not exist. Please try
 550-5.1.1 double-checking the recipient's email address for typos or
 550-5.1.1 unnecessary spaces. Learn more at
 550 5.1.1  https://support.google.com/mail/?p=NoSuchUser d2e1a72fcca58-1234 - gsmtp`,
  }),
  report('Gmail: no such domain', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: "** Address not found **\n\nYour message wasn't delivered to jane@nowhere.test because the domain nowhere.test couldn't be found.\n",
    fields: `Final-Recipient: rfc822; jane@nowhere.test
Action: failed
Status: 4.0.0
Diagnostic-Code: smtp; DNS Error: DNS type 'mx' lookup of nowhere.test responded with code NXDOMAIN
 Domain name not found: nowhere.test`,
  }),
  report('Gmail: delayed', 'delay', ['jane@example.com', 'network', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Delay)',
    text: '** Delivery incomplete **\n\nThere was a temporary problem delivering your message to jane@example.com. Gmail will retry for 45 more hours.\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: delayed
Status: 4.4.1
Diagnostic-Code: smtp; The recipient server did not accept our requests to connect.`,
  }),
  report('Gmail: inbox full', 'bounce', ['jane@gmail.com', 'mailbox_full', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: "** Recipient inbox full **\n\nYour message couldn't be delivered to jane@gmail.com. Their inbox is full, or it's getting too much mail right now.\n",
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 4.2.2
Diagnostic-Code: smtp; 452-4.2.2 The recipient's inbox is out of storage space. Please direct the
 452-4.2.2 recipient to https://support.google.com/mail/?p=OverQuotaTemp - gsmtp`,
  }),
  plain('Google, older: text and a field', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    header: 'X-Failed-Recipients: jane@example.com',
    text: `
Delivery to the following recipient failed permanently:

     jane@example.com

Technical details of permanent failure:
Google tried to deliver your message, but it was rejected by the server for the recipient domain example.com by mx.example.com. [192.0.2.9].

The error that the other server returned was:
550 5.1.1 <jane@example.com>: Recipient address rejected: User unknown

----- Original message -----

From: hello@sender.test
`,
  }),
  plain('Google, older: delayed', 'delay', ['jane@example.com', 'network', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Delay)',
    text: `
This is an automatically generated Delivery Status Notification

THIS IS A WARNING MESSAGE ONLY.

YOU DO NOT NEED TO RESEND YOUR MESSAGE.

Delivery to the following recipient has been delayed:

     jane@example.com

Message will be retried for 2 more day(s)

Technical details of temporary failure:
The recipient server did not accept our requests to connect. [mx.example.com 192.0.2.9: timed out]
`,
  }),
  plain('Yahoo, older', 'bounce', ['jane@yahoo.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@yahoo.com',
    subject: 'Failure Notice',
    text: `
Sorry, we were unable to deliver your message to the following address.

<jane@yahoo.com>:
Remote host said: 554 delivery error: dd This user doesn't have a yahoo.com account (jane@yahoo.com) [0] - mta1234.mail.gq1.yahoo.com [BODY]

--- Below this line is a copy of the message.

Received: from 192.0.2.1
`,
  }),
  report('Yahoo', 'bounce', ['jane@yahoo.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@atlas-production.v2-mail-prod1-gq1.omega.yahoo.com',
    subject: 'Failure Notice',
    text: 'Sorry, we were unable to deliver your message to the following address.\n',
    fields: `Final-Recipient: rfc822; jane@yahoo.com
Action: failed
Status: 5.0.0
Diagnostic-Code: smtp; 554 30 Sorry, your message to jane@yahoo.com cannot be delivered. This mailbox is disabled (554.30).`,
  }),
  report('AOL', 'bounce', ['jane@aol.com', 'mailbox_full', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.com>',
    subject: 'Mail Delivery Problem',
    text: 'Your mail to the following recipients could not be delivered because they are not accepting mail from you:\n  jane\n',
    fields: `Final-Recipient: RFC822; jane@aol.com
Action: failed
Status: 5.2.2
Diagnostic-Code: SMTP; 552 jane MAILBOX FULL`,
  }),
  plain('AOL, older: a transcript', 'bounce', ['jane@aol.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.com>',
    subject: 'Returned mail: User unknown',
    text: `
The original message was received at Sat, 21 Nov 2026 04:00:00 -0500 (EST)

*** ATTENTION ***

Your e-mail is being returned to you because there was a problem with its delivery.

   ----- The following addresses had permanent fatal errors -----
<jane@aol.com>

   ----- Transcript of session follows -----
... while talking to air-xd03.mail.aol.com.:
>>> RCPT To:<jane@aol.com>
<<< 550 MAILBOX NOT FOUND
550 <jane@aol.com>... User unknown
`,
  }),
  plain('GMX and WEB.DE', 'bounce', ['jane@gmx.de', 'bad_mailbox', true], {
    from: 'GMX Mailer Daemon <mailer-daemon@gmx.de>',
    subject: 'Mail delivery failed: returning message to sender',
    text: `
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its recipients. This is a permanent error.

The following address failed:

jane@gmx.de:
Requested action not taken: mailbox unavailable
For explanation visit http://postmaster.gmx.com/en/error-messages?ip=192.0.2.1&c=em

--- The header of the original message is following. ---

Received: from out.sender.test
`,
  }),
  raw(
    'Barracuda: HTML only',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: Mail Delivery <postmaster@barracuda.example.com>
Subject: **Message you sent blocked by our bulk email filter**: Undeliverable
Content-Type: text/html; charset=utf-8

<html><head><style>td { color: red }</style><title>Undeliverable</title></head><body>
<p>Your message could not be delivered to:</p><p>&lt;jane@example.com&gt;</p>
<p>550 5.1.1 No such user (jane@example.com)</p></body></html>
`,
  ),
  report('Mimecast: policy', 'bounce', ['jane@example.com', 'policy', true], {
    from: 'Postmaster <postmaster@example.com>',
    subject: '[Postmaster] Email Delivery Failure',
    text: 'This is a delivery failure notification message.\n',
    fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.0.0
Diagnostic-Code: SMTP; 550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550`,
  }),
  report('iCloud: a full mailbox', 'bounce', ['jane@icloud.com', 'mailbox_full', true], {
    subject: 'Undelivered Mail Returned to Sender',
    text: '<jane@icloud.com>: host mx01.mail.icloud.com said: 552 5.2.2 user is over quota\n',
    fields: `Final-Recipient: rfc822; jane@icloud.com
Action: failed
Status: 5.2.2
Diagnostic-Code: smtp; 552 5.2.2 <jane@icloud.com>: user is over quota`,
  }),
  report('a DMARC refusal', 'bounce', ['jane@gmail.com', 'authentication', true], {
    text: 'failed\n',
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 5.7.26
Diagnostic-Code: smtp; 550-5.7.26 Unauthenticated email from sender.test is not accepted due to
    550-5.7.26 domain's DMARC policy. Please contact the administrator of
    550 5.7.26 sender.test domain`,
  }),
];
