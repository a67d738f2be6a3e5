import { type CsvRecord, readCsv } from './csv.ts';
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

/** The heads of columns, reduced in the same way. */
const addressHeads = new Set([
  ...['address', 'email', 'emailaddress', 'emailadresse', 'mail', 'to', 'toaddress'],
  ...['recipient', 'recipientemail', 'recipientaddress', 'rcpt'],
]);
const reasonHeads = new Set([
  ...['reason', 'type', 'status', 'event', 'category', 'source'],
  ...['suppressiontype', 'suppressionreason'],
]);

/** Only lists of contacts have these, and there some contacts still get mail. */
const unsubscribedHeads = new Set([
  ...['unsubscribed', 'unsubscribedat', 'isunsubscribed', 'optout', 'optedout', 'optouttime'],
]);
const no = new Set(['', '0', 'false', 'no', 'n', 'f', 'null']);

const saysYes = (field = '') => !no.has(field.toLowerCase());

const lettersOf = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');

const hasAt = (field = '') => field.includes('@');

/** Which columns of a file have which meaning, by their index. */
interface Columns {
  /** Several heads can match: in `from,to,email`, the first two may be times. */
  addresses: number[];
  reasons: number[];
  unsubscribed: number[];
}

const noColumns: Columns = { addresses: [], reasons: [], unsubscribed: [] };

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
  const records = readCsv(text.replace(/^\ufeff/, ''));
  const first = records[0]?.fields ?? [];
  const header = first.some(hasAt) ? [] : first;
  const columns = columnsOf(header);
  const entries: SuppressionEntry[] = [];
  let leftOut = 0;
  let subscribed = 0;
  for (const record of header.length > 0 ? records.slice(1) : records) {
    const entry = entryOf(record, header.length, columns);
    if (entry === 'unclear') leftOut += 1;
    else if (entry === 'subscribed') subscribed += 1;
    else entries.push(entry);
  }
  return { entries, leftOut, subscribed };
}

function columnsOf(header: string[]): Columns {
  const heads = header.map(lettersOf);
  const under = (names: Set<string>) => heads.flatMap((head, at) => (names.has(head) ? [at] : []));
  return { addresses: under(addressHeads), reasons: under(reasonHeads), unsubscribed: under(unsubscribedHeads) };
}

/** @param width how many fields the header has; 0 without a header */
function entryOf(
  { line, fields }: CsvRecord,
  width: number,
  columns: Columns,
): SuppressionEntry | 'unclear' | 'subscribed' {
  // A record with more fields than the header has an unquoted separator in a field, so its fields belong to no column.
  const isAligned = fields.length <= width;
  const known = isAligned ? columns : noColumns;
  const address = addressIn(fields, known);
  if (address === undefined) return 'unclear';
  const isContact = columns.unsubscribed.length > 0;
  const hasUnsubscribed = known.unsubscribed.some((at) => saysYes(fields[at]));
  const reason = reasonIn(fields, known, isContact) ?? (hasUnsubscribed ? 'unsubscribe' : undefined);
  if (isContact && reason === undefined) return isAligned ? 'subscribed' : 'unclear';
  return { line, address: withoutApostrophe(address), ...(reason ? { reason } : {}) };
}

/** The one that keeps a spreadsheet from taking the field for a formula. */
const withoutApostrophe = (field: string) => field.replace(/^'(?='*[=+\-@])/, '');

function addressIn(fields: string[], { addresses }: Columns): string | undefined {
  if (addresses.length > 0) return addresses.map((at) => fields[at]).find(hasAt);
  const [one, ...others] = fields.filter(hasAt);
  return others.length === 0 ? one : undefined;
}

function reasonIn(fields: string[], columns: Columns, isContact: boolean): Reason | undefined {
  const hasBoth = columns.addresses.length > 0 && columns.reasons.length > 0;
  const candidates = hasBoth ? fields.filter((_, at) => columns.reasons.includes(at)) : fields;
  return (
    candidates
      .map((field) => reasons.get(lettersOf(field)))
      // In a list of contacts, `manual` says how a contact was added, not why it should get no mail.
      .find((reason) => reason !== undefined && !(isContact && reason === 'manual'))
  );
}
