import { domainToASCII, domainToUnicode } from 'node:url';
import { grouped } from '../../numbers.ts';
import { holdsBidiControl, holdsInvisible, refuseText, trimSpaces } from '../text/characters.ts';

/** One address as a person writes it, parsed. `address` is canonical: local part as given, domain as lower-case A-labels. */
export interface Mailbox {
  name: string | null;
  address: string;
  local: string;
  domain: string;
}

/** What is wrong with an address or a domain, as words that follow its field: `to[0]: the domain needs a dot, as in example.com`. */
export class AddressError extends Error {
  override readonly name = 'AddressError';
}

// An address has at most 254 octets, and a display name this long is a mistake, so nothing longer is even parsed.
const longestText = 1000;
// RFC 5321 section 4.1.2 Atom, with the UTF8-non-ascii of RFC 6531 section 3.3.
const dotAtom = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.\u0080-\u{10ffff}]+$/u;
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
// A last label that the URL parser, and so a later `new URL` or `getaddrinfo`, would read as the end of an IPv4 address.
const numeric = /^(?:[0-9]+|0x[0-9a-f]*)$/;

/**
 * Parses one address: `a@b.c`, `<a@b.c>`, `Name <a@b.c>` or `"Quoted, name" <a@b.c>`; spaces around it are ignored.
 *
 * It is stricter than RFC 5322 and never repairs: quoted local parts, comments, groups, source routes and IP literals are
 * refused, so that the domain checked here is the one that the MX lookup and the RCPT command will use.
 *
 * @throws {AddressError} for anything else
 */
export function parseMailbox(text: string): Mailbox {
  if (text.length > longestText) throw new AddressError(`longer than ${grouped(longestText)} characters`);
  const refused = refuseText(text);
  if (refused) throw new AddressError(refused);
  const trimmed = trimSpaces(text);
  if (!trimmed.endsWith('>')) return { name: null, ...parseAddress(trimmed) };

  const open = trimmed.startsWith('"') ? closingQuote(trimmed) : trimmed.indexOf('<');
  if (open === -1 || trimmed[open] !== '<') throw new AddressError('not an email address');
  return { name: parseName(trimSpaces(trimmed.slice(0, open))), ...parseAddress(trimmed.slice(open + 1, -1)) };
}

/**
 * A domain as lower-case A-labels (IDNA, as `node:url` maps it): the only form to store, compare and look up.
 *
 * @throws {AddressError} when it is not a domain name that mail can go to: one label, an address literal, a trailing dot
 */
export function normalizeDomain(text: string): string {
  if (text === '') throw new AddressError('the domain is missing');
  if (text.length > longestText) throw new AddressError('the domain is longer than 253 characters');
  const refused = refuseText(text);
  if (refused) throw new AddressError(`the domain ${refused}`);
  // Checked before the URL parser sees it, which would decode `%41` and end the host at `/`, `?`, `#` or `:`.
  const [bad] = /(?![A-Za-z0-9.-])[\u0000-\u007f]/.exec(text) ?? [];
  if (bad === ' ') throw new AddressError('the domain contains a space');
  if (bad !== undefined) throw new AddressError(`the domain contains "${bad}", which is not allowed`);
  if (holdsInvisible(text)) throw new AddressError('the domain contains an invisible character');

  const domain = isAscii(text) ? text.toLowerCase() : domainToASCII(text);
  if (domain === '') throw new AddressError('the domain is not valid');
  if (domain.length > 253) throw new AddressError('the domain is longer than 253 characters');
  if (domain.endsWith('.')) throw new AddressError('the domain ends with a dot');
  const labels = domain.split('.');
  for (const each of labels) refuseLabel(each);
  if (labels.length === 1) throw new AddressError('the domain needs a dot, as in example.com');
  if (numeric.test(labels.at(-1) ?? '')) throw new AddressError('the domain is an IP address or ends in a number');
  return domain;
}

/**
 * An address, a domain or part of one in the form that they are stored in: lower case, and a domain as A-labels, for which
 * one in Unicode needs whole labels.
 */
export function partAsStored(part: string): string {
  const at = part.lastIndexOf('@') + 1;
  const domain = part.slice(at);
  // Other ASCII characters would mean something to the URL parser that this function of Node's is.
  const isOfNames = /^(?:[A-Za-z0-9.-]|[^\u0000-\u007f])+$/.test(domain) && !isAscii(domain);
  return part.slice(0, at).toLowerCase() + ((isOfNames ? domainToASCII(domain) : '') || domain.toLowerCase());
}

/** What is wrong with a field that holds only a domain, given the fault that `normalizeDomain` found: the field is the domain. */
export function wordsForDomain(text: string, fault: string): string {
  const [scheme] = /^https?:\/\//i.exec(text) ?? [];
  if (scheme !== undefined) return `must be a domain, without ${scheme.toLowerCase()}`;
  if (text.includes('@')) return 'must be a domain, not an email address';
  return fault.replace(/^the domain /, '');
}

