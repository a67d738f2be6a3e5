import type { Rule } from './rule.ts';

/** Replies about our sender address, not the recipient's: a server that calls back says "no such user" about ours. */
export const verification: Rule[] = [
  {
    text: /sender verif|verif(y|ication) (of |the )?sender|verification failed for|sender address verif|call-?(out|back) (failed|verif)|(verify|verification) (failed|error).{0,40}sender|sender address rejected: (undeliverable|unverified|user unknown|domain not found|unknown)/,
    is: 'sender',
    note: 'The rest of the text is about the sender address, which the server tried to verify.',
    samples: [
      'Exim: 550-Verification failed for <bounces@example.org> 550-No Such User Here 550 Sender verify failed',
      'cPanel: 550-Verification failed for <bounces@example.org> 550-The mail server could not deliver mail to bounces@example.org. The account or domain may not exist, they may be blacklisted, or missing the proper dns entries. 550 Sender verify failed',
      'Postfix: 550 5.1.1 <bounces@example.org>: Sender address rejected: User unknown in virtual alias table',
      'Postfix: 550 5.1.7 <bounces@example.org>: Sender address rejected: undeliverable address: host mx.example.org said: 550 5.1.1 user unknown',
      'Postfix: 450 4.1.7 <bounces@example.org>: Sender address rejected: unverified address: Address verification in progress',
      'Postfix: 450 4.1.8 <bounces@example.org>: Sender address rejected: Domain not found',
      'Exim: 451 Could not complete sender verify callout',
    ],
  },
];

/** Enhanced codes that are about the sender address. */
export const senderCodes: Rule[] = [
  {
    enhanced: ['1.7', '1.8', '7.27'],
    is: 'sender',
    note: 'RFC 3463, RFC 7505. Gmail uses 7.27 for SPF, which an earlier rule matches.',
    samples: [
      'Sendmail: 553 5.1.8 <bounces@example.org>... Domain of sender address bounces@example.org does not exist',
      'Exchange Online: 550 5.1.8 Access denied, bad outbound sender',
      'Postfix: 550 5.7.27 <bounces@example.org>: Sender address rejected: Domain example.org does not accept mail (nullMX)',
      'Cisco IronPort: 451 #4.1.8 Domain of sender address <bounces@example.org> does not resolve',
      'Sendmail: 553 5.1.8 Return-path domain does not resolve',
      'Cyrus: 501 5.1.7 Bad sender address syntax',
    ],
  },
];

/** Complaints about the sender address that are not a block. */
export const sender: Rule[] = [
  {
    when: ['mail'],
    codes: [417],
    is: 'sender',
    note: 'It looked up the domain of the sender address, which has no answer.',
    samples: ['Courier: 417 DNS lookup failure: example.org.  Try again later.'],
  },
  {
    text: /\bsender('s)?\b.{0,30}(address|domain|reject|denied|unknown|invalid|not exist|not found|not allowed|not valid|resolv|refused|illegal|mx)|(address|domain) (\w{1,12} ){0,2}(unknown|invalid|rejected): sender|(invalid|unknown|illegal|bad|null|empty|unresolvable|no valid) sender|domain of sender|mail ?from (address|command|domain|reject)|return-?path|envelope-?from|reverse-?path|from (address|domain)\b.{0,30}(not|invalid|reject|unknown)|expediteur|absender|remitente|remetente|mittente|отправител|发件人|发信人/,
    is: 'sender',
    samples: [
      'Exchange: 550 5.1.0 Sender denied',
      'Sendmail: 553 5.5.4 <bounces>... Domain name required for sender address bounces',
      'Exim: 501 bounces@example.org: sender address must contain a domain',
      'Cox: 550 5.1.0 bounces@example.org sender rejected : invalid sender domain',
      'qmail: 553 sorry, your envelope sender domain must exist (#5.7.1)',
      'Zoho: 553 5.7.1 <bounces@example.org>: Sender address rejected: not owned by user',
      'Orange: 550 5.1.0 Adresse expediteur invalide. Invalid sender. OFR_403',
      'Strato: 550 5.1.0 Absender unbekannt',
      '163: 553 Requested action not taken: NULL sender is not allowed',
      'Sendmail: 553 5.0.0 Return-path domain does not resolve',
    ],
  },
];
