import { aboutRecipient, type Rule } from './rule.ts';

/** Well-known replies whose code or words would mislead. */
export const known: Rule[] = [
  {
    text: /(mailbox|account|box) (size|storage|quota|space|disk)|(size|storage|quota|space) of (the |this )?(mailbox|account)|(mailbox|recipient|user)('s)? (storage|quota) (?!of)/,
    enhanced: ['2.2', '2.0', '3.1', '7.1', 'none'],
    when: aboutRecipient,
    is: 'mailbox_full',
    note: 'The size is that of the mailbox, not of the message.',
    samples: [
      'Zoho: 552 5.2.2 Mailbox size limit exceeded',
      'Proofpoint Essentials: 552 5.2.2 Mailbox quota exceeded',
      'Dovecot: 552 5.2.2 <jane@example.com> Quota exceeded (mailbox for user is full), mailbox storage limit reached',
      'MDaemon: 552 Message would exceed quota of this mailbox',
      'Kerio: 452 Requested action not taken: mailbox quota exceeded',
      'Seznam: 552 Mailbox size limit reached',
    ],
  },
  {
    when: aboutRecipient,
    enhanced: ['2.2'],
    is: 'mailbox_full',
    note: 'X.2.2 is used for nothing else, whatever the language.',
    samples: [
      'Gmail: 452 4.2.2 The recipient’s inbox is out of storage space and inactive. Please direct the recipient to https://support.google.com/mail/?p=OverQuotaTemp',
      'Gmail: 552 5.2.2 The email account that you tried to reach is over quota. Please direct the recipient to https://support.google.com/mail/?p=OverQuotaPerm',
      'Exchange Online: 554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded',
      'iCloud: 552 5.2.2 <jane@icloud.com>: user is over quota',
      'Fastmail: 452 4.2.2 <jane@fastmail.example> Over quota',
      'Cyrus: 452 4.2.2 Over quota SESSIONID=<cyrus-1234-1-5678>',
      'Yahoo: 452 4.2.2 user has too many messages on the server',
      'Orange: 552 5.2.2 Boite du destinataire pleine. Recipient overquota. OFR201_417 [417]',
    ],
  },
  {
    enhanced: ['7.28'],
    is: 'rate',
    slow: 'rate',
    note: 'IANA: mail flood detected.',
    samples: [
      'Gmail: 421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP address. To protect our users from spam, mail sent from your IP address has been temporarily rate limited.',
      'Gmail: 550 5.7.28 Our system has detected an unusual rate of mail originating from your DKIM domain',
    ],
  },
  {
    when: aboutRecipient,
    codes: ['4xx'],
    text: /unverified address|verification (in progress|is not complete)|recipient address rejected: (unverified|try again)/,
    is: 'network',
    note: 'The server does not know yet whether the mailbox exists.',
    samples: [
      'Postfix: 450 4.1.1 <jane@example.com>: Recipient address rejected: unverified address: Address verification in progress',
      'Postfix: 450 4.1.1 <jane@example.com>: Recipient address rejected: unverified address: connect to 192.0.2.9[192.0.2.9]:25: Connection refused',
    ],
  },
  {
    codes: ['4xx'],
    text: /insufficient system|system (storage|resources)|not enough system|mail system full/,
    is: 'network',
    note: 'The server’s disk is full, not the mailbox.',
    samples: [
      'Exchange: 452 4.3.1 Insufficient system resources',
      'Postfix: 452 4.3.1 Insufficient system storage',
      'RFC 5321: 452 Requested action not taken: insufficient system storage',
    ],
  },
];
