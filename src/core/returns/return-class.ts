import { codeIn, type ReturnedRecipient } from '../../mail/returns/delivery-status.ts';
import { classOf, cleanRemoteText } from '../../smtp/replies/reply.ts';
import type { Classification } from '../../smtp/replies/result.ts';
import { classify } from '../../smtp/rules/classify.ts';

/** What a notice says about one recipient, fit to be stored. */
export interface ClassifiedNotice {
  classification: Classification;
  enhancedCode: string | null;
  diagnostic: string | null;
  /** The refusal is final. A temporary one that was repeated until the server gave up is not. */
  permanent: boolean;
}

/** What mail relays say themselves in a notice, without another server's reply (`unquoted`: only then). The first match decides. */
const ownRules: { is: Classification; text: RegExp; unquoted?: true }[] = [
  // OpenSMTPD. A server that replies this may mean the sender's domain.
  { is: 'bad_domain', text: /^(?:domain does not exist|invalid domain name)$/i, unquoted: true },
  {
    is: 'network',
    text: /host not found, try again|temporary failure in mx lookup|no mx found for (?:domain|destination)$|dns resolution error|temporary (?:dns|name|lookup|resolution)|dns (?:server )?(?:time ?d? ?out|failure|server failure)|servfail|cname lookup failed temporarily/i,
  },
  {
    is: 'bad_domain',
    text: /failed to lookup '[^']{1,255}': .{0,60}\bnon-existent domain|name service error for name=\S{1,255} type=\w{1,5}: host not found|couldn.t find any host named|nxdomain|(?:domain|host) name not found|(?:recipient|destination|remote)(?:'s)? (?:mail )?(?:domain|server|host)(?: name)? (?:does ?n.t exist|does not exist|not found|could not be found|unknown)|\bdomain \S{1,255} (?:could ?n.t be found|could not be found|does ?n.t exist|does not exist)|unrouteable mail domain|no such domain|bad destination (?:host|system|mailbox domain)|domain (?:has no|does not have (?:any|an)) mx|illegal host\/domain|host unknown|unknown (?:mail )?(?:host|domain)|domain does not accept (?:mail|e-?mail)|null ?mx|indicated no smtp service/i,
  },
  {
    is: 'network',
    text: /retry time(?:out)? (?:not reached|exceeded)|(?:message|delivery|mail|queue)\b.{0,40}\b(?:expired|too (?:old|long))|connect(?:ion)?\b.{0,120}(?:timed? ?out|refused|reset|failed|dropped|lost|broken)|(?:timed? ?out|refused|failed|unable|not able|could ?n.t|cannot) (?:\w{1,12} ){0,3}(?:to |while )?connect|no route to host|network (?:is )?(?:unreachable|error)|lost connection|(?:server|host)\b.{0,40}(?:not respond|did not respond|unreachable|is down|not reachable|could not be (?:reached|contacted))|(?:wasn.t able|unable) to establish an smtp connection|mail(?: forwarding)? (?:is )?loop|too many (?:hops|received)|hop count|mx (?:records? )?(?:point|list|for)\b.{0,80}(?:loop|back to|non-existent|myself)/i,
  },
];

/** In a server's reply these words may be about the mailbox, or about us: `classify` knows which. */
const wordsOfServers = /mailbox|user|account|quota|inbox|addressee|sender|mail from|helo|ehlo|\byour (?!message)/i;

/**
 * Classifies a notice as `classify` does a reply. If the notice quotes no reply, its status and its words are taken for one.
 */
export function classifyNotice(notice: ReturnedRecipient): ClassifiedNotice {
  const diagnostic = notice.diagnostic === null ? null : cleanRemoteText(notice.diagnostic);
  const passedOn = diagnostic === null ? null : passedOnReply.exec(diagnostic)?.[1];
  const { classification, status, permanent } = judge(
    passedOn ? { ...notice, status: null, code: codeIn(passedOn) } : notice,
    passedOn ?? diagnostic,
  );
  return {
    classification,
    enhancedCode: status ?? notice.status,
    diagnostic: diagnostic === '' ? null : diagnostic,
    permanent,
  };
}

