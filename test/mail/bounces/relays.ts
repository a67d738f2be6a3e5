import { type Bounce, report } from './build.ts';

/** Services and servers that relay, with the fields of RFC 3464. */
export const relays: Bounce[] = [
  report('Exim 4.9: unknown at the remote server', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    subject: 'Mail delivery failed: returning message to sender',
    header: 'Auto-Submitted: auto-replied\nX-Failed-Recipients: jane@example.com',
    text: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  jane@example.com
    host mx.example.com [192.0.2.9]
    SMTP error from remote mail server after RCPT TO:<jane@example.com>:
    550 No Such User Here
`,
    fields: `Action: failed
Final-Recipient: rfc822;jane@example.com
Status: 5.0.0
Remote-MTA: dns; mx.example.com
Diagnostic-Code: smtp; 550 No Such User Here`,
  }),
  report('Exim 4.9: refused for the sender’s reputation', 'bounce', ['jane@example.com', 'policy', true], {
    subject: 'Mail delivery failed: returning message to sender',
    text: '  jane@example.com\n    host mx.example.com [192.0.2.9]\n    SMTP error from remote mail server after MAIL FROM:\n    554 blocked by reputation\n',
    fields: `Action: failed
Final-Recipient: rfc822;jane@example.com
Status: 5.0.0
Remote-MTA: dns; mx.example.com
Diagnostic-Code: smtp; 554 5.7.1 Your IP address 192.0.2.1 has a poor reputation, see https://reputation.test/`,
  }),
  ...(
    [
      ['unrouteable', 'Unrouteable address', 'bad_mailbox'],
      ['its own mailbox is full', 'mailbox is full: retry timeout exceeded', 'mailbox_full'],
      ['a null MX', 'an MX or SRV record indicated no SMTP service', 'bad_domain'],
    ] as const
  ).map(([name, words, is]) =>
    report(`Exim 4.9: ${name}, which only the text says`, 'bounce', ['jane@example.com', is, true], {
      subject: 'Mail delivery failed: returning message to sender',
      header: 'Auto-Submitted: auto-replied\nX-Failed-Recipients: jane@example.com',
      text: `This is a permanent error. The following address(es) failed:\n\n  jane@example.com\n    ${words}\n`,
      fields: 'Action: failed\nFinal-Recipient: rfc822;jane@example.com\nStatus: 5.0.0',
    }),
  ),
  report(
    'Exim 4.9: what an alias was replaced by, which only the text names',
    'bounce',
    [
      ['jane@example.com', 'mailbox_full', true],
      ['away@example.org', 'bad_domain', true],
      ['gone@example.net', 'bad_mailbox', true],
    ],
    {
      subject: 'Mail delivery failed: returning message to sender',
      header:
        'Auto-Submitted: auto-replied\nX-Failed-Recipients: jane@example.com,\n  away@example.org,\n  gone@example.net',
      text: `This is a permanent error. The following address(es) failed:

  gone@example.net
    (generated from team@example.com)
    host mx.example.net [192.0.2.9]
    SMTP error from remote mail server after RCPT TO:<gone@example.net>:
    550 5.1.1 <gone@example.net>: Recipient address rejected: User unknown
  away@example.org
    (ultimately generated from team@example.com)
    an MX or SRV record indicated no SMTP service
  jane@example.com
    mailbox is full
`,
      // In the order that Exim 4.96 lists them.
      fields: `Action: failed
Final-Recipient: rfc822;jane@example.com
Status: 5.0.0

Action: failed
Final-Recipient: rfc822;team@example.com
Status: 5.0.0

Action: failed
Final-Recipient: rfc822;team@example.com
Status: 5.0.0
Remote-MTA: dns; mx.example.net
Diagnostic-Code: smtp; 550 5.1.1 <gone@example.net>: Recipient address rejected: User unknown`,
    },
  ),
  report('Exim 4.9: not known yet, for too long', 'bounce', ['jane@example.com', 'bad_mailbox', false], {
    subject: 'Mail delivery failed: returning message to sender',
    text: '  jane@example.com\n    host mx.example.com [192.0.2.9]\n    450 4.1.1 User unknown: retry timeout exceeded\n',
    fields: `Action: failed
Final-Recipient: rfc822;jane@example.com
Status: 5.0.0
Remote-MTA: dns; mx.example.com
Diagnostic-Code: smtp; 450 4.1.1 <jane@example.com>: Recipient address rejected: User unknown in local recipient table: retry timeout exceeded`,
  }),
  report('Amazon SES', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@eu-west-1.amazonses.com',
    subject: 'Delivery Status Notification (Failure)',
    text: 'An error occurred while trying to deliver the mail to the following recipients:\njane@example.com\n',
    fields: `Action: failed
Final-Recipient: rfc822; jane@example.com
Diagnostic-Code: smtp; 550 5.1.1 user unknown
Status: 5.1.1`,
  }),
  report('Amazon WorkMail: expired', 'bounce', ['jane@example.com', 'network', false], {
    subject: 'Delivery Status Notification (Failure)',
    text: 'Message expired\n',
    fields: `Action: failed
Final-Recipient: rfc822; jane@example.com
Diagnostic-Code: smtp; 550 4.4.7 Message expired: unable to deliver in 840 minutes.<421 4.4.0 Unable to lookup DNS for example.com>
Status: 4.4.7`,
  }),
  report('PowerMTA: a full mailbox, permanently', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    from: 'mailer-daemon@pmta.relay.test',
    subject: 'Delivery report',
    text: 'Hello, this is the mail server on pmta.relay.test.\n\nThe following address(es) failed:\n\njane@example.com\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.2.2 (mailbox full)
Remote-MTA: dns;mx.example.com (192.0.2.9)
Diagnostic-Code: smtp;552 5.2.2 This message is larger than the current system limit or the recipient's mailbox is full.
X-PowerMTA-BounceCategory: quota-issues`,
  }),
];
