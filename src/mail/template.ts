import { plainly } from '../spelling.ts';
import { AddressError, type Mailbox, parseMailbox, quote } from './address.ts';
import { refuseText } from './characters.ts';

/** The most characters that an email's subject and each of its bodies may have, whether written or rendered. */
export const longest = { subject: 998, body: 5 * 1024 * 1024 };

/** The most placeholders in one text: it is the number of steps that each email of a batch costs. */
export const mostPlaceholders = 1_000;

export interface TemplateVariable {
  key: string;
  type: 'string' | 'number';
  /** What stands in where no value is given; null: one must be given. */
  fallback: string | number | null;
}

/** A template as its author wrote it. Each text may hold placeholders, also of variables that are not declared. */
export interface TemplateContent {
  from: string | null;
  subject: string | null;
  replyTo: string[];
  html: string | null;
  text: string | null;
  variables: TemplateVariable[];
}

/** A template taken apart, so that it can be rendered many times. Setting a field to null leaves it out. */
export interface CompiledTemplate {
  from: MailboxPattern | null;
  subject: Piece[] | null;
  replyTo: MailboxPattern[];
  html: Piece[] | null;
  text: Piece[] | null;
  variables: ReadonlyMap<string, TemplateVariable>;
  /** What is declared, and what stands in one of the texts. */
  keys: ReadonlySet<string>;
}

interface Rendered {
  from: Mailbox | null;
  subject: string | null;
  replyTo: Mailbox[];
  html: string | null;
  text: string | null;
}

/** Text as it is, or the place of a value. */
type Piece = string | { key: string; raw: boolean };

/** `Name <address>` in its two parts; without angle brackets all of it is `address`. */
interface MailboxPattern {
  name: Piece[] | null;
  address: Piece[];
}

/** Why a template cannot be rendered with these values; the message begins with the place, as in `variables.NAME: is required`. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
  /** Such as `variables.NAME`. */
  readonly place: string;

  constructor(place: string, reason: string) {
    super(`${place}: ${reason}`);
    this.place = place;
  }
}

/** Whether it may have come with other digits: an order number would go out as that of another one. */
export const hasLostDigits = (value: number) => Math.abs(value) > Number.MAX_SAFE_INTEGER;
export const lostDigits = 'has more digits than a number holds: give it as a string';

/** A longer key is nobody's way of writing one of 64. */
const mostOfMisspelt = 80;

// Every repetition is bounded, so that the time is linear whatever the text.
const placeholder =
  /\{\{\{\s{0,9}([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,9}\}\}\}|\{\{\s{0,9}([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,9}\}\}/g;

/** What an author meant for a placeholder: a line or so between the braces, and no others in it. */
const meant = /\{{2,3}([^{}]{1,100})\}{2,3}/g;

/** The key of each `{{{KEY}}}` and `{{KEY}}` in the text, in order, repetitions included. */
export function placeholders(text: string): string[] {
  return compileText(text).flatMap((piece) => (typeof piece === 'string' ? [] : [piece.key]));
}

/** Whether the text holds more placeholders than `mostPlaceholders`; past that it is not looked at. */
export function holdsTooManyPlaceholders(text: string): boolean {
  let count = 0;
  for (const _ of text.matchAll(placeholder)) {
    count += 1;
    if (count > mostPlaceholders) return true;
  }
  return false;
}

/**
 * Why this text had better not be sent, or null: it holds something such as `{{user.name}}`, which is in braces as a
 * placeholder is, and would go out as it is. Braces around nothing, single ones and those that do not close are text.
 */
export function refusePlaceholders(text: string): string | null {
  for (const piece of compileText(text)) {
    if (typeof piece !== 'string') continue;
    for (const [whole, inner = ''] of piece.matchAll(meant)) {
      if (inner.trim() === '') continue;
      const shown = whole.replaceAll(/[^\x20-\x7e]/g, '?');
      return `holds ${shown}, which is no placeholder: a key is up to 64 letters, digits and _, does not begin with a digit and has few blanks around it`;
    }
  }
  return null;
}

/** True for what can stand between the braces. */
export function isKey(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(text);
}

/** Why no value at all could make a mailbox of this text, or null when some could. */
export function refuseMailboxPattern(text: string): string | null {
  const { name, address } = splitMailbox(text);
  const anyAddress = placeholders(address).length > 0 ? 'x@x.example' : address;
  try {
    parseMailbox(name === null ? anyAddress : `${name.replaceAll(placeholder, 'x')}<${anyAddress}>`);
    return null;
  } catch (error) {
    if (error instanceof AddressError) return error.message;
    throw error;
  }
}

export function compile(content: TemplateContent): CompiledTemplate {
  const { from, subject, replyTo, html, text, variables } = content;
  const parts = {
    from: from === null ? null : compileMailbox(from),
    subject: subject === null ? null : compileText(subject),
    replyTo: replyTo.map(compileMailbox),
    html: html === null ? null : compileText(html),
    text: text === null ? null : compileText(text),
  };
  const mailboxes = [parts.from, ...parts.replyTo].flatMap((one) => [one?.name, one?.address]);
  const pieces = [parts.subject, parts.html, parts.text, ...mailboxes].flatMap((one) => one ?? []);
  const used = pieces.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.key]));
  return {
    ...parts,
    variables: new Map(variables.map((variable) => [variable.key, variable])),
    keys: new Set([...used, ...variables.map(({ key }) => key)]),
  };
}

