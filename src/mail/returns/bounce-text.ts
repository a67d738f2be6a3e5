import { cutText } from '../text/characters.ts';
import { addressesIn, copiedTo, type Section, sectionsOf, withoutUnclearTo } from './bounce-recipients.ts';
import { markedStatus, replyIn } from './bounce-reply.ts';
import { type Action, codeIn, phaseIn, type ReturnedRecipient, statusIn } from './delivery-status.ts';

const mostLines = 1_000;
const longestLine = 1_000;
const mostRecipients = 100;
const longestDiagnostic = 2_000;

/** Lines after which the returned message, or its header, follows. */
const copyBegins =
  /^[\s>*#]{0,8}-{0,12}\s{0,4}(?:below (?:this line )?is a copy|(?:this|the following) is a copy of|a copy of (?:your|the) (?:original )?message|the (?:text|body|headers?|original|message headers?)\b.{0,40}(?:follows?\b|is (?:following|below))|original (?:message|headers?)|(?:message|unsent|returned) (?:message|headers?|text|content)\b.{0,20}(?:follow|below|--|$)|message headers? follow|your (?:original )?message (?:follows|reads|is)|first \d+ (?:lines|bytes) of|urspr[üu]ngliche (?:nachricht|mail)|message original|mensaje original|mensagem original|messaggio originale|oorspronkelijk bericht|oryginalna wiadomo|исходное сообщение|原始邮件|原始郵件|元のメッセージ)|^(?:return-path|received|x-received|dkim-signature|message-id):\s/i;

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
  const whole = lines.join('\n');
  const action = actionOf(subject, whole);
  const candidates = withoutUnclearTo(lines);
  const sections = sectionsAbout(failed, candidates, whole).slice(0, mostRecipients);
  if (sections.length > 0)
    return sections.map((section) => recipientOf(section, sections.length === 1 ? whole : section.words, action));
  const addresses = addressesIn(candidates);
  // If there are several, nothing says which one failed.
  const [only = null] = addresses.length === 1 ? addresses : [];
  const aliases = only === null ? addresses.slice(0, mostRecipients) : [];
  return [{ ...recipientOf({ address: only, words: whole }, whole, action), aliases }];
}

/** The sections about the failed addresses, or all if none is named. A failed address without a section gets the whole text. */
function sectionsAbout(failed: string[], lines: string[], whole: string): Section[] {
  const sections = sectionsOf(lines);
  if (failed.length === 0) return sections;
  const named = sections.filter(({ address }) => failed.some((one) => same(one, address)));
  const unnamed = failed.filter((address) => sectionOf(address, named) === undefined);
  return [...named, ...unnamed.map((address) => ({ address, words: whole }))];
}

/** The text before the returned message. */
export const withoutCopy = (text: string) => ownLines(text).join('\n');

function ownLines(text: string): string[] {
  const lines = text.split('\n', mostLines).map((line) => line.slice(0, longestLine));
  const end = lines.findIndex((line, index) => index > 0 && copyBegins.test(line));
  return end === -1 ? lines : lines.slice(0, end);
}

/** What the text of a report says about its recipients. It is read once for all of them. */
export class ReportText {
  readonly text: string;
  readonly #lines: string[];
  #sections: Section[] | undefined;
  #paragraphs: Section[] | undefined;
  #behind: Map<string, Section[]> | undefined;

  constructor(text: string) {
    this.text = text;
    this.#lines = ownLines(text);
  }

  /** The server's reply that it quotes; if an address is given, the one about that recipient. */
  quotedReply(address: string | null): string | null {
    if (address === null) return replyIn(this.#lines.join('\n'));
    this.#sections ??= sectionsOf(this.#lines);
    const section = sectionOf(address, this.#sections);
    return section === undefined ? null : replyIn(section.words);
  }

  /**
   * The recipients that an alias was replaced by, in the order of the text; the alias itself is among them if it was kept, and
   * none are if it was not replaced. Exim names them in the text alone: "(generated from team@example.com)".
   */
  behindAlias(alias: string): string[] {
    this.#sections ??= sectionsOf(this.#lines);
    this.#behind ??= Map.groupBy(this.#sections, ({ address, words }) => (aliasIn(words) ?? address).toLowerCase());
    const addresses = (this.#behind.get(alias.toLowerCase()) ?? []).map(({ address }) => address);
    return addresses.every((address) => same(address, alias)) ? [] : addresses;
  }

  /** What it says about this recipient in the paragraph that names it; null if it has none, or if that is a copied header. */
  wordsAbout(address: string): string | null {
    this.#paragraphs ??= paragraphsOf(this.#lines)
      .filter((lines) => !lines.some((line) => copiedTo.test(line)))
      .flatMap(sectionsOf);
    const section = sectionOf(address, this.#paragraphs);
    return section === undefined ? null : sentencesOf(section.words.replace(generatedFrom, ''), '', address) || null;
  }

  /** What it says after the address and a colon, if that is a line by itself: `jane@example.com: "over quota"`. */
  lineAbout(address: string): string | null {
    const [only, ...others] = this.#lines.filter((line) => line.toLowerCase().startsWith(`${address.toLowerCase()}: `));
    if (only === undefined || others.length > 0) return null;
    return (
      only
        .slice(address.length + 1)
        .trim()
        .replace(/^"(.*)"$/s, '$1') || null
    );
  }
}

const generatedFrom = /\((?:ultimately )?generated from ([^\s()]{3,320})\)/;

const aliasIn = (words: string) => generatedFrom.exec(words)?.[1];

const paragraphsOf = (lines: string[]): string[][] =>
  lines
    .join('\n')
    .split(/\n[ \t]{0,1000}\n/)
    .map((paragraph) => paragraph.split('\n'));

const sectionOf = (address: string, sections: Section[]) => sections.find((one) => same(one.address, address));

const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();

/** @param context where to look for what the words do not say */
function recipientOf(
  { address, words }: { address: string | null; words: string },
  context: string,
  action: Action,
): ReturnedRecipient {
  const reply = replyIn(words) ?? (markedStatus(words) === null ? replyIn(context) : null);
  const diagnostic = reply ?? sentencesOf(words, context, address);
  return {
    address,
    aliases: [],
    action,
    status: (reply && statusIn(reply)) ?? markedStatus(words) ?? markedStatus(context),
    code: reply === null ? null : codeIn(reply),
    diagnostic: diagnostic === '' ? null : cutText(diagnostic, longestDiagnostic),
    phase: phaseIn(words) ?? 'rcpt',
  };
}

/** What CommuniGate puts before a reason. In it the name of an account, or the word "account" itself, would say something. */
const communigateBegins = /failed to deliver to ' ' [a-z]{1,20} module\([^()]{1,320}\) reports: /i;

/** The words without the address; if these are too few, the context without it. */
function sentencesOf(words: string, context: string, address: string | null): string {
  const clean = (text: string) =>
    text
      .replaceAll(address ?? '\n', ' ')
      .replaceAll(/< >:?/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .replace(communigateBegins, '')
      .trim();
  return /\p{L}{3}.{0,400}\p{L}{3}/su.test(clean(words)) ? clean(words) : clean(context);
}

function actionOf(subject: string, text: string): Action {
  if (/warning|delay|verz|retard|diff[ée]r|ritard/i.test(subject) && !/fail|undeliver/i.test(subject)) return 'delayed';
  return delayed.test(text) && !final.test(text) ? 'delayed' : 'failed';
}
