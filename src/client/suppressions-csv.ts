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

const addressHeads = new Set(['address', 'email', 'emailaddress', 'recipient', 'recipientemail', 'mail']);

const lettersOf = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');

interface CsvRecord {
  line: number;
  fields: string[];
}

/** The records of CSV (RFC 4180), be it with commas, semicolons or tabs, and however lines end. */
function recordsOf(text: string): CsvRecord[] {
  const records: CsvRecord[] = [];
  let [line, begin, from, isQuoted] = [1, 1, 0, false];
  let fields: string[] = [];
  const take = (to: number) => {
    const field = text.slice(from, to).trim();
    const isWithin = field.length > 1 && field.startsWith('"') && field.endsWith('"');
    // Within quotes two of them are one that is meant.
    fields.push(isWithin ? field.slice(1, -1).replaceAll('""', '"').trim() : field);
    from = to + 1;
  };
  const end = (to: number) => {
    take(to);
    if (fields.some((field) => field !== '')) records.push({ line: begin, fields });
    fields = [];
  };
  for (let at = 0; at < text.length; at += 1) {
    const here = text[at];
    const isEnd = here === '\n' || (here === '\r' && text[at + 1] !== '\n');
    if (isEnd) line += 1;
    // A quote opens at the beginning of a field, or as the second of two within quotes.
    if (here === '"') isQuoted = !isQuoted && (at === from || (text[from] === '"' && text[at - 1] === '"'));
    else if (here === ' ' && at === from) from += 1;
    else if (isQuoted) continue;
    else if (isEnd) {
      end(at);
      begin = line;
    } else if (here === ',' || here === ';' || here === '\t') take(at);
  }
  end(text.length);
  return records;
}

/**
 * The addresses of a CSV file, such as an export of this service or of another one. Where the first record names the fields,
 * the address is in the one that is called so; else it is the only one with an `@`. The reason is in any of the others.
 * They are as written: the service says whether they are right.
 *
 * @returns leftOut: records of which nobody can say whose address they are for, but for the one that names the fields
 */
export function readSuppressionsCsv(text: string): { entries: SuppressionEntry[]; leftOut: number } {
  const records = recordsOf(text.replace(/^\ufeff/, ''));
  const hasHead = records[0]?.fields.every((field) => !field.includes('@')) ?? false;
  const named = hasHead ? (records[0]?.fields.findIndex((field) => addressHeads.has(lettersOf(field))) ?? -1) : -1;
  const body = hasHead ? records.slice(1) : records;
  const entries = body.flatMap(({ line, fields }): SuppressionEntry[] => {
    const [one, ...others] = fields.filter((field) => field.includes('@'));
    const address = fields[named]?.includes('@') ? fields[named] : others.length === 0 ? one : undefined;
    if (address === undefined) return [];
    const reason = fields.map((field) => reasons.get(lettersOf(field))).find((one) => one !== undefined);
    return [{ line, address, ...(reason ? { reason } : {}) }];
  });
  return { entries, leftOut: body.length - entries.length };
}
