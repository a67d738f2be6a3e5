import type { Rule } from './rule.ts';

/** Words that only say that the mail was not wanted. They come late, so that a rule with a specific reason decides first. */
export const policy: Rule[] = [
  {
    when: ['data', 'dot'],
    text: /\bspam|unsolicited|\b(junk|bulk)\b|\bu[bc]e\b|спам/,
    is: 'content',
    note: 'In a reply to the message, "spam" is about the message.',
    samples: [
      'Exim: 550 rejected: SPAM',
      'Exim: 550 SPAM refused',
      'Barracuda: 550 Anti-Spam: message refused',
      'Proofpoint Essentials: 550 Denied by policy, classified Bulk',
    ],
  },
  {
    text: /\bpolic(y|ies)\b|prohibit|(?<!recipient address rejected: )access (is )?den(y|ied)|administrative|\bbloc?k(ed|ing|s)?\b(?! (due to|because of) inactiv)|\bbloque|\bbann?ed\b|forbidden|unsolicited|\bbulk\b|\bspam|not (authori[sz]ed|permitted|welcome|wanted)|(?<!name )(?<!sender is )not allowed|permission|local (rule|configuration)|security|firewall|rejected by (\w{1,12} ){0,2}(administrator|system|rule|filter|server|organi[sz]ation|gateway)|(mail|message|e-?mail|service|recipient)( \w{1,8})? (was |is |has been )?refuse[de]?\b|service refuse|refused by|no thanks|go away|not accepted here|\babgelehnt|gesperrt|richtlinie|rechaz(ado|ada|o)|rejeit|recusad|rifiutat|rejete|отклонен|запрещен|заблокирован|blacklist|拒绝|拒收|odrzucon|geweigerd/,
    is: 'policy',
    samples: [
      'Postfix: 554 5.7.1 <bounces@example.org>: Sender address rejected: Access denied',
      'Barracuda: 550 permanent failure for one or more recipients (jane@example.com:blocked)',
      'Mimecast: 550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550',
      'Mimecast: 554 Email rejected due to security policies - https://community.mimecast.com/docs/DOC-1369#554',
      'GMX: 554 Transaction failed. Reject due to policy restrictions. For explanation visit https://postmaster.gmx.net/en/error-messages?ip=192.0.2.1&c=hi',
      'Yandex: 550 5.7.1 Policy rejection on the target address',
      'Exchange Online: 550 5.7.1 TRANSPORT.RULES.RejectMessage; the message was rejected by organization policy',
      'AOL: 521 5.2.1 : AOL will not accept delivery of this message, see the policy page',
      'Zoho: 554 5.7.7 Email policy violation detected',
      'Exim: 550 Administrative prohibition',
      'Strato: 550 5.7.1 Nachricht abgelehnt',
      'Mail.ru: 550 Письмо отклонено',
      '163: 550 User has no permission',
      'Telefonica: 550 5.7.1 Mensaje rechazado',
      'UOL: 550 5.7.1 Mensagem recusada',
      'Cisco IronPort: 554 5.7.1 Blocked by the mail gateway',
    ],
  },
];