/** Exchange Online says in its own words first what another server said: "unknown recipient" for each 550. */
const passedOnReply = /\bremote server returned .{1,100}? -> ?([245]\d\d[ -].{1,2000})/i;

/** @param diagnostic that of the notice, or the part of it that counts */
function judge(
  notice: ReturnedRecipient,
  diagnostic: string | null,
): { classification: Classification; status: string | null; permanent: boolean } {
  const quoted = diagnostic === null ? null : quotedStatus(diagnostic);
  const status = isGeneral(quoted) ? notice.status : quoted;
  const isTransient = (status?.[0] ?? (notice.action === 'delayed' ? '4' : '5')) === '4';
  const code = notice.code ?? (isTransient ? 450 : 550);
  const text = withoutCodes(diagnostic ?? '', code);
  const enhanced = inClassOf(code, status) ?? movedToClassOf(code, notice.status);
  const reply = text.replace(gaveUp, '');
  const said = classify(notice.phase, { code, enhanced, text: reply });
  const own = reply !== text && said === 'mailbox_full' ? said : classifyOwnWords(notice, status, text);
  const is = own ?? said;
  // Google uses 4.0.0 for a domain that does not exist when it gives up at once.
  const isFinal = !isTransient || (own === 'bad_domain' && isGeneral(status));
  const permanent = notice.action === 'failed' && isFinal && (notice.code ?? 550) >= 500;
  return { classification: is === 'bad_domain' && !permanent ? 'network' : is, status, permanent };
}

/** What Exim and qmail add to the last reply, or to what kept them from delivering. */
const gaveUp =
  /: retry time(?:out)? exceeded| I'm not going to try again; this message has been in the queue too long\.?/;

/** Classifies what a relay says itself. Null: nothing that is known, or the reply of another server that may be about us. */
function classifyOwnWords(
  { phase, code }: ReturnedRecipient,
  status: string | null,
  text: string,
): Classification | null {
  // A refusal for policy or of our sender says nothing about the recipient's domain, only that the server rejects ours.
  const isOurs = phase === 'mail' || (code !== null && (wordsOfServers.test(text) || status?.split('.')[1] === '7'));
  const known = ownRules.find((rule) => rule.text.test(text) && !(rule.unquoted && code !== null));
  return isOurs ? null : (known?.is ?? null);
}

/** Whether an enhanced code says nothing beyond its class. */
const isGeneral = (status: string | null) => status === null || /^\d\.0\.0$/.test(status);

/** The enhanced code that a reply begins with or, failing that, has anywhere. */
const quotedStatus = (text: string) =>
  /^(?:[245]\d\d[ -]{1,3})?#?([245]\.\d{1,3}\.\d{1,3})(?![\d.])/.exec(text)?.[1] ??
  /\(?#([245]\.\d{1,3}\.\d{1,3})\)?/.exec(text)?.[1] ??
  null;

/** The status, unless it contradicts the code. */
const inClassOf = (code: number, status: string | null) =>
  status !== null && Number(status[0]) === classOf(code) ? status : null;

/** The status in the class of the code: if the two contradict each other, the rest of the status holds in either class. */
const movedToClassOf = (code: number, status: string | null) =>
  status && !isGeneral(status) ? `${classOf(code)}${status.slice(1)}` : null;

/** The text of a reply without its codes, which each of its lines may have. */
function withoutCodes(text: string, code: number): string {
  return text
    .replaceAll(
      new RegExp(`(?:^|(?<=\\s))(?:smtp; ?)?${code}[ -](?:#?[245]\\.\\d{1,3}\\.\\d{1,3}(?=\\s)[ ]?)?`, 'g'),
      ' ',
    )
    .replaceAll(/\s+/g, ' ')
    .replace(/^[\s:;,.-]+/, '')
    .trim();
}
