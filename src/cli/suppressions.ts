import * as suppressions from '../core/suppressions.ts';
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
  summary: 'puts the addresses of a CSV file on the suppression list',
  help: [
    'Usage: sendwright suppressions import <file> [--account <account>]',
    '',
    '  --account <account>  its id, or the email address of one of its users; without it that of the first admin',
    '',
    'The file, or the standard input for -, has an address on each line, 40 MB at the most; it may be what was exported here or',
    'elsewhere. Of each line the first field with an @ in it counts, and a field that is bounce, complaint, unsubscribe or manual;',
    'without one it is manual. Where an address is wrong nothing of the file is taken.',
  ].join('\n'),
  operands: ['file'],
  options: { account: { type: 'string' } },
  async run(env, say, given) {
    const [file = ''] = given.operands;
    const { entries, leftOut } = readCsv(await contentOf(given, file));
    if (entries.length === 0) throw new Misuse(`there is no address in ${file === '-' ? 'the standard input' : file}`);
    return withDatabase(env, say, async ({ db }) => {
      const { id: accountId } = await accountOf(db, textOf(given, 'account'));
      for (let at = 0; at < entries.length; at += addedAtOnce) {
        const some = entries.slice(at, at + addedAtOnce);
        const rows = some.map((entry) => ({ ...entry, accountId, emailId: null }));
        await suppressions.addAll(db, rows);
        given.progress(`${at + some.length} of ${entries.length} addresses`);
      }
      const count = new Set(entries.map(({ address }) => comparable(address))).size;
      const without = `${counted(leftOut, 'line has', 'lines have')} no address and ${leftOut === 1 ? 'was' : 'were'} left out.`;
      return {
        json: { count, left_out: leftOut },
        text: `${counted(count, 'address is', 'addresses are')} on the list.${leftOut > 0 ? ` ${without}` : ''}`,
      };
    });
  },
};

interface Entry {
  address: string;
  reason: SuppressionReason;
}

/** @throws ApiError 400 that names the first line whose address is wrong */
function readCsv(text: string): { entries: Entry[]; leftOut: number } {
  const entries: Entry[] = [];
  let [number, written, heads] = [0, 0, 0];
  for (const line of text.split(/\r\n?|\n/)) {
    number += 1;
    if (line.trim() === '') continue;
    written += 1;
    const fields = fieldsOf(line);
    const address = fields.find((field) => field.includes('@'));
    if (address !== undefined) entries.push(entryOf(address, fields, number));
    // What stands above all others, and is no address, says what each field is.
    else if (written === 1) heads = 1;
  }
  return { entries, leftOut: written - entries.length - heads };
}

const reasons: readonly string[] = ['bounce', 'complaint', 'unsubscribe', 'manual'] satisfies SuppressionReason[];

function entryOf(address: string, fields: string[], line: number): Entry {
  const reason = fields.map((field) => field.toLowerCase()).find((field) => reasons.includes(field));
  try {
    const taken = parse(newSuppression, { address, reason });
    return { address: taken.address.address, reason: taken.reason ?? 'manual' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw invalidRequest(`line ${line}, ${JSON.stringify(address.slice(0, 100))}: ${error.detail ?? error.message}`);
  }
}

/** The fields of a line of CSV (RFC 4180), be it with commas or semicolons; no field of ours has a line end in it. */
function fieldsOf(line: string): string[] {
  const quotedOrBare = /\s*(?:"((?:[^"]|"")*)"\s*(?=[,;]|$)|([^,;]*))(?:[,;]|$)/gy;
  const fields: string[] = [];
  for (const [, quoted, bare = ''] of line.matchAll(quotedOrBare))
    fields.push((quoted === undefined ? bare : quoted.replaceAll('""', '"')).trim());
  return fields;
}
