import { readSuppressionsCsv, type SuppressionEntry } from '../client/index.ts';
import * as suppressions from '../core/returns/suppressions.ts';
import { ApiError, invalidRequest } from '../errors.ts';
import type { SuppressionReason } from '../generated/prisma/enums.ts';
import { newSuppression } from '../http/routes/suppressions.ts';
import { parse } from '../http/validation.ts';
import { comparable } from '../mail/address.ts';
import { type Command, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { contentOf, textOf } from './given.ts';
import { counted } from './table.ts';
import { accountOf } from './whose.ts';

/** Of one statement. */
const addedAtOnce = 5_000;

export const importSuppressions: Command = {
  summary: 'adds the addresses of a CSV file to the suppression list',
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
    const read = readCsv(await contentOf(given, file));
    const [entries, { leftOut, subscribed }] = [takeEntries(read.entries), read];
    const named = file === '-' ? 'standard input' : file;
    if (entries.length === 0 && subscribed > 0) throw new Misuse(`nobody in ${named} has unsubscribed`);
    if (entries.length === 0) throw new Misuse(`there is no address in ${named}`);
    return withDatabase(env, say, async ({ db }) => {
      const { id: accountId } = await accountOf(db, textOf(given, 'account'));
      for (let at = 0; at < entries.length; at += addedAtOnce) {
        const some = entries.slice(at, at + addedAtOnce);
        const rows = some.map((entry) => ({ ...entry, accountId, emailId: null }));
        await suppressions.addAll(db, rows);
        given.progress(`${at + some.length} of ${entries.length} addresses`);
      }
      const count = new Set(entries.map(({ address }) => comparable(address))).size;
      const without = `${counted(leftOut, 'record', 'records')} with no address, or with several, ${leftOut === 1 ? 'was' : 'were'} skipped.`;
      const still = `${counted(subscribed, 'contact who has', 'contacts who have')} not unsubscribed ${subscribed === 1 ? 'was' : 'were'} not added.`;
      const text = [
        `${counted(count, 'address is', 'addresses are')} on the list.`,
        ...(subscribed > 0 ? [still] : []),
        ...(leftOut > 0 ? [without] : []),
      ];
      return { json: { count, left_out: leftOut, subscribed }, text: text.join(' ') };
    });
  },
};

interface Taken {
  address: string;
  reason: SuppressionReason;
}

/** @throws Misuse where it is no CSV */
function readCsv(text: string): ReturnType<typeof readSuppressionsCsv> {
  try {
    return readSuppressionsCsv(text);
  } catch (error) {
    throw error instanceof SyntaxError ? new Misuse(error.message) : error;
  }
}

/** Of those that are wrong: whoever has more mends them all in the same way. */
const mostNamed = 20;

/** @throws ApiError 400 that names the lines whose addresses are wrong */
function takeEntries(entries: SuppressionEntry[]): Taken[] {
  const wrong: string[] = [];
  const taken = entries.flatMap((entry) => {
    const one = takeEntry(entry);
    if (typeof one !== 'string') return [one];
    wrong.push(one);
    return [];
  });
  if (wrong.length === 0) return taken;
  const rest = wrong.length - mostNamed;
  const more = rest > 0 ? [`and ${counted(rest, 'line', 'lines')} more`] : [];
  throw invalidRequest([...wrong.slice(0, mostNamed), ...more].join('\n'));
}

/** What is wrong with it, where it cannot be taken. */
function takeEntry({ line, address, reason }: SuppressionEntry): Taken | string {
  try {
    const taken = parse(newSuppression, { address, reason });
    return { address: taken.address.address, reason: taken.reason ?? 'manual' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `line ${line}, ${JSON.stringify(address.slice(0, 100))}: ${error.detail ?? error.message}`;
  }
}
