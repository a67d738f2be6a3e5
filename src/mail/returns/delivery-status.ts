import { withoutNeedlessQuotes } from '../address/address.ts';
import { cutText } from '../text/characters.ts';

/** What a server says it did with a message for one recipient (RFC 3464 section 2.3.3). */
export type Action = 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded';

/** One recipient of a notice, as the notice has it: nothing is cleaned yet. */
export interface ReturnedRecipient {
  /** Null if the notice names nobody. */
  address: string | null;
  /** The recipient's other addresses in the notice, such as the one that we wrote to if the mail was forwarded. */
  aliases: string[];
  action: Action;
  /** The enhanced code (RFC 3463), null if there is none. */
  status: string | null;
  /** The code of the deciding reply, null if no server is quoted. */
  code: number | null;
  /** What the deciding server said, or the words about this recipient. */
  diagnostic: string | null;
  /** The command that was refused: RCPT unless the notice says otherwise. */
  phase: 'mail' | 'rcpt' | 'dot';
}

const longestText = 256 * 1024;
const mostRecipients = 100;
const longestDiagnostic = 4_000;

/**
 * The recipients of a `message/delivery-status` (RFC 3464) or of text in that format. Copes with what servers really write:
 * groups that are run together or torn apart, and values continued on the next line without an indent.
 */
export function readDeliveryStatus(text: string): ReturnedRecipient[] {
  const groups: Group[] = [];
  for (const line of text.slice(0, longestText).split('\n')) {
    const [, name, value = ''] = /^([A-Za-z][A-Za-z0-9-]{2,40})[ \t]?:(.*)$/s.exec(line) ?? [];
    const group = groups.at(-1);
    if (name === undefined) group?.continueWith(line.trim());
    else if (!beginsRecipient(name.toLowerCase(), group)) group?.add(name.toLowerCase(), value.trimStart());
    else if (groups.length === mostRecipients) break;
    else groups.push(new Group(name.toLowerCase(), value.trimStart()));
  }
  return groups.map(({ fields }) => recipientOf(fields));
}

/** The fields of one recipient. */
class Group {
  readonly fields = new Map<string, string>();
  /** The field that the next line may continue; null: none. */
  #open: string | null = null;
  /** Whether an empty line has come after the last field. */
  isInterrupted = false;

  constructor(name: string, value: string) {
    this.add(name, value);
  }

  add(name: string, value: string): void {
    this.isInterrupted = false;
    const known = this.fields.get(name);
    // If there are several diagnostics, a server's says more.
    const isBetter = known === undefined || (name === 'diagnostic-code' && !/^smtp/i.test(known));
    if (isBetter) this.fields.set(name, value);
    this.#open = isBetter ? name : null;
  }