/**
 * Puts values in the places of their keys, in a single pass: what a value says is never read as a placeholder. `{{{KEY}}}`
 * is the value as it is; `{{KEY}}` is the same except in `html`, where it is escaped for text and quoted attributes.
 * Values that nothing asks for do not matter; null is no value.
 *
 * The results are within `longest` and fit where they go: no value can add a header, a recipient or a second address.
 *
 * @param left keys whose places in `html` and `text` stay as they are where nothing else says what they are
 * @throws {TemplateError} naming the variable that is missing or does not fit, or the field that came out wrong
 */
export function render(
  template: CompiledTemplate,
  variables: Record<string, unknown>,
  left: ReadonlySet<string> = new Set(),
): Rendered {
  const values = new Values(template, variables);
  const orLeft = (key: string, find: () => string) => (left.has(key) && !values.has(key) ? `{{{${key}}}}` : find());
  return {
    from: template.from && renderMailbox('from', template.from, values),
    subject: template.subject && renderSubject(template.subject, values),
    replyTo: template.replyTo.map((pattern) => renderMailbox('reply_to', pattern, values)),
    html:
      template.html &&
      fill('html', template.html, longest.body, ({ key, raw }) => orLeft(key, () => values.html(key, raw))),
    text: template.text && fill('text', template.text, longest.body, ({ key }) => orLeft(key, () => values.plain(key))),
  };
}

function compileText(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(placeholder)) {
    if (match.index > end) pieces.push(text.slice(end, match.index));
    pieces.push({ key: match[1] ?? match[2] ?? '', raw: match[1] !== undefined });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

/** The name still has its quotes. */
function splitMailbox(text: string): { name: string | null; address: string } {
  const trimmed = text.trim();
  const open = trimmed.endsWith('>') ? trimmed.lastIndexOf('<') : -1;
  if (open === -1) return { name: null, address: trimmed };
  return { name: trimmed.slice(0, open), address: trimmed.slice(open + 1, -1) };
}

function compileMailbox(text: string): MailboxPattern {
  const { name, address } = splitMailbox(text);
  return { name: name === null ? null : compileText(withoutQuotes(name.trim())), address: compileText(address) };
}

function withoutQuotes(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1).replaceAll(/\\(.)/gu, '$1') : name;
}

/** The parts are filled on their own and the name is quoted again, so that it may hold commas, quotes or an @. */
function renderMailbox(field: string, { name, address }: MailboxPattern, values: Values): Mailbox {
  const part = (pieces: Piece[]) => fill(field, pieces, longest.subject, ({ key }) => values.line(key, field));
  const text = name === null ? part(address) : `${quote(part(name))} <${part(address)}>`;
  try {
    return parseMailbox(text);
  } catch (error) {
    if (error instanceof AddressError) throw new TemplateError(field, error.message);
    throw error;
  }
}

