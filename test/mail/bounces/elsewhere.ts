import { type Bounce, plain, raw, report } from './build.ts';

const exim = {
  from: 'Mail Delivery System <Mailer-Daemon@relay.test>',
  subject: 'Mail delivery failed: returning message to sender',
};
const eximOf = (lines: string) => `
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  jane@example.com
    host mx.example.com [192.0.2.1]
${lines}

------ This is a copy of the message, including all the headers. ------
`;

/** Bounces whose text about somebody or something else stands next to the text about the recipient. */
export const elsewhere: Bounce[] = [
  plain(
    'Exim: the sender was refused, because the relay had rewritten it (SRS)',
    'bounce',
    ['jane@example.com', 'sender', true],
    {
      ...exim,
      header: 'X-Failed-Recipients: jane@example.com',
      text: eximOf(`    SMTP error from remote mail server after MAIL FROM:<SRS0=aaaa=BB=sender.test=bounces@relay.test>:
    550 User unknown`),
    },
  ),
  plain('the same without the field', 'bounce', ['jane@example.com', 'sender', true], {
    ...exim,
    text: eximOf(`    SMTP error from remote mail server after pipelined MAIL FROM:<prvs=1234=shop@relay.test> SIZE=1200:
    550 5.1.7 Mailbox not found.`),
  }),
  plain(
    'Exchange 5.5: one of two recipients, both named in the copied header',
    'bounce',
    ['bob@example.com', 'bad_mailbox', true],
    {
      from: 'System Administrator <postmaster@example.com>',
      subject: 'Undeliverable: Your order',
      text: `
Your message

  To:      ann@example.com; bob@example.com
  Subject: Your order
  Sent:    Sat, 21 Nov 2026 09:00:00 +0000

did not reach the following recipient(s):

bob@example.com on Sat, 21 Nov 2026 09:00:01 +0000
    The recipient name is not recognized
    MSEXCH:IMS:Example:Site:MX 0 (000C05A6) Unknown Recipient
`,
    },
  ),
  plain('the same, with nobody else named', 'bounce', ['bob@example.com', 'mailbox_full', true], {
    from: 'System Administrator <postmaster@example.com>',
    subject: 'Undeliverable: Your order',
    text: `
Your message

  To: bob@example.com
  Subject: Your order

was not delivered: 552 5.2.2 the mailbox is full.
`,
  }),
  plain('Exim 3: the refused sender on the line of the recipient', 'bounce', ['jane@example.com', 'sender', true], {
    ...exim,
    text: `
A message that you sent could not be delivered to all of its recipients.
The following address(es) failed:

  jane@example.com: SMTP error from remote mailer after MAIL FROM:<SRS0=aaaa=BB=sender.test=bounces@relay.test> SIZE=1200: host mx.example.com [192.0.2.1]: 550 5.1.7 sender rejected
`,
  }),
  plain('the sender after the text about the recipient', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    subject: 'failure notice',
    text: `
Hi. This is the mail server at mx.relay.test.

We could not deliver to jane@example.com (mail from: <shop@relay.test>):
550 5.1.1 no such user
`,
  }),
  plain(
    'two recipients in the copied header, and nothing says which one it was',
    'bounce',
    [null, 'bad_mailbox', true],
    {
      subject: 'failure notice',
      text: `
Your message could not be delivered: 550 5.1.1 user unknown

From: Shop <hello@sender.test>
To: ann@example.com, bob@example.com
Subject: Your order
`,
    },
  ),
  plain('the same over two lines', 'bounce', [null, 'bad_mailbox', true], {
    subject: 'failure notice',
    text: `
Your message could not be delivered: 550 5.1.1 user unknown

From: Shop <hello@sender.test>
To: Ann <ann@example.com>,
  bob@example.com
Subject: Your order
`,
  }),
  plain('the same with one in Cc', 'bounce', [null, 'bad_mailbox', true], {
    subject: 'failure notice',
    text: `
Your message could not be delivered: 550 5.1.1 user unknown

From: Shop <hello@sender.test>
To: ann@example.com
Cc: bob@example.com
Subject: Your order
`,
  }),
  plain(
    'two recipients, each introduced by To',
    'bounce',
    [
      ['ann@example.com', 'bad_mailbox', true],
      ['bob@example.com', 'mailbox_full', true],
    ],
    {
      subject: 'failure notice',
      text: `
To: ann@example.com
550 5.1.1 user unknown
To: bob@example.com
552 5.2.2 mailbox full
`,
    },
  ),
  raw(
    'a report about failed authentication, which is no bounce',
    'unknown',
    null,
    `
From: Postmaster <postmaster@provider.test>
Subject: DMARC failure report
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: text/plain

This message failed DMARC and was rejected: user unknown to the policy.

--b
Content-Type: message/feedback-report

Feedback-Type: auth-failure
Version: 1
Original-Mail-From: <bounces+x@mail.sender.test>
Original-Rcpt-To: <jane@example.com>
Delivery-Result: reject

--b--
`,
  ),
  raw(
    'a report whose boundary is not the declared one',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `
From: MAILER-DAEMON@mx.relay.test (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary="one/mx.relay.test"

--two/mx.relay.test
Content-Type: text/plain

<jane@example.com>: host mx.example.com[192.0.2.1] said: 550 5.1.1 no such user

--two/mx.relay.test
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.test

Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user

--two/mx.relay.test
Content-Type: message/rfc822

From: Shop <hello@sender.test>
To: other@elsewhere.test
`,
  ),
  report('Domino, in Japanese, in fields without a charset', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Postmaster@example.com',
    subject: 'DELIVERY FAILURE',
    text: 'Your message was not delivered to: jane@example.com\n',
    // 宛先のユーザーが見つかりません
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.0.0
Diagnostic-Code: X-Notes; \x1b$B08@h$N%f!<%6!<$,8+$D$+$j$^$;$s\x1b(B (jane@example.com)`,
  }),
  raw(
    'a telephone gateway whose folded header is not indented',
    'bounce',
    ['5551234@sms.example.com', 'bad_mailbox', true],
    `
From: post_master@sms.example.com
Subject: Re:Your order
Content-Type: multipart/mixed; boundary="one"

--one
Content-Type: multipart/alternative;
boundary="two"

--two
Content-Type: text/plain; charset=us-ascii

Error: Invalid user address

Error message below:
550 - Requested action not taken: no such user here

Message details:
  Subject: Your order
  MAIL FROM: bounces+x@mail.sender.test
  RCPT TO: 5551234@sms.example.com
  From: hello@sender.test

--two--
--one--
`,
  ),
  plain('KDDI, from an address that tells nothing', 'bounce', ['jane@dion.example.jp', 'mailbox_full', true], {
    from: 'no-reply@x1.dion.example.jp',
    subject: 'メールエラー通知',
    text: `
送信先のメールボックスが一杯のため、送信できませんでした。

Your mail sent on: Sat, 21 Nov 2026 09:00:00 +0900
     Could not be delivered to: <jane@dion.example.jp>
     As their mailbox is full.
`,
  }),
];
