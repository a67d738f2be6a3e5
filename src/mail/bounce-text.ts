import { cutText } from './characters.ts';
import { type Action, codeIn, phaseIn, type ReturnedRecipient, statusIn } from './delivery-status.ts';

const mostLines = 1_000;
const mostRecipients = 100;
const longestDiagnostic = 2_000;

/** Lines after which the returned message, or its header, follows. */
const copyBegins =
  /^[\s>*#]{0,8}-{0,12}\s{0,4}(?:below (?:this line )?is a copy|(?:this|the following) is a copy of|a copy of (?:your|the) (?:original )?message|the (?:text|body|headers?|original|message headers?)\b.{0,40}(?:follows?\b|is (?:following|below))|original (?:message|headers?)|(?:message|unsent|returned) (?:message|headers?|text|content)\b.{0,20}(?:follow|below|--|$)|message headers? follow|your (?:original )?message (?:follows|reads|is)|first \d+ (?:lines|bytes) of|urspr[üu]ngliche (?:nachricht|mail)|message original|mensaje original|mensagem original|messaggio originale|oorspronkelijk bericht|oryginalna wiadomo|исходное сообщение|原始邮件|原始郵件|元のメッセージ)|^(?:return-path|received|x-received|dkim-signature|message-id):\s/i;

/** An address at the beginning of a line, after whatever introduces it. */
const introduced =
  /^[\s>*•·\-|]{0,20}(?:(?:[\p{L}][\p{L}\p{M} ()'./-]{0,60})[:：=]\s{0,8})?[\s<'"“„«‘([{]{0,6}(?:smtp[:;]|rfc822;|mailto:)?\s{0,2}([^\s<>()[\]:;,"'“”„«»‘’{}（）。，：；、「」【】《》]{1,64}@[^\s<>()[\]:;,"'“”„«»‘’{}@（）。，：；、「」【】《》]{1,253})/iu;
const anywhere =
  /[^\s<>()[\]:;,"'“”„«»‘’{}（）。，：；、「」【】《》]{1,64}@[^\s<>()[\]:;,"'“”„«»‘’{}@（）。，：；、「」【】《》]{1,253}\.[a-z0-9-]{2,63}/gi;
/** Addresses of the reporter or the sender, not of a failed recipient. */
const notRecipients = /^(?:mailer-daemon|postmaster|abuse|bounces?\+|hostmaster)/i;
const notIntroductions =
  /^\W{0,20}(?:from|von|de|da|reply-to|sender|message-id|reporting-mta|subject|betreff|cc)\s?[:：]|\bmail[ -]from\s?[:：]/i;
/** The copied To field of the message: some of its addresses may have got it. */
const copied = /^\W{0,20}(?:to|an|para|宛先)\s?[:：]/i;
const quotedSender = /\bmail[ -]from\s?[:：]\s{0,8}\S{1,400}/gi;

const delayed =
  /\b(?:delay(?:ed)?|still (?:trying|being|in the queue|undelivered)|will (?:be|continue to be) (?:re)?tried|will (?:keep|continue) (?:trying|to try|attempts)|(?:not|n't) (?:yet )?(?:been )?(?:delivered|sent)(?: yet)? (?:after|for|within|in)\b.{0,60}|warning message only|do not need to resend|no action is required|have not yet|not yet been|temporar\w{1,3} (?:fail|problem|error)\w*.{0,60}(?:again|retr)|verz[öo]gert|retard[ée]e?|diff[ée]r[ée]e?|retrasad[oa]|demora|atrasad[oa]|adiad[oa]|ritard|vertraagd|op[óo][źz]nion|задерж|отложен)|遅延|延迟|延遲|まだ配信/i;
const final =
  /permanent|fatal|giv(?:en|ing) up|gave up|could not be delivered(?! (?:yet|for|within|after))|will not be (?:retried|delivered)|no longer|failed permanently|was rejected|been rejected|undeliverable|endg[üu]ltig|d[ée]finitiv|permanente|définitif|\b5\d\d[ -]#?5\.\d/i;

/**
 * The recipients of a bounce that is written only for people, as by qmail, older Exchange and many others.
 *
 * @param failed addresses that its header names as failed
 */
export function readBounceText(subject: string, text: string, failed: string[] = []): ReturnedRecipient[] {
  const lines = ownLines(text);
  const own = lines.join('\n');
  const action = actionOf(subject, own);
  const told = withoutSeveral(lines);
  const named = sections(told).filter(({ address }) => failed.length === 0 || includes(failed, address));
  const missing = failed.filter((address) => !named.some((one) => same(one.address, address)));
  const everything = missing.map((address) => ({ address, words: own }));
  const found = [...named, ...everything].slice(0, mostRecipients);
  if (found.length > 0)
    return found.map(({ address, words }) => recipientOf(address, words, found.length === 1 ? own : words, action));
  const rest = told.map((line) => line.replaceAll(quotedSender, ' ')).filter((line) => !notIntroductions.test(line));
  const somewhere = [...new Set(rest.join('\n').match(anywhere) ?? [])].filter(
    (address) => !notRecipients.test(address),
  );
  // If there are several, nothing says which one failed.
  const [only = null] = somewhere.length === 1 ? somewhere : [];
  return [{ ...recipientOf(only, own, own, action), aliases: only === null ? somewhere.slice(0, mostRecipients) : [] }];
}

/** The text before the returned message. */
export const withoutCopy = (text: string) => ownLines(text).join('\n');

function ownLines(text: string): string[] {
  const lines = text.split('\n', mostLines).map((line) => line.slice(0, 1_000));
  const end = lines.findIndex((line, index) => index > 0 && copyBegins.test(line));
  return end === -1 ? lines : lines.slice(0, end);
}

/** Drops a copied To that names several, or one if there is a Cc too: it does not say which of them the bounce is about. */
function withoutSeveral(lines: string[]): string[] {
  const hasCopies = lines.some((line) => /^\W{0,20}cc\s?[:：].*@/i.test(line));
  const kept: string[] = [];
  for (let start = 0, end = 1; start < lines.length; start = end++) {
    const isCopied = copied.test(lines[start] ?? '');
    while (isCopied && end < lines.length && /[,;]\s?$/.test(lines[end - 1] ?? '')) end++;
    const field = lines.slice(start, end);
    const named = isCopied ? (field.join(' ').match(anywhere)?.length ?? 0) : 0;
    if (named === 0 || (named === 1 && !hasCopies)) kept.push(...field);
  }
  return kept;
}

/** Addresses at line starts, each with the words up to the next; those of a copied To count only if there are no others. */
function sections(lines: string[]): { address: string; words: string }[] {
  const found = new Map<string, { address: string; words: string }>();
  const others = new Set<string>();
  let current: { address: string; words: string } | undefined;
  for (const line of lines) {
    const [before = '', written = ''] = introduced.exec(line) ?? [];
    const isOther = notIntroductions.test(before.slice(0, before.length - written.length));
    const address = isOther ? undefined : written.replace(/[.…]{1,9}$/, '');
    if (address?.includes('.', address.indexOf('@')) && !notRecipients.test(address)) {
      const key = address.toLowerCase();
      if (!copied.test(line)) others.add(key);
      current = found.get(key) ?? { address, words: '' };
      if (!found.has(key) && found.size < mostRecipients) found.set(key, current);
    }
    if (current && current.words.length < longestDiagnostic) current.words += `${line}\n`;
  }
  return [...found].flatMap(([key, one]) => (others.size === 0 || others.has(key) ? one : []));
}

const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
const includes = (all: string[], address: string) => all.some((one) => same(one, address));

function recipientOf(address: string | null, words: string, own: string, action: Action): ReturnedRecipient {
  const reply = replyIn(words) ?? (markedStatus(words) === null ? replyIn(own) : null);
  const said = reply ?? withoutAddress(words, own, address);
  return {
    address,
    aliases: [],
    action,
    status: (reply && statusIn(reply)) ?? markedStatus(words) ?? markedStatus(own),
    code: reply === null ? null : codeIn(reply),
    diagnostic: said === '' ? null : cutText(said, longestDiagnostic),
    phase: phaseIn(words) ?? 'rcpt',
  };
}

/** The words about one recipient; if these are too few, the whole text. */
function withoutAddress(words: string, own: string, address: string | null): string {
  const rest = (text: string) =>
    text
      .replaceAll(address ?? '\n', ' ')
      .replaceAll(/\s+/g, ' ')
      .trim();
  return /\p{L}{3}.{0,400}\p{L}{3}/su.test(rest(words)) ? rest(words) : rest(own);
}

/** The server's reply that a bounce quotes; if an address is given, the one about that recipient. */
export function quotedReply(text: string, address: string | null): string | null {
  const lines = ownLines(text);
  const words = address === null ? lines.join('\n') : sections(lines).find((one) => same(one.address, address))?.words;
  return words === undefined ? null : replyIn(words);
}

/** Joins the lines of each paragraph, without the quote marks at their beginning. */
function joinLines(text: string): string {
  const [first = '', ...others] = text.split('\n');
  const joined = others.map((line) => {
    const words = line.replace(/^[ \t>]*(?:<<<)?[ \t]*/, '');
    return words === '' ? `\n${line}` : ` ${words}`;
  });
  return first + joined.join('');
}

/** A reply: a code and the words after it, which distinguish it from any other number. */
function replyIn(text: string): string | null {
  // A paragraph counts as one line. In a transcript, the remote server's own lines are preferred to the comments on them.
  const transcript = /^<<<[ \t]*([45]\d\d[ -].{0,1000}(?:\n<<<[ \t]*[45]\d\d[ -].{0,1000}){0,20})/m.exec(text)?.[1];
  const joined = joinLines(transcript ?? text);
  const found =
    /(?:^|[\s:'"“(<[=;,])#?([45]\d\d(?:[ -]{1,3}#?[245]\.\d{1,3}\.\d{1,3})?[ -:]{1,3}(?=[\p{L}#<"'([*]).{0,1500})/u.exec(
      joined,
    )?.[1] ?? /(?:^|[\s:'"(<[])([45]\d\d[ -]#?[245]\.\d{1,3}\.\d{1,3})(?!\d)/.exec(joined)?.[1];
  return found === undefined ? null : found.replaceAll(/\s+/g, ' ').trim();
}

/** An enhanced code that is marked as one: version numbers of programs look the same. */
function markedStatus(text: string): string | null {
  const found =
    /(?:#|\bstatus(?: code)?\W{1,4}|\berror(?: code)?\W{1,4}|\bcode\W{1,4}|\bdsn\W{1,3}|[<(])([245]\.\d{1,3}\.\d{1,3})(?!\d|\.\d)|^[ \t]{0,40}([245]\.\d{1,3}\.\d{1,3})\s/im.exec(
      text,
    );
  return found?.[1] ?? found?.[2] ?? null;
}

function actionOf(subject: string, text: string): Action {
  if (/warning|delay|verz|retard|diff[ée]r|ritard/i.test(subject) && !/fail|undeliver/i.test(subject)) return 'delayed';
  return delayed.test(text) && !final.test(text) ? 'delayed' : 'failed';
}
