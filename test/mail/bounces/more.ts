import { type Bounce, plain, raw, report } from './build.ts';

const communigate = { from: '<MAILER-DAEMON@mx.relay.test>', subject: 'Undeliverable mail: Your order' };

/** Written after the reader was finished, to see how well it handles what it was not made for. */
export const more: Bounce[] = [
  plain('Sun Messaging Server', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Internet Mail Delivery <postmaster@ims.example.com>',
    subject: 'Delivery Notification: Delivery has failed',
    text: `
This report relates to a message you sent with the following header fields:

  Message-id: <0190aaaa@sender.test>
  Date: Sat, 21 Nov 2026 09:00:00 +0000
  From: Shop <hello@sender.test>
  To: jane@example.com
  Subject: Your order

Your message cannot be delivered to the following recipients:

  Recipient address: jane@example.com
  Reason: Remote SMTP server has rejected address
  Diagnostic code: smtp;550 5.1.1 unknown or illegal alias: jane@example.com
  Remote system: dns;mx.example.com (TCP|192.0.2.1|1234|192.0.2.9|25)
`,
  }),
  plain('OpenSMTPD', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.relay.test>',
    subject: 'Delivery status notification: error',
    text: `
    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

jane@example.com: 550 5.1.1 <jane@example.com>: Recipient address rejected: User unknown

    Below is a copy of the original message:

From: Shop <hello@sender.test>
`,
  }),
  plain('OpenSMTPD: a warning', 'delay', ['jane@example.com', 'network', false], {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.relay.test>',
    subject: 'Delivery status notification: warning',
    text: `
    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    A message is delayed for more than 4 hours for the following
    list of recipients:

jane@example.com: Network error on destination MXs

    Please note that this is only a temporary failure report.
    The message is kept in the queue for up to 4 days.
    You DO NOT NEED to re-send the message to these recipients.

    Below is a copy of the original message:
`,
  }),
  plain('Courier', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: '"Courier mail server at mx.relay.test" <@>',
    subject: 'NOTICE: mail delivery status.',
    text: `
This is a delivery status notification from mx.relay.test,
running the Courier mail server, version 0.65.2.

The original message was received on Sat, 21 Nov 2026 09:00:00 +0000
from out.sender.test (out.sender.test [192.0.2.1])

---------------------------------------------------------------------------

                           UNDELIVERABLE MAIL

Your message to the following recipients cannot be delivered:

<jane@example.com>:
    mx.example.com [192.0.2.9]:
>>> RCPT TO:<jane@example.com>
<<< 550 5.1.1 <jane@example.com>... User Unknown

---------------------------------------------------------------------------

If your message was also sent to additional recipients, their delivery
status is not included in this report.
`,
  }),
  plain('EZweb of KDDI', 'bounce', ['jane@ezweb.ne.jp', 'mailbox_full', true], {
    from: 'Postmaster@ezweb.ne.jp',
    subject: 'Mail System Error - Returned Mail',
    text: `
The user(s) account is temporarily over quota.

<jane@ezweb.ne.jp>
`,
  }),
  plain('SoftBank, older', 'bounce', ['jane@softbank.ne.jp', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@softbank.ne.jp',
    subject: 'Returned mail: User unknown',
    text: `
あて先不明のためメールを配信できませんでした。

<jane@softbank.ne.jp>
550 Invalid recipient: <jane@softbank.ne.jp>
`,
  }),
  plain('IMail', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Postmaster <root@imail.example.com>',
    subject: 'Undeliverable Mail',
    text: `
Unknown user: jane@example.com

Original message follows.

To: other@elsewhere.test
`,
  }),
  plain('IMail: full', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    from: 'Postmaster <root@imail.example.com>',
    subject: 'Undeliverable Mail',
    text: `
User mailbox exceeds allowed size: jane@example.com

Original message follows.
`,
  }),
  plain('1&1', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    from: 'Mail Delivery System <mailer-daemon@kundenserver.de>',
    subject: 'Mail delivery failed: returning message to sender',
    text: `
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of
its recipients. The following addresses failed:

<jane@example.com>

SMTP error from remote server for RCPT TO command, host: mx.example.com (192.0.2.9) reason: 552 5.2.2 mailbox quota exceeded

--- The header of the original message is following. ---

Received: from out.sender.test
`,
  }),
  plain('Apache James', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'postmaster@james.example.com',
    subject: '[BOUNCE]',
    text: `
Hi. This is the James mail server at james.example.com.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.  Below
I include the list of recipients and the reason why I was unable to deliver
your message.

Failed recipient(s):
jane@example.com

Error message:
550 5.1.1 <jane@example.com>: no such user
`,
  }),
  plain('InterScan', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'InterScan MSS <postmaster@scan.example.com>',
    subject: 'Mail could not be delivered',
    text: `
Sent >>> RCPT TO:<jane@example.com>
Received <<< 550 5.1.1 unknown user

Unable to deliver message to <jane@example.com>
`,
  }),
  report('Domino with fields', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Postmaster@domino.example.com',
    subject: 'DELIVERY FAILURE: User jane (jane@example.com) not listed in Domino Directory',
    text: 'Your message\n\n  Subject: Your order\n\nwas not delivered to:\n\n  jane@example.com\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: X-Notes; User jane (jane@example.com) not listed in Domino D
 irectory`,
  }),
  report('Facebook', 'bounce', ['jane@facebook.com', 'bad_mailbox', true], {
    from: 'Facebook <mailer-daemon@mx.facebook.com>',
    subject: 'Sorry, your message could not be delivered',
    text: 'This message was created automatically by Facebook.\n\nSorry, your message could not be delivered to: jane@facebook.com\n',
    fields: `Final-Recipient: RFC822; jane@facebook.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 RCP-P1 https://www.facebook.com/postmaster/response_codes`,
  }),
  report('Sendmail: a relay that was not let in', 'bounce', ['jane@example.com', 'policy', true], {
    subject: 'Returned mail: see transcript for details',
    text: '550 5.7.1 <jane@example.com>... Relaying denied\n',
    fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.7.1
Remote-MTA: DNS; mx.example.com
Diagnostic-Code: SMTP; 550 5.7.1 <jane@example.com>... Relaying denied. IP name lookup failed [192.0.2.1]`,
  }),
  report('Haraka or ZoneMTA: a message that is too large', 'bounce', ['jane@example.com', 'content', true], {
    text: 'Delivery to the following recipient failed permanently:\n    jane@example.com\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.3.4
Diagnostic-Code: smtp; 552 5.3.4 Message size exceeds fixed limit`,
  }),
  report('a refusal by SPF', 'bounce', ['jane@example.com', 'authentication', true], {
    text: 'failed\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.7.23
Diagnostic-Code: smtp; 550 5.7.23 <jane@example.com>: Recipient address rejected: Message rejected due to: SPF fail - not authorized`,
  }),
  report('too many at once', 'bounce', ['jane@example.com', 'rate', false], {
    text: 'failed\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 4.7.0
Diagnostic-Code: smtp; 421 4.7.0 Too many messages from your address, slow down`,
  }),
  raw(
    'a bounce in three alternatives, the report last and without a name',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: "Mail Delivery Subsystem" <postmaster@mx.example.com>
Subject: Undeliverable mail
Content-Type: multipart/mixed; boundary="x"

--x
Content-Type: multipart/alternative; boundary="y"

--y
Content-Type: text/html

<p>Delivery to <a href="mailto:jane@example.com">jane@example.com</a> failed.</p>
--y--

--x
Content-Type: message/delivery-status; name="report.txt"
Content-Disposition: attachment

Reporting-MTA: dns;mx.example.com
Final-Recipient: RFC822;jane@example.com
Action: failed
Status: 5.1.1 (bad destination mailbox address)

--x--
`,
  ),
  plain('out of office, Spanish', 'auto_reply', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Respuesta automática: Su pedido',
    text: 'Estoy fuera de la oficina.\n',
  }),
  plain('a ticket system', 'auto_reply', null, {
    from: 'Support <support@example.com>',
    subject: '[Ticket #4711] Your order',
    header: 'Auto-Submitted: auto-generated',
    text: 'Your request was received.\n',
  }),
  plain('a mailing list that wants a subscription', 'unknown', null, {
    from: 'list-owner@example.com',
    subject: 'Your message to list awaits moderator approval',
    text: 'Your mail to list is being held until the moderator can review it.\n',
  }),
  report('CommuniGate: one of its own accounts', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...communigate,
    text: `
Failed to deliver to '<jane@example.com>'
LOCAL module(account jane) reports:
 unknown user account
`,
    fields: `
Original-Recipient: rfc822;<jane@example.com>
Final-Recipient: LOCAL;<>
Action: failed
Status: 5.0.0
`,
  }),
  report(
    'CommuniGate: the name of an account is no reason',
    'bounce',
    [
      ['disabled@example.com', 'other', true],
      ['bob@example.com', 'mailbox_full', true],
      ['jane@example.org', 'bad_mailbox', true],
      ['ann@example.net', 'network', true],
    ],
    {
      ...communigate,
      text: `
Failed to deliver to '<disabled@example.com>'
LOCAL module(account disabled) reports:
 no route to this place

Failed to deliver to '<bob@example.com>'
LOCAL module(account bob) reports:
 account is full (quota exceeded)

Failed to deliver to 'jane@example.org'
SMTP module(domain example.org) reports:
 host mx.example.org says:
 550 5.1.1 User unknown

Failed to deliver to 'ann@example.net'
SMTP module(domain example.net) reports:
 connection with mx.example.net is broken
`,
      fields: ['disabled@example.com', 'bob@example.com', 'jane@example.org', 'ann@example.net']
        .map((address) => `Original-Recipient: rfc822;<${address}>\nAction: failed\nStatus: 5.0.0\n`)
        .join('\n'),
    },
  ),
];
