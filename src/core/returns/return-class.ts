import type { ReturnedRecipient } from '../../mail/delivery-status.ts';
import { classify } from '../../smtp/classify.ts';
import { cleanRemoteText } from '../../smtp/reply.ts';
import type { Classification } from '../../smtp/result.ts';

/** What a notice says about one recipient, fit to be stored. */
export interface Judged {
  classification: Classification;
  enhancedCode: string | null;
  diagnostic: string | null;
  /** The refusal is final. A temporary one that was repeated until somebody gave up is not. */
  permanent: boolean;
}

/** What mail relays say themselves in a notice, without another server's reply. The first match decides. */
const ofMailers: { is: Classification; text: RegExp }[] = [
  {
    is: 'network',
    text: /host not found, try again|temporary (?:dns|name|lookup|resolution)|dns (?:server )?(?:time ?d? ?out|failure|server failure)|servfail|cname lookup failed temporarily/i,
  },
  {
    is: 'bad_domain',
    text: /name service error for name=\S{1,255} type=\w{1,5}: host not found|couldn.t find any host named|nxdomain|(?:domain|host) name not found|(?:recipient|destination|remote)(?:'s)? (?:mail )?(?:domain|server|host)(?: name)? (?:does ?n.t exist|does not exist|not found|could not be found|unknown)|\bdomain \S{1,255} (?:could ?n.t be found|could not be found|does ?n.t exist|does not exist)|unrouteable mail domain|no such domain|bad destination (?:host|system|mailbox domain)|domain (?:has no|does not have (?:any|an)) mx|illegal host\/domain|host unknown|unknown (?:mail )?(?:host|domain)|domain does not accept (?:mail|e-?mail)|null ?mx/i,
  },
  {
    is: 'network',
    text: /retry time(?:out)? (?:not reached|exceeded)|(?:message|delivery|mail|queue)\b.{0,40}\b(?:expired|too (?:old|long))|connect(?:ion)?\b.{0,120}(?:timed? ?out|refused|reset|failed|dropped|lost)|(?:timed? ?out|refused|failed|unable|not able|could ?n.t|cannot) (?:\w{1,12} ){0,3}(?:to |while )?connect|no route to host|network (?:is )?(?:unreachable|error)|lost connection|(?:server|host)\b.{0,40}(?:not respond|did not respond|unreachable|is down|not reachable|could not be (?:reached|contacted))|(?:wasn.t able|unable) to establish an smtp connection|mail(?: forwarding)? (?:is )?loop|too many (?:hops|received)|hop count|mx (?:records? )?(?:point|list|for)\b.{0,80}(?:loop|back to|non-existent|myself)/i,
  },
];

/** In a server's reply these words may be about the mailbox, or about us: `classify` knows which. */
const ofServers = /mailbox|user|account|quota|inbox|addressee|sender|mail from|helo|ehlo|\byour (?!message)/i;

/**
 * Classifies a notice as `classify` does a reply. If the notice quotes no reply, its enhanced code and words are judged as
 * one.
 */
export function judge(recipient: ReturnedRecipient): Judged {
  const { action, status, phase } = recipient;
  const diagnostic = recipient.diagnostic === null ? null : cleanRemoteText(recipient.diagnostic);
  const quoted = diagnostic === null ? null : quotedCode(diagnostic);
  const specific = isGeneral(quoted) ? status : quoted;
  const kind = specific?.[0] ?? (action === 'delayed' ? '4' : '5');
  const code = recipient.code ?? (kind === '4' ? 450 : 550);
  const enhanced = specific !== null && Number(specific[0]) === Math.floor(code / 100) ? specific : null;
  const text = words(diagnostic ?? '', code);
  const isReply = recipient.code !== null;
  // A refusal for policy or of our sender says nothing about the recipient's domain, only that the server rejects ours.
  const isOurs = phase === 'mail' || (isReply && (ofServers.test(text) || specific?.split('.')[1] === '7'));
  const own = isOurs ? undefined : ofMailers.find((one) => one.text.test(text));
  const is = own?.is ?? classify(phase, { code, enhanced: enhanced ?? substitute(status, code), text });
  // Google uses 4.0.0 for a domain that does not exist when it gives up at once.
  const later = own?.is === 'bad_domain' && isGeneral(specific) ? false : kind === '4';
  const permanent = action === 'failed' && !later && (recipient.code ?? 550) >= 500;
  return {
    classification: is === 'bad_domain' && !permanent ? 'network' : is,
    enhancedCode: specific,
    diagnostic: diagnostic === '' ? null : diagnostic,
    permanent,
  };
}

const isGeneral = (status: string | null) => status === null || /^\d\.0\.0$/.test(status);

const quotedCode = (text: string) =>
  /^(?:[245]\d\d[ -]{1,3})?#?([245]\.\d{1,3}\.\d{1,3})(?![\d.])/.exec(text)?.[1] ??
  /\(?#([245]\.\d{1,3}\.\d{1,3})\)?/.exec(text)?.[1] ??
  null;

/** The status with the class of the code: if the two contradict each other, the rest of the status holds in either class. */
function substitute(status: string | null, code: number): string | null {
  return status && !isGeneral(status) ? `${Math.floor(code / 100)}${status.slice(1)}` : null;
}

/** The text of a reply without its codes, which each of its lines may have. */
function words(text: string, code: number): string {
  return text
    .replaceAll(
      new RegExp(`(?:^|(?<=\\s))(?:smtp; ?)?${code}[ -](?:#?[245]\\.\\d{1,3}\\.\\d{1,3}(?=\\s)[ ]?)?`, 'g'),
      ' ',
    )
    .replaceAll(/\s+/g, ' ')
    .replace(/^[\s:;,.-]+/, '')
    .trim();
}
