import type { Suppression } from '../../client/index.ts';
import { api, Unreadable } from '../api.ts';

const reasons: readonly string[] = ['bounce', 'complaint', 'unsubscribe', 'manual'] satisfies Suppression['reason'][];
const mostAtOnce = 10_000;

/** The fields of a line of CSV (RFC 4180), be it with commas or semicolons; no field of ours has a line end in it. */
function fieldsOf(line: string): string[] {
  const fields = line.match(/("([^"]|"")*"|[^,;]*)([,;]|$)/g) ?? [];
  return fields.map((field) =>
    field
      .replace(/[,;]$/, '')
      .trim()
      .replace(/^"(.*)"$/s, '$1')
      .replaceAll('""', '"'),
  );
}

/** The addresses of a file: the first field that is one, and the reason where another field is one. */
export function readCsv(text: string): { address: string; reason?: Suppression['reason'] }[] {
  return text.split(/\r?\n/).flatMap((line) => {
    const fields = fieldsOf(line);
    const address = fields.find((field) => field.includes('@'));
    const reason = fields.map((field) => field.toLowerCase()).find((field) => reasons.includes(field));
    if (!address) return [];
    return [{ address, ...(reason ? { reason: reason as Suppression['reason'] } : {}) }];
  });
}

/** Puts all addresses of a file on the list. @returns how many */
export async function importCsv(file: File): Promise<number> {
  const entries = readCsv(await file.text());
  if (entries.length === 0) throw new Unreadable('There is no address in this file.');
  let added = 0;
  for (let at = 0; at < entries.length; at += mostAtOnce) {
    added += (await api.suppressions.import({ suppressions: entries.slice(at, at + mostAtOnce) })).count;
  }
  return added;
}
