import { grouped } from '../../numbers.ts';
import { AddressError, type Mailbox, parseMailbox, quote } from '../address/address.ts';
import { refuseText, visible } from '../text/characters.ts';
import { longestBody, longestSubject } from '../text/text-limits.ts';
import { TemplateError, type TemplateKeys, TemplateValues, type TemplateVariable } from './template-values.ts';

/** The most placeholders in one text; rendering each email of a batch takes that many steps. */
export const mostPlaceholders = 1_000;

/** A template as its author wrote it. Each text may hold placeholders, also for variables that are not declared. */
export interface TemplateContent {
  from: string | null;
  subject: string | null;
  replyTo: string[];
  html: string | null;
  text: string | null;
  variables: TemplateVariable[];
}

/** A parsed template, which can be rendered many times. Setting a field to null leaves it out. */
export interface CompiledTemplate extends TemplateKeys {
  from: MailboxPattern | null;
  subject: Piece[] | null;
  replyTo: MailboxPattern[];
  html: Piece[] | null;
  text: Piece[] | null;
}

interface Rendered {
  from: Mailbox | null;
  subject: string | null;
  replyTo: Mailbox[];
  html: string | null;
  text: string | null;
}

/** Literal text, or a placeholder. */
type Piece = string | { key: string; raw: boolean };

/** `Name <address>` in its two parts; without angle brackets all of it is `address`. */
interface MailboxPattern {
  name: Piece[] | null;
  address: Piece[];
}

// Every repetition is bounded, so that the time is linear for any text.
const placeholder =
  /\{\{\{\s{0,9}([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,9}\}\}\}|\{\{\s{0,9}([A-Za-z_][A-Za-z0-9_]{0,63})\s{0,9}\}\}/g;

/** Text that its author meant as a placeholder: about a line between the braces, without other braces. */
const meant = /\{{2,3}([^{}]{1,100})\}{2,3}/g;

/** The key of each `{{{KEY}}}` and `{{KEY}}` in the text, in order, repetitions included. */
export function placeholders(text: string): string[] {
  return compileText(text).flatMap((piece) => (typeof piece === 'string' ? [] : [piece.key]));
}

/** Whether the text holds more placeholders than `mostPlaceholders`; stops counting there. */
export function holdsTooManyPlaceholders(text: string): boolean {
  let count = 0;
  for (const _ of text.matchAll(placeholder)) {
    count += 1;
    if (count > mostPlaceholders) return true;
  }
  return false;
}

/**
 * Why this text should not be sent, or null when it may: it holds something like `{{user.name}}`, which looks like a
 * placeholder but would be sent as it is. Empty, single and unclosed braces are plain text, and so are braces around more
 * than 100 characters.
 */
export function refusePlaceholders(text: string): string | null {
  for (const piece of compileText(text)) {
    if (typeof piece !== 'string') continue;
    for (const [whole, inner = ''] of piece.matchAll(meant)) {
      if (inner.trim() === '') continue;
      return `contains ${visible(whole)}, which is not a placeholder: write {{KEY}}, where KEY has at most 64 letters, digits and _, the first not a digit`;
    }
  }
  return null;
}

/** True when the text may stand between the braces. */
export function isKey(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(text);
}

/** Why this text cannot become a mailbox with any values, or null when it can. */
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

/** Parses a template, to be rendered many times. What `refusePlaceholders` would refuse stays plain text. */
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
 * Replaces placeholders with their values in a single pass: placeholders within a value are not replaced. `{{{KEY}}}` inserts
 * the value as it is; `{{KEY}}` does the same except in `html`, where it escapes the value for text and quoted attributes.
 * Unused values do not matter; null counts as no value.
 *
 * The results are within `longestSubject` and `longestBody`, and valid for their fields: no value can add a header, a recipient or a second address.
 *
 * @param left keys whose placeholders in `html` and `text` are kept if they are neither declared nor given
 * @throws {TemplateError} naming the variable that is missing or invalid, or the field that is invalid when rendered
 */
export function render(
  template: CompiledTemplate,
  variables: Record<string, unknown>,
  left: ReadonlySet<string> = new Set(),
): Rendered {
  const values = new TemplateValues(template, variables);
  const orLeft = (key: string, find: () => string) => (left.has(key) && !values.has(key) ? `{{{${key}}}}` : find());
  return {
    from: template.from && renderMailbox('from', template.from, values),
    subject: template.subject && renderSubject(template.subject, values),
    replyTo: template.replyTo.map((pattern) => renderMailbox('reply_to', pattern, values)),
    html:
      template.html &&
      fill('html', template.html, longestBody, ({ key, raw }) => orLeft(key, () => values.html(key, raw))),
    text: template.text && fill('text', template.text, longestBody, ({ key }) => orLeft(key, () => values.plain(key))),
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

/** Fills name and address separately and quotes the name again, so that it may hold commas, quotes or an @. */
function renderMailbox(field: string, { name, address }: MailboxPattern, values: TemplateValues): Mailbox {
  const part = (pieces: Piece[]) => fill(field, pieces, longestSubject, ({ key }) => values.line(key, field));
  const text = name === null ? part(address) : `${quote(part(name))} <${part(address)}>`;
  try {
    return parseMailbox(text);
  } catch (error) {
    if (error instanceof AddressError) throw new TemplateError(field, error.message);
    throw error;
  }
}

function renderSubject(pieces: Piece[], values: TemplateValues): string {
  const subject = fill('subject', pieces, longestSubject, ({ key }) => values.line(key, 'subject'));
  const refused = subject === '' ? 'is empty when rendered' : refuseText(subject);
  if (refused) throw new TemplateError('subject', refused);
  return subject;
}

/** Adds up the length before joining anything: a short template can produce more text than fits in memory. */
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
    if (length > most) throw new TemplateError(field, `has more than ${grouped(most)} characters when rendered`);
    parts.push(part);
  }
  return parts.join('');
}
