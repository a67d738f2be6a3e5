import { readSuppressionsCsv, type SuppressionEntry } from '../../../client/index.ts';
import { api, CannotBeDone, refusalOf } from '../../data/api.ts';
import { count, plural } from '../../words/format.ts';

/** How many entries one call takes. */
const mostAtOnce = 10_000;

/** The result of importing a file. */
export interface Imported {
  added: number;
  /** Records with no address, or several. */
  leftOut: number;
  /** Contacts who have not unsubscribed. */
  subscribed: number;
}

/** Puts all addresses of a file on the list. */
export async function importCsv(file: File): Promise<Imported> {
  const { entries, leftOut, subscribed } = readCsv(await file.text());
  if (entries.length === 0 && subscribed > 0)
    throw new CannotBeDone('Nobody in this file has unsubscribed, so nothing was imported.');
  if (entries.length === 0) throw new CannotBeDone('There is no address in this file.');
  let added = 0;
  for (let at = 0; at < entries.length; at += mostAtOnce) {
    const some = entries.slice(at, at + mostAtOnce);
    const suppressions = some.map(({ line: _, ...entry }) => entry);
    try {
      added += (await api.suppressions.import({ suppressions })).count;
    } catch (error) {
      throw inFile(error, some, added);
    }
  }
  return { added, leftOut, subscribed };
}

function readCsv(text: string): ReturnType<typeof readSuppressionsCsv> {
  try {
    return readSuppressionsCsv(text);
  } catch (error) {
    throw error instanceof SyntaxError
      ? new CannotBeDone(`Nothing in the file was imported: ${error.message}.`)
      : error;
  }
}

/** Rewrites a refusal to name the line of the file that it is about. */
function inFile(error: unknown, entries: SuppressionEntry[], added: number): unknown {
  const { field = '', words } = refusalOf(error) ?? {};
  const entry = entries[Number(/^suppressions\[(\d+)\]/.exec(field)?.[1] ?? Number.NaN)];
  if (!entry) return error;
  const rest =
    added === 0 ? 'Nothing in the file was imported.' : `${count(added)} of the lines before it were imported.`;
  return new CannotBeDone(`Line ${entry.line}, “${entry.address}”: ${words}. ${rest}`);
}

/** The result in words for the user. */
export function wordsFor({ added, leftOut, subscribed }: Imported): string {
  const words = [
    `${plural(added, 'address is', 'addresses are')} on the list.`,
    ...(subscribed > 0
      ? [
          `${plural(subscribed, 'contact who has not unsubscribed was', 'contacts who have not unsubscribed were')} not added.`,
        ]
      : []),
    ...(leftOut > 0 ? [`${plural(leftOut, 'record')} with no address, or several, skipped.`] : []),
  ];
  return words.join(' ');
}
