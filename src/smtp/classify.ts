import type { Reply } from './reply.ts';
import type { Classification, Phase } from './result.ts';

// By subject and detail of the enhanced code, whatever its class (RFC 3463, RFC 7372, RFC 7505 and the IANA registry).
const byEnhanced: Record<string, Classification> = {
  '1.1': 'bad_mailbox',
  '1.2': 'bad_domain',
  '1.3': 'bad_mailbox',
  '1.6': 'bad_mailbox',
  '1.7': 'sender',
  '1.8': 'sender',
  '1.10': 'bad_domain',
  '2.1': 'bad_mailbox',
  '2.2': 'mailbox_full',
  '2.3': 'content',
  '3.3': 'content',
  '3.4': 'content',
  '4.5': 'rate',
  '5.3': 'rate',
  '7.20': 'authentication',
  '7.21': 'authentication',
  '7.22': 'authentication',
  '7.23': 'authentication',
  '7.24': 'authentication',
  '7.25': 'authentication',
  '7.26': 'authentication',
  '7.27': 'sender',
  '7.28': 'rate',
};

const bySubject: Record<string, Classification> = { 4: 'network', 5: 'protocol', 6: 'content', 7: 'policy' };

const rateWords =
  /too (many|much|fast)|rate.?limit|limit(ed)? exceeded|exceed.*(rate|limit)|throttl|try again later.*(load|busy)/i;
const authenticationWords =
  /\b(spf|dkim|dmarc|unauthenticated)\b|reverse dns|\bptr\b|authentication (fail|required|check)/i;
const policyWords =
  /block(ed|list)|black.?list|dnsbl|\brbl\b|spamhaus|spamcop|barracuda|reputation|\bspam|banned|policy|prohibited|gr[ea]y.?list/i;
const fullWords =
  /(mailbox|quota|storage|disk).*(full|exceed|over)|over ?quota|insufficient.*(storage|space)|out of storage/i;
const unknownWords =
  /(user|recipient|mailbox|address|account|addressee|alias|person)s?\b.*(unknown|not (be )?found|no longer|does(n't| not) exist|not exist|invalid|disabled|inactive|not known|unavailable|no such)|unknown (user|recipient|local|mailbox|address)|no such (user|recipient|mailbox|person|address|account|local)|no mailbox|invalid (recipient|mailbox|user|address)|unrouteable|undeliverable address/i;

/**
 * What a refusal is about, so that only "this recipient does not exist" can stop mail to a recipient and a refusal
 * that is about us never does. Phase and codes decide; the text speaks only where they are silent or say "no such
 * mailbox" about what the text calls a block.
 */
export function classify(phase: Phase, reply: Reply): Classification {
  const aboutRecipient = phase === 'rcpt' || phase === 'data' || phase === 'dot';
  if (reply.enhanced !== null) {
    const [, subject = '', detail = ''] = reply.enhanced.split('.');
    const named = byEnhanced[`${subject}.${detail}`];
    if (named === 'bad_mailbox') {
      if (!aboutRecipient) return 'sender';
      return policyWords.test(reply.text) ? 'policy' : named;
    }
    if (named !== undefined) return named;
    if (subject === '7' && authenticationWords.test(reply.text)) return 'authentication';
    if (subject === '7' && rateWords.test(reply.text)) return 'rate';
    const general = bySubject[subject];
    if (general !== undefined) return general;
  }
  return aboutRecipient || phase === 'mail' ? byCode(phase, reply) : beforeMail(reply);
}

function beforeMail({ code, text }: Reply): Classification {
  if (rateWords.test(text)) return 'rate';
  if (code >= 500 || policyWords.test(text)) return 'policy';
  return 'network';
}

function byCode(phase: Phase, { code, text }: Reply): Classification {
  if (code >= 500 && code <= 504) return 'protocol';
  if (rateWords.test(text)) return 'rate';
  if (authenticationWords.test(text)) return 'authentication';
  if (policyWords.test(text)) return 'policy';
  if (fullWords.test(text)) return 'mailbox_full';
  if (code === 421) return 'network';
  if (phase === 'mail') return code === 552 ? 'content' : 'sender';
  if (phase === 'rcpt') {
    if (code === 452 || code === 552) return 'mailbox_full';
    const permanentMailbox = code === 550 || code === 551 || code === 553;
    return permanentMailbox && unknownWords.test(text) ? 'bad_mailbox' : 'other';
  }
  return code === 552 || code === 554 ? 'content' : 'other';
}
