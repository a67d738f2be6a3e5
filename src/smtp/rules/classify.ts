import { classOf, type Reply } from '../replies/reply.ts';
import { type Classification, type Phase, saysNobodyThere } from '../replies/result.ts';
import type { EnhancedPattern, Rule } from './rule.ts';
import { rules } from './rules.ts';

/**
 * What a refusal is about. Only "this recipient does not exist" may stop mail to a recipient; a refusal that is about us
 * must never do so.
 *
 * @param recipients how many the reply is for: one reply to a message for several does not say which of them it means
 */
export function classify(phase: Phase, reply: Reply, recipients = 1): Classification {
  const { is } = ruleFor(phase, reply);
  return saysNobodyThere(is) && phase !== 'rcpt' && recipients > 1 ? 'other' : is;
}

/** What the destination wants less of, if anything: concurrent connections, or mail per time. */
export function slowDown(phase: Phase, reply: Reply): 'connections' | 'rate' | null {
  return ruleFor(phase, reply).slow ?? null;
}

/** True if there are too many recipients, per message or per time, without a verdict on any of them. */
export function saysTooManyRecipients(phase: Phase, reply: Reply): boolean {
  return ruleFor(phase, reply).tooMany ?? false;
}

/** True if the server takes the mail over TLS alone. */
export function wantsTls(phase: Phase, reply: Reply): boolean {
  return ruleFor(phase, reply).wantsTls ?? false;
}

const aboutMessage: Classification[] = ['bad_mailbox', 'bad_domain', 'mailbox_full', 'content'];

/**
 * True if the reply may be about the volume or this one connection, rather than about the message, a recipient or our
 * reputation, which is the same on the next connection. (Many replies mention a session only as a reference for support.)
 */
export function saysEnough(phase: Phase, reply: Reply): boolean {
  const { is, slow, tooMany } = ruleFor(phase, reply);
  if ((slow !== undefined && is === 'rate') || tooMany) return true;
  return phase !== 'dot' && !aboutMessage.includes(is) && /\b(connection|session)s?\b/i.test(reply.text);
}

const nothingKnown: Rule = { is: 'other', samples: [] };

/** The first rule that fits. */
export function ruleFor(phase: Phase, reply: Reply): Rule {
  const text = comparableText(reply.text);
  const enhanced = (reply.enhanced ?? quotedCode(reply))?.slice(2) ?? null;
  const fits = (rule: Rule) =>
    (rule.when?.includes(phase) ?? true) &&
    (rule.codes?.some((code) => code === reply.code || code === `${classOf(reply.code)}xx`) ?? true) &&
    (rule.enhanced?.some((pattern) => meets(pattern, enhanced)) ?? true) &&
    (rule.text?.test(text) ?? true);
  return rules.find(fits) ?? nothingKnown;
}

function meets(pattern: EnhancedPattern, enhanced: string | null): boolean {
  if (pattern === 'none') return enhanced === null || enhanced === '0.0' || enhanced === '5.0';
  return pattern === enhanced || (enhanced !== null && pattern === enhanced.replace(/\.\d+$/, '.x'));
}

/** qmail and IronPort write the enhanced code as `#5.1.1`, before or after the text. */
function quotedCode({ code, text }: Reply): string | null {
  const found = /(?:^|[\s(])#([245]\.\d{1,3}\.\d{1,3})(?!\S{0,1}\d)/.exec(text)?.[1] ?? null;
  return found !== null && Number(found[0]) === classOf(code) ? found : null;
}

/**
 * A reply's text in the form that rules match. Addresses are removed, because `spam@` and `unknown@` are names too, and so
 * are accents on Latin letters, because servers write with and without them. Takes time linear in the text.
 */
export function comparableText(text: string): string {
  return text
    .normalize('NFD')
    .replace(/([a-z])[\u0300-\u036f]{1,8}/gi, '$1')
    .normalize('NFC')
    .toLowerCase()
    .replace(/[\u2018\u2019\u02bc`]/g, "'")
    .replace(/(?<![^\s<>()[\],;:"'=@])[^\s<>()[\],;:"'=@]{1,64}@[^\s<>()[\],;:"'@]{1,255}/g, ' ')
    .replace(/<\s{0,8}>|\[\s{0,8}\]|\(\s{0,8}\)/g, ' ')
    .replace(/[\s_]+/g, ' ')
    .trim();
}
