import type { Suppression } from './types.ts';

type Reason = Suppression['reason'];

/** One record of a file. */
export interface SuppressionEntry {
  /** The line of the file where it begins, from 1. */
  line: number;
  address: string;
  reason?: Reason;
}

/** The names of reasons in this service and others, reduced to lower-case letters. */
const reasons = new Map<string, Reason>([
  ...(['bounce', 'complaint', 'unsubscribe', 'manual'] as const).map((reason) => [reason, reason] as const),
  ...['bounced', 'hardbounce', 'hardbounced', 'permanentbounce'].map((name) => [name, 'bounce'] as const),
  ...['complained', 'spam', 'spamcomplaint', 'abuse'].map((name) => [name, 'complaint'] as const),
  ...['unsubscribed', 'optout', 'optedout'].map((name) => [name, 'unsubscribe'] as const),
]);

const addressHeads = new Set([
  ...['address', 'email', 'emailaddress', 'emailadresse', 'mail', 'to', 'toaddress'],
  ...['recipient', 'recipientemail', 'recipientaddress', 'rcpt'],
]);
const reasonHeads = new Set([
  ...['reason', 'type', 'status', 'event', 'category', 'source'],
  ...['suppressiontype', 'suppressionreason'],
]);

/** The heads in lists of contacts, in which some contacts still get mail. */
const flagHeads = new Set(['unsubscribed', 'unsubscribedat', 'isunsubscribed', 'optout', 'optedout', 'optouttime']);
const no = new Set(['', '0', 'false', 'no', 'n', 'f', 'null']);

const saysYes = (field = '') => !no.has(field.toLowerCase());

const lettersOf = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');

interface CsvRecord {
  line: number;
  fields: string[];
}

/** For each possible separator, a field up to it or to the end of the line. */
const fieldUpTo: [separator: string, field: RegExp][] = [
  [',', /[^,\r\n]*/y],
  [';', /[^;\r\n]*/y],
  ['\t', /[^\t\r\n]*/y],
];
const fieldUpToAny = /[^,;\t\r\n]*/y;

/** The separator is the one that the first line has most of; if it has none, any of them separates. */
function fieldOf(text: string): RegExp {
  const [first = ''] = /^[^\r\n]*/.exec(text) ?? [];
  const unquoted = first.replace(/"[^"]*"/g, '');
  const counts = fieldUpTo.map(([separator]) => unquoted.split(separator).length - 1);
  const most = Math.max(...counts);
  return (most > 0 && fieldUpTo[counts.indexOf(most)]?.[1]) || fieldUpToAny;
}

/** Reads the records of CSV (RFC 4180), with any kind of line ends. */
class CsvReader {
  readonly #text: string;
  readonly #plain: RegExp;
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
    this.#plain = fieldOf(text);
  }

  /** @throws SyntaxError that names the line of an unclosed quote */
  records(): CsvRecord[] {
    const records: CsvRecord[] = [];
    while (this.#at < this.#text.length) {
      const record = { line: this.#line, fields: [this.#field()] };
      while (this.#at < this.#text.length && !this.#isLineEnd) {
        this.#at += 1;
        record.fields.push(this.#field());
      }
      this.#at += this.#text.startsWith('\r\n', this.#at) ? 2 : 1;
      this.#line += 1;
      if (record.fields.some((field) => field !== '')) records.push(record);
    }
    return records;
  }

  get #isLineEnd(): boolean {
    return this.#text[this.#at] === '\n' || this.#text[this.#at] === '\r';
  }

  /** Reads the field that begins here, trimmed, up to its separator or line end. */
  #field(): string {
    while (this.#text[this.#at] === ' ') this.#at += 1;
    const begin = this.#at;
    const quoted = this.#text[begin] === '"' ? this.#quoted() : null;
    const rest = this.#unquoted();
    if (quoted === null) return rest.trim();
    const lines = quoted.split(/\r\n|\r|\n/).length - 1;
    // As in `"Doe, John" <john@example.com>`. Over several lines, it was a stray quote.
    if (rest.trim() !== '' && lines > 0) throw this.#unclosed();
    this.#line += lines;
    return rest.trim() === '' ? quoted.trim() : this.#text.slice(begin, this.#at).trim();
  }

  #unquoted(): string {
    this.#plain.lastIndex = this.#at;
    const [text = ''] = this.#plain.exec(this.#text) ?? [];
    this.#at += text.length;
    return text;
  }

  #quoted(): string {
    const begin = this.#at + 1;
    let end = this.#text.indexOf('"', begin);
    // Two quotes are an escaped one.
    while (end !== -1 && this.#text[end + 1] === '"') end = this.#text.indexOf('"', end + 2);
    if (end === -1) throw this.#unclosed();
    this.#at = end + 1;
    return this.#text.slice(begin, end).replaceAll('""', '"');
  }

  #unclosed(): SyntaxError {
    return new SyntaxError(`line ${this.#line}: a quote is opened there, and not closed`);
  }
}

