import type { Suppression } from './types.ts';

type Reason = Suppression['reason'];

/** What one record of a file asks for. */
export interface SuppressionEntry {
  /** Where in the file it begins, from 1. */
  line: number;
  address: string;
  reason?: Reason;
}

/** As this service and others call them, in small letters alone. */
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

/** What lists of contacts have, in which others than those on it are still written to. */
const flagHeads = new Set(['unsubscribed', 'unsubscribedat', 'isunsubscribed', 'optout', 'optedout', 'optouttime']);
const no = new Set(['', '0', 'false', 'no', 'n', 'f', 'null']);

const saysYes = (field = '') => !no.has(field.toLowerCase());

const lettersOf = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');

interface CsvRecord {
  line: number;
  fields: string[];
}

/** Up to what ends a field, for each that may stand between two. */
const fieldUpTo: [separator: string, field: RegExp][] = [
  [',', /[^,\r\n]*/y],
  [';', /[^;\r\n]*/y],
  ['\t', /[^\t\r\n]*/y],
];
const fieldUpToAny = /[^,;\t\r\n]*/y;

/** Fields end where there is what the first line has most of; where it has none, at any of them. */
function fieldOf(text: string): RegExp {
  const [first = ''] = /^[^\r\n]*/.exec(text) ?? [];
  const unquoted = first.replace(/"[^"]*"/g, '');
  const counts = fieldUpTo.map(([separator]) => unquoted.split(separator).length - 1);
  const most = Math.max(...counts);
  return (most > 0 && fieldUpTo[counts.indexOf(most)]?.[1]) || fieldUpToAny;
}

/** Reads the records of CSV (RFC 4180), however its lines end. */
class CsvReader {
  readonly #text: string;
  readonly #plain: RegExp;
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
    this.#plain = fieldOf(text);
  }

  /** @throws SyntaxError that names the line where a quote is opened and not closed */
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

  /** The field that begins here, without the blanks around it; then stands before what ends it. */
  #field(): string {
    while (this.#text[this.#at] === ' ') this.#at += 1;
    const begin = this.#at;
    const quoted = this.#text[begin] === '"' ? this.#quoted() : null;
    const rest = this.#unquoted();
    if (quoted === null) return rest.trim();
    const lines = quoted.split(/\r\n|\r|\n/).length - 1;
    // As in `"Doe, John" <john@example.com>`; over several lines, it is a quote that was meant for itself.
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
    // Two of them are one that is meant.
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
 * The addresses of a CSV file, such as an export of this service or of another one. Where the first record names the fields,
 * the address is in the first that is called so and has an `@`, and the reason in one of a reason; else the address is in the only
 * one with an `@`, and the reason in any of the others. They are as written: the service says whether they are right. Of a list
 * of contacts with a field that says who has unsubscribed, those are taken who have.
 *
 * @returns leftOut: records of which nobody can say whose address they are for, or whether they unsubscribed, but for the one
 *   that names the fields;
 *   subscribed: those of contacts who have not unsubscribed
 * @throws SyntaxError that names the line where a quote is opened and not closed
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
  // `from,to,email` may be a time, a time and an address.
  const named = heads.flatMap((head, at) => (addressHeads.has(head) ? [at] : []));
  const hasReason = heads.some((head) => reasonHeads.has(head));
  const flags = heads.flatMap((head, at) => (flagHeads.has(head) ? [at] : []));
  let subscribed = 0;
  const body = hasHead ? records.slice(1) : records;
  const entries = body.flatMap(({ line, fields }): SuppressionEntry[] => {
    const [one, ...others] = fields.filter((field) => field.includes('@'));
    // A record with more fields than there are names has a separator that is part of one: nobody knows which is which.
    const isAligned = fields.length <= heads.length;
    const isNamed = named.length > 0 && isAligned;
    const only = others.length === 0 ? one : undefined;
    const address = isNamed ? named.map((at) => fields[at]).find((field) => field?.includes('@')) : only;
    if (address === undefined) return [];
    const mayTell = fields.filter((_, at) => !isNamed || !hasReason || reasonHeads.has(heads[at] ?? ''));
    const told = mayTell
      .map((field) => reasons.get(lettersOf(field)))
      // How a contact came onto a list, as by hand, is not why there is to be no mail for it.
      .find((one) => one !== undefined && (flags.length === 0 || one !== 'manual'));
    // Where nobody knows which field is which, nobody knows who has unsubscribed.
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
