import type { Suppression } from './types.ts';

const reasons: readonly string[] = ['bounce', 'complaint', 'unsubscribe', 'manual'] satisfies Suppression['reason'][];

/** The fields of a line of CSV (RFC 4180), be it with commas or semicolons; no field of ours has a line end in it. */
function fieldsOf(line: string): string[] {
  const fields = [''];
  let quoted = false;
  for (const character of line) {
    if (character === '"') {
      // Two within quotes are one that is meant.
      quoted = !quoted;
      if (quoted && fields.at(-1) !== '') fields.push(`${fields.pop()}"`);
    } else if (!quoted && (character === ',' || character === ';')) {
      fields.push('');
    } else {
      fields.push(`${fields.pop()}${character}`);
    }
  }
  return fields.map((field) => field.trim());
}

/** What one line of a file asks for. */
export interface SuppressionEntry {
  /** Where in the file it stands, from 1. */
  line: number;
  address: string;
  reason?: Suppression['reason'];
}

/**
 * The addresses of a CSV file, such as an export of this service or of another one: of each line the first field with an `@`,
 * and the reason where another field is one. They are as written: the service says whether they are right.
 *
 * @returns leftOut: lines without an address, but for the one that names the fields
 */
export function readSuppressionsCsv(text: string): { entries: SuppressionEntry[]; leftOut: number } {
  const lines = text.split(/\r\n?|\n/);
  const entries = lines.flatMap((line, index): SuppressionEntry[] => {
    const fields = fieldsOf(line);
    const address = fields.find((field) => field.includes('@'));
    const reason = fields.map((field) => field.toLowerCase()).find((field) => reasons.includes(field));
    if (!address) return [];
    return [{ line: index + 1, address, ...(reason ? { reason: reason as Suppression['reason'] } : {}) }];
  });
  const written = lines.filter((line) => line.trim() !== '');
  // What stands above all others, and is no address, says what each field is.
  const head = written[0]?.includes('@') === false ? 1 : 0;
  return { entries, leftOut: written.length - entries.length - head };
}