/**
 * Reads the addresses in a CSV file, such as an export of this service or of another one. If the first record is a header, the
 * address is the first field under an address head that has an `@`, and the reason is in a field under a reason head. Without such
 * heads, the address is the only field with an `@`, and the reason is in any other field. Addresses are not validated: the
 * service does that. From a list of contacts with a field for unsubscribing, only unsubscribed contacts are taken.
 *
 * @returns leftOut: records, except the header, whose address or subscription cannot be determined;
 *   subscribed: contacts who have not unsubscribed
 * @throws SyntaxError that names the line of an unclosed quote
 */
export function readSuppressionsCsv(text: string): {
  entries: SuppressionEntry[];
  leftOut: number;
  subscribed: number;
} {
  const records = new CsvReader(text.replace(/^\ufeff/, '')).records();
  const first = records[0]?.fields ?? [];
  const hasHead = first.every((field) => !field.includes('@'));
  const heads = hasHead ? first.map(lettersOf) : [];
  // Several heads can match: in `from,to,email`, the first two may be times.
  const named = heads.flatMap((head, at) => (addressHeads.has(head) ? [at] : []));
  const hasReason = heads.some((head) => reasonHeads.has(head));
  const flags = heads.flatMap((head, at) => (flagHeads.has(head) ? [at] : []));
  let subscribed = 0;
  const body = hasHead ? records.slice(1) : records;
  const entries = body.flatMap(({ line, fields }): SuppressionEntry[] => {
    const [one, ...others] = fields.filter((field) => field.includes('@'));
    // A record with more fields than the header has an unquoted separator in a field, so its fields cannot be assigned.
    const isAligned = fields.length <= heads.length;
    const isNamed = named.length > 0 && isAligned;
    const only = others.length === 0 ? one : undefined;
    const address = isNamed ? named.map((at) => fields[at]).find((field) => field?.includes('@')) : only;
    if (address === undefined) return [];
    const mayTell = fields.filter((_, at) => !isNamed || !hasReason || reasonHeads.has(heads[at] ?? ''));
    const told = mayTell
      .map((field) => reasons.get(lettersOf(field)))
      // In a list of contacts, `manual` says how a contact was added, not why it should get no mail.
      .find((one) => one !== undefined && (flags.length === 0 || one !== 'manual'));
    // Null: the fields cannot be assigned to heads, or there is no such head.
    const says = isAligned && flags.length > 0 ? flags.some((at) => saysYes(fields[at])) : null;
    if (flags.length > 0 && says === null && !told) return [];
    const reason = told ?? (says ? 'unsubscribe' : undefined);
    if (says === false && !reason) {
      subscribed += 1;
      return [];
    }
    return [{ line, address, ...(reason ? { reason } : {}) }];
  });
  return { entries, leftOut: body.length - entries.length - subscribed, subscribed };
}
