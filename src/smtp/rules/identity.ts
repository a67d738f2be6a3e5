import type { Rule } from './rule.ts';

/** Failed checks of who we are: SPF, DKIM, DMARC, reverse DNS, EHLO name. */
export const identity: Rule[] = [
  {
    enhanced: ['7.20', '7.21', '7.22', '7.23', '7.24', '7.25', '7.26', '7.509', '7.515'],
    is: 'authentication',
    note: 'RFC 7372, and two codes of Microsoft’s own.',
    samples: [
      'Gmail: 550 5.7.26 This mail has been blocked because the sender is unauthenticated. Gmail requires all senders to authenticate with either SPF or DKIM.',
      'Gmail: 421 4.7.26 Your email has been rate limited because it is unauthenticated. Gmail requires all senders to authenticate with either SPF or DKIM.',
      'Gmail: 550 5.7.25 [192.0.2.1] The IP address sending this message does not have a PTR record setup, or the corresponding forward DNS entry does not point to the sending IP.',
      'Exchange Online: 550 5.7.23 The message was rejected because of Sender Policy Framework violation -> 550 5.7.23',
      'Exchange Online: 550 5.7.509 Access denied, sending domain example.com does not pass DMARC verification and has a DMARC policy of reject.',
      'Outlook.com: 550 5.7.515 Access denied, sending domain EXAMPLE.COM does not meet the required authentication level.',
      'Postfix: 450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.1]',
      'Fastmail: 550 5.7.20 No valid signature was found, and the domain asks for one',
    ],
  },
  {
    text: /\b(spf|dkim|dmarc|domainkeys?|fcrdns)\b|sender policy framework|sender-?id (fail|check)|arc (seal|validation|chain)/,
    is: 'authentication',
    samples: [
      'Gmail: 550 5.7.1 Unauthenticated email from example.com is not accepted due to domain’s DMARC policy. Please contact the administrator of example.com domain.',
      'Gmail: 550 5.7.27 Your email has been blocked because the sender is not SPF authenticated',
      'Gmail: 421 4.7.32 Your email has been rate limited because the From: header (RFC5322) in this message isn’t aligned with either the authenticated SPF or DKIM organizational domain.',
      'Yahoo: 554 5.7.9 Message not accepted for policy reasons (DMARC). See https://senders.yahooinc.com/error-codes#554',
      'Yandex: 550 5.7.1 Email rejected per DMARC policy for example.com',
      'GMX: 550 Requested action not taken: mailbox unavailable. Reject due to SPF policy. For explanation visit https://postmaster.gmx.net/en/error-messages',
      'web.de: 554 Transaction failed. Reject due to domain’s DMARC policy',
      'iCloud: 554 5.7.1 Your message was rejected due to example.com’s DMARC policy. See https://support.apple.com/en-us/HT204137',
      'QQ: 550 SPF check failed. http://service.mail.qq.com/cgi-bin/help?subtype=1&id=20022&no=1000725',
      '163: 550 MI:SPF mx18,example. please see http://mail.163.com/help/help_spam_16.htm',
      'Exim: 550 SPF: 192.0.2.1 is not allowed to send mail from example.com',
      'policyd-spf: 550 5.7.1 <jane@example.com>: Recipient address rejected: Message rejected due to: SPF fail - not authorized. Please see http://www.open-spf.org/Why',
      'Mimecast: 550 SPF Sender Invalid - envelope rejected',
      'Mimecast: 550 DKIM Sender Invalid',
      'Cisco IronPort: 550 #5.7.1 SPF unauthorized mail is prohibited.',
      'opendmarc: 550 5.7.1 rejected by DMARC policy for example.com',
      'Comcast: 550 5.2.0 Message rejected due to DMARC. Please see http://postmaster.comcast.net/smtp-error-codes.php#DM000001',
      'La Poste: 550 5.5.0 Service refuse. SPF invalide. LPN007_405',
    ],
  },
  {
    text: /unauthenticated (e-?mail|mail|messages?|senders?)|(is|are|was) unauthenticated|(fails?|failed|pass|no|missing|lacks?|have|meet) (to pass |the |required |e-?mail |domain |sender ){0,3}authentication (information|checks?|level|results?|requirements?)|(fails?|failed) (e-?mail|domain|message) authentication/,
    is: 'authentication',
    samples: [
      'Gmail: 550 5.7.1 This message does not have authentication information or fails to pass authentication checks. To best protect our users from spam, the message has been blocked.',
      'Outlook.com: 550 5.7.1 The sending domain does not meet the authentication requirements',
    ],
  },
  {
    text: /reverse (dns|lookup|ip|name|host|map|entry|record)|\brdns\b|\bptr\b|cannot (find|resolve) your (host|reverse|ip)|(no|without|invalid|generic|missing) (valid )?(reverse|rdns)|resolution inverse/,
    is: 'authentication',
    samples: [
      'Postfix: 450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]',
      'AT&T: 550 5.7.1 Connections not accepted from servers without a valid sender domain.flph829 Fix reverse DNS for 192.0.2.1',
      'GMX: 554 gmx.net (mxgmx115) Nemesis ESMTP Service not available. No SMTP service. Bad DNS PTR resource record. For explanation visit https://postmaster.gmx.net/en/error-messages?ip=192.0.2.1&c=rdns',
      'GoDaddy: 554 p3plibsmtp01-05.prod.phx3.secureserver.net Temporarily rejected. Reverse DNS for 192.0.2.1 failed. IB108',
      'Comcast: 554 resimta-po-13v.sys.comcast.net 192.0.2.1 PTR lookup failure; all mail servers must have a PTR record with a valid Reverse DNS entry',
      'Sendmail: 550 5.7.1 Fix reverse DNS for 192.0.2.1, or use your ISP server',
      'AOL: 421 4.7.1 : (DNS:NR) The IP address you are sending from has no rDNS',
      'Cisco IronPort: 554 Your access to this mail system has been rejected due to the sending MTA’s poor reputation or missing reverse DNS.',
    ],
  },
  {
    text: /\bdns lookup on helo\b|\b(helo|ehlo)\b.{0,60}(reject|invalid|not found|resolve|fqdn|fully|mismatch|bad|illegal|impersonat|forged|own|valid)|(invalid|bad|forged|wrong|your|faux) (helo|ehlo)\b/,
    is: 'authentication',
    note: 'The EHLO name is part of the identity of the sending host.',
    samples: [
      'Postfix: 504 5.5.2 <mail>: Helo command rejected: need fully-qualified hostname',
      'Postfix: 450 4.7.1 <mail.example.com>: Helo command rejected: Host not found',
      'Exim: 550 HELO should be a FQDN or address literal (See RFC 2821 4.1.1.1)',
      'GMX: 554 gmx.net Nemesis ESMTP Service not available. No SMTP service. Invalid HELO. For explanation visit https://postmaster.gmx.net/',
      'Exim: 550 Access denied - Invalid HELO name (See RFC2821 4.1.1.1)',
      'Courier: 417 DNS lookup on HELO mail.example.org failed.  Try again later.',
    ],
  },
];