  /** Takes a line that is no field. */
  continueWith(line: string): void {
    if (line === '') {
      this.#open = null;
      this.isInterrupted = true;
    }
    if (this.#open === null) return;
    const known = this.fields.get(this.#open) ?? '';
    if (known.length < longestDiagnostic) this.fields.set(this.#open, `${known} ${line}`.trimStart());
  }
}

const about = new Set(['final-recipient', 'original-recipient', 'action', 'status', 'diagnostic-code', 'remote-mta']);

/**
 * A new group begins when a per-recipient field repeats: immediately for a field that names the recipient, and only after an
 * empty line for the others. Some groups contain an empty line, and in some the recipient does not come first.
 */
function beginsRecipient(name: string, group: Group | undefined): boolean {
  if (!about.has(name)) return false;
  if (!group) return true;
  const { fields, isInterrupted } = group;
  const isNamed = fields.has('final-recipient') || fields.has('original-recipient');
  if (name === 'final-recipient' || name === 'original-recipient')
    return fields.has(name) || (isNamed && fields.has('status'));
  return isInterrupted && isNamed && fields.has(name);
}

function recipientOf(fields: Map<string, string>): ReturnedRecipient {
  const final = recipientIn(fields.get('final-recipient') ?? '');
  const written = addressIn(fields.get('original-recipient') ?? '');
  const original = written && fromXtext(written);
  // Where an alias or a .forward led, by Sendmail: its Final-Recipient is whom we wrote to, whoever of them failed.
  const actual = addressIn((fields.get('x-actual-recipient') ?? '').replace(/^\s*x-unix\s*;.*$/is, ''));
  const address = actual ?? final ?? original;
  const status = statusIn(fields.get('status') ?? '');
  const diagnostic = (
    fields.get('diagnostic-code')?.replace(exitStatus, '') ??
    fields.get('x-display-diagnostic') ??
    repliedTo(fields.get('x-supplementary-info') ?? '')
  ).slice(0, longestDiagnostic);
  const said = diagnostic.replace(/^[A-Za-z0-9-]{1,20}[ \t]*;[ \t]*/, '').trim();
  return {
    address,
    aliases: [final, original, written].filter((one): one is string => one !== null && one !== address),
    action: actionOf(fields.get('action') ?? '', status),
    status,
    code: codeIn(said),
    diagnostic: said === '' ? null : said,
    phase: phaseIn(said) ?? 'rcpt',
  };
}

/** The number with which a program ended: the text for people says what it means. */
const exitStatus = /^\s*x-unix\s*;\s*\d{1,3}\s*$/i;

/** The reply in `<mx.example.com #5.5.0 smtp;550 5.1.1 User unknown>`: older Exchange quotes servers nowhere else. */
const repliedTo = (info: string) => /\bsmtp;\s?([45]\d\d[ -][^>]{1,2000})/i.exec(info)?.[1] ?? '';

/** The command that a server refused, null if the text does not say. */
export function phaseIn(text: string): ReturnedRecipient['phase'] | null {
  if (/in reply to (?:the )?(?:end of )?data|after (?:end of |pipelined )?(?:data|message)\b/i.test(text)) return 'dot';
  return /(?:in reply to|after) (?:the )?(?:pipelined )?mail from/i.test(text) ? 'mail' : null;
}

/** `failed` unless action or status say otherwise: a notice that names a recipient without either means a failure. */
function actionOf(text: string, status: string | null): Action {
  const lower = text.toLowerCase();
  if (lower.includes('fail')) return 'failed';
  if (lower.includes('delay')) return 'delayed';
  if (lower.includes('relay')) return 'relayed';
  if (lower.includes('expand')) return 'expanded';
  if (lower.includes('deliver')) return 'delivered';
  return status?.startsWith('2') ? 'delivered' : status?.startsWith('4') ? 'delayed' : 'failed';
}

/** The address in `rfc822; <a@b.c>`, null when there is none. */
export function addressIn(value: string): string | null {
  const bare = fromUtf8Xtext(value.slice(0, 1_000)).replace(/^[A-Za-z0-9-]{1,20}[ \t]*;/, '');
  const [address = null] =
    /(?:"(?:[^"\\]|\\.){1,64}"|[^\s<>()[\]:;,"]{1,64})@[^\s<>()[\]:;,"@]{1,253}/.exec(bare) ?? [];
  return address === null ? null : withoutNeedlessQuotes(address).replace(/\.$/, '');
}

/** Whom a field names: the address, or the field's own words if we find none; null if it is empty. */
function recipientIn(value: string): string | null {
  const bare = value.replace(/^[A-Za-z0-9-]{1,20}[ \t]*;/, '').trim();
  return addressIn(value) ?? (/^<?>?$/.test(bare) ? null : cutText(bare, 320));
}

/** RFC 6533 section 3: in an address of the type `utf-8`, `\x{7528}` may stand for a character. */
const fromUtf8Xtext = (value: string) =>
  /^utf-8[ \t]*;/i.test(value)
    ? value.replaceAll(/\\x\{([0-9A-F]{2,6})\}/gi, (whole, hex: string) => {
        const code = Number.parseInt(hex, 16);
        const isCharacter = code > 0x9f && code <= 0x10ffff && (code & 0xfffff800) !== 0xd800;
        return isCharacter ? String.fromCodePoint(code) : (specials[code] ?? whole);
      })
    : value;

/** The ASCII characters that are always written this way; any other one in this form is left as it is. */
const specials: Record<number, string> = { 43: '+', 61: '=', 92: '\\' };

/** RFC 3461 section 4: `+2B` stands for a plus. */
const fromXtext = (text: string) =>
  text.replaceAll(/\+([0-9A-F]{2})/g, (whole, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code > 32 && code < 127 ? String.fromCharCode(code) : whole;
  });

/** The first enhanced code in the text; an IPv4 address is not one. */
export function statusIn(text: string): string | null {
  return /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![\d]|\.\d)/.exec(text)?.[0] ?? null;
}

/** The code of the first reply that is quoted in the text. */
export function codeIn(text: string): number | null {
  const found = /(?<![\d.[#/:-])#?([245]\d\d)(?=[\s\-:;,#)\]]|$)/.exec(text)?.[1];
  return found === undefined ? null : Number(found);
}
