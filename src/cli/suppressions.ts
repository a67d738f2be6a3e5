import { readSuppressionsCsv, type SuppressionEntry } from '../client/index.ts';
import * as suppressions from '../core/returns/suppressions.ts';
import { ApiError, invalidRequest } from '../errors.ts';
import type { SuppressionReason } from '../generated/prisma/enums.ts';
import { parse } from '../http/input/validation.ts';
import { newSuppression } from '../http/routes/suppressions.ts';
import { comparable } from '../mail/address/address.ts';
import { type Command, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { contentOf, textOf } from './given.ts';
import { counted } from './table.ts';
import { accountOf } from './whose.ts';

/** By one statement. */
const addedAtOnce = 5_000;

/** Of the lines with an invalid address: people correct all of them in the same way. */
const mostNamed = 20;

export const importSuppressions: Command = {
  help: [
    'Usage: sendwright suppressions import <file> [--account <account>]',
    '',
    '  --account <account>  its id, or the email address of one of its users; the default is that of the first admin',
    '',
    'The file (- reads standard input) is CSV in UTF-8, at most 40 MB, with one address in each record: in the column that the',
    'first record names email, address or recipient, or else in the only field with an @. An export from here or from another',
    'service works. A field such as bounce, complaint, unsubscribe or manual is the reason; the default is manual. If a list of',
    'contacts has a column named unsubscribed, only the contacts who have unsubscribed are imported, with the reason unsubscribe.',
    'If an address is invalid, nothing is imported. Records with no address, or with several, are skipped and counted. An import',
    'that is interrupted, as by Ctrl-C, has added some of the addresses; you can import the same file again.',
  ].join('\n'),
  operands: ['file'],
  options: { account: { type: 'string' } },
  async run(env, say, given) {
    const [file = ''] = given.operands;
    const { entries, leftOut, subscribed } = readFile(await contentOf(given, file));
    const parsed = parseEntries(entries);
    const named = file === '-' ? 'standard input' : file;
    if (parsed.length === 0 && subscribed > 0) throw new Misuse(`nobody in ${named} has unsubscribed`);
    if (parsed.length === 0) throw new Misuse(`there is no address in ${named}`);
    return withDatabase(env, say, async ({ db }) => {
      const { id: accountId } = await accountOf(db, textOf(given, 'account'));
      for (let at = 0; at < parsed.length; at += addedAtOnce) {
        const slice = parsed.slice(at, at + addedAtOnce);
        await suppressions.addImported(db, accountId, slice, at, parsed.length);
        given.progress(`${at + slice.length} of ${parsed.length} addresses`);
      }
      const count = new Set(parsed.map(({ address }) => comparable(address))).size;
      return { json: { count, left_out: leftOut, subscribed }, text: summary(count, leftOut, subscribed) };
    });
  },
};

function summary(count: number, leftOut: number, subscribed: number): string {
  const were = (number: number) => (number === 1 ? 'was' : 'were');
  const sentences = [`${counted(count, 'address is', 'addresses are')} on the list.`];
  if (subscribed > 0)
    sentences.push(
      `${counted(subscribed, 'contact who has', 'contacts who have')} not unsubscribed ${were(subscribed)} not added.`,
    );
  if (leftOut > 0)
    sentences.push(
      `${counted(leftOut, 'record', 'records')} with no address, or with several, ${were(leftOut)} skipped.`,
    );
  return sentences.join(' ');
}

interface ParsedEntry {
  address: string;
  reason: SuppressionReason;
}

/** @throws Misuse if the text is not CSV */
function readFile(text: string): ReturnType<typeof readSuppressionsCsv> {
  try {
    return readSuppressionsCsv(text);
  } catch (error) {
    throw error instanceof SyntaxError ? new Misuse(error.message) : error;
  }
}

/** @throws ApiError 400 that names the lines with an invalid address */
function parseEntries(entries: SuppressionEntry[]): ParsedEntry[] {
  const faults: string[] = [];
  const parsed = entries.flatMap((entry) => {
    const result = parseEntry(entry);
    if (typeof result !== 'string') return [result];
    faults.push(result);
    return [];
  });
  if (faults.length === 0) return parsed;
  const unnamed = faults.length - mostNamed;
  const more = unnamed > 0 ? [`and ${counted(unnamed, 'line', 'lines')} more`] : [];
  throw invalidRequest([...faults.slice(0, mostNamed), ...more].join('\n'));
}

/** @returns the fault if the entry is invalid */
function parseEntry({ line, address, reason }: SuppressionEntry): ParsedEntry | string {
  try {
    const parsed = parse(newSuppression, { address, reason });
    return { address: parsed.address.address, reason: parsed.reason ?? 'manual' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `line ${line}, ${JSON.stringify(address.slice(0, 100))}: ${error.detail ?? error.message}`;
  }
}