function renderSubject(pieces: Piece[], values: Values): string {
  const subject = fill('subject', pieces, longest.subject, ({ key }) => values.line(key, 'subject'));
  const refused = subject === '' ? 'is empty when rendered' : refuseText(subject);
  if (refused) throw new TemplateError('subject', refused);
  return subject;
}

/** The length is summed up before anything is joined: a short template can ask for more text than there is memory. */
function fill(
  field: string,
  pieces: Piece[],
  most: number,
  valueAt: (place: Exclude<Piece, string>) => string,
): string {
  const parts: string[] = [];
  let length = 0;
  for (const piece of pieces) {
    const part = typeof piece === 'string' ? piece : valueAt(piece);
    length += part.length;
    if (length > most) throw new TemplateError(field, `has more than ${most} characters when rendered`);
    parts.push(part);
  }
  return parts.join('');
}

/** The values of one rendering, each looked at once. */
class Values {
  #declared: ReadonlyMap<string, TemplateVariable>;
  #keys: ReadonlySet<string>;
  #given: Record<string, unknown>;
  /** What was given and is no key of the template, by how it is compared with keys; made when it is first asked for. */
  #others: Map<string, string> | null = null;
  #plain = new Map<string, string>();
  #escaped = new Map<string, string>();

  constructor({ variables, keys }: CompiledTemplate, given: Record<string, unknown>) {
    this.#declared = variables;
    this.#keys = keys;
    this.#given = given;
  }

  /** Whether there is one, or should be. @throws {TemplateError} where one is given by a name that is nearly right */
  has(key: string): boolean {
    if (this.#declared.has(key) || this.#own(key) !== null) return true;
    this.#refuseMisspelt(key);
    return false;
  }

  plain(key: string): string {
    const known = this.#plain.get(key);
    if (known !== undefined) return known;
    const value = this.#find(key);
    this.#plain.set(key, value);
    return value;
  }

  html(key: string, raw: boolean): string {
    const value = this.plain(key);
    if (raw) return value;
    const escaped = this.#escaped.get(key) ?? escapeHtml(value);
    this.#escaped.set(key, escaped);
    return escaped;
  }

  /** For a field of the header. */
  line(key: string, field: string): string {
    const value = this.plain(key);
    const refused = refuseText(value);
    if (refused) throw new TemplateError(`variables.${key}`, `${refused}, and is used in ${field}`);
    return value;
  }

  #find(key: string): string {
    const declared = this.#declared.get(key);
    const given = this.#own(key);
    if (given === null) this.#refuseMisspelt(key);
    const value = given ?? declared?.fallback ?? null;
    const place = `variables.${key}`;
    if (value === null) throw new TemplateError(place, 'is required');
    if (declared ? typeof value !== declared.type : typeof value !== 'string' && typeof value !== 'number')
      throw new TemplateError(place, `must be a ${declared?.type ?? 'string or a number'}`);
    if (typeof value === 'number' && !Number.isFinite(value)) throw new TemplateError(place, 'must be a finite number');
    if (typeof value === 'number' && hasLostDigits(value)) throw new TemplateError(place, lostDigits);
    return String(value);
  }

  /** Own members only: a value named `constructor` is one that was given, not one that every object has. */
  #own(key: string): unknown {
    return (Object.hasOwn(this.#given, key) ? this.#given[key] : null) ?? null;
  }

  /** What is given as `name`, or `first-name`, is not to go out as the fallback of `NAME`, or `FIRST_NAME`. */
  #refuseMisspelt(key: string): void {
    this.#others ??= new Map(Object.keys(this.#given).flatMap((other) => this.#asKey(other)));
    const other = this.#others.get(plainly(key));
    if (other !== undefined && other !== key)
      throw new TemplateError(`variables.${other}`, `is called ${key} in the template`);
  }

  #asKey(other: string): [plain: string, other: string][] {
    const isKnown = other.length > mostOfMisspelt || this.#keys.has(other);
    return isKnown || (this.#given[other] ?? null) === null ? [] : [[plainly(other), other]];
  }
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const escapeHtml = (text: string) => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