/**
 * The text that `parseMailbox` reads back to the same mailbox: `a@b.c` or `Name <a@b.c>`, with the name in quotes if it
 * needs them. Not yet a header value: nothing is encoded or folded.
 */
export function formatMailbox(mailbox: Mailbox): string {
  if (mailbox.name === null) return mailbox.address;
  const name = /["\\<>()[\],;:@]/.test(mailbox.name) ? quote(mailbox.name) : mailbox.name;
  return `${name} <${mailbox.address}>`;
}

/** True when every character is ASCII. Any server accepts such a local part, without SMTPUTF8. */
export function isAscii(text: string): boolean {
  return /^[\u0000-\u007f]*$/.test(text);
}

/** A quoted-string of RFC 5322 section 3.2.4, for text without control characters. */
export function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}

/** The same address with A-labels: servers with SMTPUTF8 may write a domain in Unicode (RFC 6531 section 3.2). An invalid one is kept. */
export function withALabels(address: string): string {
  const at = address.lastIndexOf('@') + 1;
  try {
    return at === 0 ? address : address.slice(0, at) + normalizeDomain(address.slice(at));
  } catch (error) {
    if (error instanceof AddressError) return address;
    throw error;
  }
}

/** The same address without quotes and backslashes that it does not need (RFC 5321 section 4.1.2). */
export function withoutNeedlessQuotes(address: string): string {
  const [, quoted = '', domain = ''] = /^"((?:[^"\\]|\\.){1,128})"(@.*)$/s.exec(address) ?? [];
  const local = quoted.replaceAll(/\\(.)/gs, '$1');
  return isDotAtom(local) ? `${local}${domain}` : address;
}

function parseAddress(text: string): Omit<Mailbox, 'name'> {
  const at = text.indexOf('@');
  if (at === -1) throw new AddressError('not an email address');
  if (text.indexOf('@', at + 1) !== -1) throw new AddressError('contains more than one @');
  const local = text.slice(0, at);
  refuseLocal(local);
  const domain = normalizeDomain(text.slice(at + 1));
  const address = `${local}@${domain}`;
  if (Buffer.byteLength(address) > 254) throw new AddressError('longer than 254 octets');
  return { address, local, domain };
}

function refuseLocal(local: string): void {
  if (local === '') throw new AddressError('the part before the @ is missing');
  if (local.startsWith('"')) throw new AddressError('quotes in the part before the @ are not supported');
  if (!isDotAtom(local)) throw new AddressError('not an email address');
  if (Buffer.byteLength(local) > 64) throw new AddressError('the part before the @ is longer than 64 octets');
  if (isAscii(local)) return;
  if (holdsInvisible(local) || holdsBidiControl(local)) {
    throw new AddressError('the part before the @ contains an invisible character');
  }
  // One mailbox must have one spelling, or a suppressed address would have a second one. And a server that maps
  // compatibility forms must not find another structure in it: U+FF20 becomes an @, U+2024 a dot.
  if (local !== local.normalize('NFC')) throw new AddressError('the part before the @ is not in Unicode form NFC');
  const nonAscii = local.replaceAll(/[!-~]+/g, '');
  if (/[^A-Za-z0-9\u0080-\u{10ffff}]/u.test(nonAscii.normalize('NFKC'))) {
    throw new AddressError('the part before the @ contains a character that looks like punctuation');
  }
}

function isDotAtom(text: string): boolean {
  return dotAtom.test(text) && !text.startsWith('.') && !text.endsWith('.') && !text.includes('..');
}

function refuseLabel(text: string): void {
  if (text === '') throw new AddressError('the domain has an empty label');
  if (text.length > 63) throw new AddressError('the domain has a label of more than 63 characters');
  if (!label.test(text)) throw new AddressError('the domain has a label that begins or ends with a hyphen');
  if (!text.startsWith('xn--')) return;
  // `domainToASCII` lets any xn-- label pass; `domainToUnicode` returns unchanged those that it cannot decode.
  if (domainToUnicode(text) === text) throw new AddressError('the domain has an xn-- label that is not valid');
}

function parseName(text: string): string | null {
  if (holdsBidiControl(text)) throw new AddressError('the name contains characters that reverse the direction of text');
  if (!text.startsWith('"')) {
    if (/["\\<>()[\],;:@]/.test(text)) throw new AddressError('the name needs quotes: "Name, and more" <a@b.example>');
    return text === '' ? null : text;
  }
  const name = trimSpaces(text.slice(1, -1).replaceAll(/\\(.)/gu, '$1'));
  return name === '' ? null : name;
}

/** The offset of the `<` after a quoted name, or -1 when the quote does not end or is followed by something else. */
function closingQuote(text: string): number {
  for (let i = 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '"') {
      do i++;
      while (text[i] === ' ');
      return text[i] === '<' ? i : -1;
    }
  }
  return -1;
}

/** The form for comparing and looking up addresses: they mean the same mailbox in any case. */
export const comparable = (address: string) => address.toLowerCase();
