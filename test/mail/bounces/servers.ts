import { type Bounce, plain, raw } from './build.ts';

const exim = {
  from: 'Mail Delivery System <Mailer-Daemon@mx.relay.test>',
  subject: 'Mail delivery failed: returning message to sender',
};
const eximBegin = `
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:
`;
const eximCopy = `
------ This is a copy of the message, including all the headers. ------

Return-path: <bounces+x@mail.sender.test>
To: other@elsewhere.test
`;
const qmail = { from: 'MAILER-DAEMON@mx.relay.test', subject: 'failure notice' };
const qmailBegin = `
Hi. This is the qmail-send program at mx.relay.test.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.
`;
const qmailCopy = `
--- Below this line is a copy of the message.

Return-Path: <bounces+x@mail.sender.test>
To: other@elsewhere.test
`;

/** Servers that write only for people. */
export const servers: Bounce[] = [
  plain('qmail: unknown user', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...qmail,
    text: `${qmailBegin}
<jane@example.com>:
192.0.2.9 does not like recipient.
Remote host said: 550 5.1.1 <jane@example.com>: User unknown
Giving up on 192.0.2.9.
${qmailCopy}`,
  }),
  plain('qmail: one of its own users', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...qmail,
    text: `${qmailBegin}
<jane@example.com>:
Sorry, no mailbox here by that name. (#5.1.1)
${qmailCopy}`,
  }),
  plain('qmail: no such host', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    ...qmail,
    text: `${qmailBegin}
<jane@nowhere.test>:
Sorry, I couldn't find any host named nowhere.test. (#5.1.2)
${qmailCopy}`,
  }),
  plain('qmail: given up', 'bounce', ['jane@example.com', 'network', false], {
    ...qmail,
    text: `${qmailBegin}
<jane@example.com>:
Sorry, I wasn't able to establish an SMTP connection. (#4.4.1)
I'm not going to try again; this message has been in the queue too long.
${qmailCopy}`,
  }),
  plain('qmail: given up on a full mailbox', 'bounce', ['jane@example.com', 'mailbox_full', false], {
    ...qmail,
    text: `${qmailBegin}
<jane@example.com>:
User is over the quota. You can try again later. (#4.2.2)
I'm not going to try again; this message has been in the queue too long.
${qmailCopy}`,
  }),
  plain(
    'qmail: two recipients',
    'bounce',
    [
      ['ann@example.com', 'mailbox_full', true],
      ['bob@example.org', 'policy', true],
    ],
    {
      ...qmail,
      text: `${qmailBegin}
<ann@example.com>:
The users mailfolder is over the allowed quota (size). (#5.2.2)

<bob@example.org>:
192.0.2.9 failed after I sent the message.
Remote host said: 554 5.7.1 Message rejected: your IP address is on a blacklist
${qmailCopy}`,
    },
  ),
  plain('Exim: unknown at the remote server', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...exim,
    header: 'X-Failed-Recipients: jane@example.com',
    text: `${eximBegin}
  jane@example.com
    SMTP error from remote mail server after RCPT TO:<jane@example.com>:
    host mx.example.com [192.0.2.9]: 550 5.1.1 <jane@example.com>:
    Recipient address rejected: User unknown in local recipient table
${eximCopy}`,
  }),
  plain('Exim: retry time exceeded', 'bounce', ['jane@example.com', 'network', true], {
    ...exim,
    text: `${eximBegin}
  jane@example.com
    retry timeout exceeded
${eximCopy}`,
  }),
  plain('Exim: unrouteable', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    ...exim,
    text: `${eximBegin}
  jane@example.com
    Unrouteable address
${eximCopy}`,
  }),
  plain('Exim: a domain that does not exist', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    ...exim,
    text: `${eximBegin}
  jane@nowhere.test
    Unrouteable mail domain "nowhere.test"
${eximCopy}`,
  }),
  plain('Exim: spam, after the message', 'bounce', ['jane@example.com', 'content', true], {
    ...exim,
    text: `${eximBegin}
  jane@example.com
    host mx.example.com [192.0.2.9]
    SMTP error from remote mail server after end of data:
    550 This message was classified as SPAM and may not be delivered
${eximCopy}`,
  }),
  plain('Exim: a warning', 'delay', ['jane@example.com', 'network', false], {
    from: exim.from,
    subject: 'Warning: message 1abcDE-000123-4F delayed 24 hours',
    header: 'Auto-Submitted: auto-replied',
    text: `
This message was created automatically by mail delivery software.
A message that you sent has not yet been delivered to one or more of its
recipients after more than 24 hours on the queue on mx.relay.test.

The message identifier is:     1abcDE-000123-4F
The subject of the message is: Your order

The address to which the message has not yet been delivered is:

  jane@example.com
    host mx.example.com [192.0.2.9]: Connection timed out

No action is required on your part. Delivery attempts will continue for
some time, and this warning may be repeated at intervals if the message
remains undelivered.
`,
  }),
  plain('sendmail 8.8: a transcript', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@mx.relay.test>',
    subject: 'Returned mail: User unknown',
    text: `
The original message was received at Sat, 21 Nov 2026 09:00:00 GMT

   ----- The following addresses have delivery notifications -----
<jane@example.com>  (unrecoverable error)

   ----- Transcript of session follows -----
... while talking to mx.example.com.:
>>> RCPT To:<jane@example.com>
<<< 550 <jane@example.com>... User unknown
550 <jane@example.com>... User unknown

   ----- Original message follows -----
To: other@elsewhere.test
`,
  }),
  plain('Lotus Domino: text only', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Postmaster@example.com',
    subject: 'DELIVERY FAILURE: User jane (jane@example.com) not listed in Domino Directory',
    text: `
Your message

  Subject: Your order

was not delivered to:

  jane@example.com

because:

  User jane (jane@example.com) not listed in Domino Directory
`,
  }),
  plain('MailEnable', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Postmaster <postmaster@mailenable.example.com>',
    subject: 'Message Delivery Failure',
    text: `
MailEnable: Message delivery has failed.

Message ID: 1A2B3C.MAI

Recipient: [SMTP:jane@example.com]
Reason: Remote SMTP Server Returned: 550 5.1.1 unknown recipient

Message contents follow:

Received: from out.sender.test
`,
  }),
  plain('MDaemon', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'MDaemon <MDaemon@example.com>',
    subject: 'Permanent Delivery Failure',
    text: `
The attached message had PERMANENT fatal delivery errors!

--> Error description: RCPT error
The following recipient(s) failed:

    jane@example.com

--- Session Transcript ---
 Sat 2026-11-21 09:00:00: --> RCPT To:<jane@example.com>
 Sat 2026-11-21 09:00:00: <-- 550 5.1.1 Recipient unknown <jane@example.com>
--- End Transcript ---
`,
  }),
  plain('hMailServer', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'mailer-daemon@example.com',
    subject: 'Message undeliverable: Your order',
    text: `
Your message did not reach some or all of the intended recipients.

   Sent: Sat, 21 Nov 2026 09:00:00 +0000
   Subject: Your order

The following recipient(s) could not be reached:

jane@example.com
   Error Type: SMTP
   Remote server (192.0.2.9) issued an error.
   hMailServer sent: RCPT TO:<jane@example.com>
   Remote server replied: 550 Unknown user

hMailServer
`,
  }),
  plain('Kerio, Courier and others: one sentence', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    from: 'postmaster@example.com',
    subject: 'Delivery failure',
    text: 'Your message to <jane@example.com> could not be delivered: the mailbox is over quota.\n',
  }),
  plain('GroupWise', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mailer-Daemon@gw.example.com',
    subject: 'Message status - undeliverable',
    text: `
The message that you sent was undeliverable to the following:
	jane@example.com (550 No such recipient)
`,
  }),
  raw(
    'X.400: a report without machine-readable fields',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: postmaster@gateway.example.com
Subject: Non-delivery report
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

Recipient address: jane@example.com
Reason: unknown user (#5.1.1)

--b
Content-Type: message/rfc822

Subject: Your order

--b--
`,
  ),
  raw(
    'machine-readable fields in a text part',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: MAILER-DAEMON@old.example.com
Subject: Mail failure
Content-Type: text/plain

Delivery failed.

Final-Recipient: rfc822; jane@example.com
Action: failed
Status: 5.1.1

Original message:
Final-Recipient: rfc822; victim@elsewhere.test
`,
  ),
];
