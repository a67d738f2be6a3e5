import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as accounts from '../core/accounts/accounts.ts';
import { accountLines } from '../http/account-lines.ts';
import { type Command, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { isSet, textOf } from './given.ts';

/** The machine may have other users. */
const ownerOnly = 0o600;
const progressEveryLines = 500;

export const exportAccount: Command = {
  help: [
    'Usage: sendwright accounts export <account> [--out <file>] [--without-attachments] [--without-webhook-deliveries]',
    '',
    'Writes what GET /api/v1/account/export answers, to standard output or to a new file that only its owner can read. The last',
    'line has the type "end": if it is missing, the export is incomplete. The export contains no secrets.',
    '',
    '  --without-attachments         leaves out the bytes of files',
    '  --without-webhook-deliveries  leaves out the calls to webhooks, which are most of an export',
  ].join('\n'),
  operands: ['account'],
  options: {
    out: { type: 'string' },
    'without-attachments': { type: 'boolean' },
    'without-webhook-deliveries': { type: 'boolean' },
  },
  async run(env, say, given) {
    const named = textOf(given, 'out');
    if (named === '') throw new Misuse('--out must be a file');
    const out = named === undefined ? undefined : resolve(given.folder, named);
    if (out !== undefined && existsSync(out)) throw new Misuse(`--out: ${out} already exists`);
    return withDatabase(env, say, async ({ db }) => {
      const account = await accounts.find(db, given.operands[0] ?? '');
      const parts = {
        files: !isSet(given, 'without-attachments'),
        deliveries: !isSet(given, 'without-webhook-deliveries'),
      };
      const written = { lines: 0, bytes: 0 };
      const lines = async function* () {
        for await (const line of accountLines(db, account, parts)) {
          written.lines += 1;
          written.bytes += Buffer.byteLength(line);
          if (written.lines % progressEveryLines === 0)
            given.progress(`${written.lines} lines, ${(written.bytes / 1e6).toFixed(1)} MB`);
          yield line;
        }
      };
      if (out === undefined) {
        await pipeline(lines, process.stdout as Writable, { end: false }).catch(ignoreOutputErrors);
        return null;
      }
      await writeWhole(out, lines);
      return {
        json: { file: out, ...written },
        text: `Wrote ${written.lines} lines, ${written.bytes} bytes, to ${out}.`,
      };
    });
  },
};

/** Errors of a disk, which a connection to the database never has. */
const diskErrors = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO'];

/**
 * Writes the whole file, or leaves none.
 *
 * @throws Misuse if it cannot be written
 */
async function writeWhole(out: string, lines: () => AsyncGenerator<string>): Promise<void> {
  const part = `${out}.part`;
  const refused = (error: Error) => new Misuse(`--out: cannot write ${part} (${error.message})`);
  // A file that is already there may be readable by others, or be a link.
  const file = await rm(part, { force: true })
    .then(() => open(part, 'wx', ownerOnly))
    .catch((error: Error) => {
      throw refused(error);
    });
  try {
    await pipeline(lines, file.createWriteStream());
    await rename(part, out);
  } catch (error) {
    await rm(part, { force: true });
    throw diskErrors.includes((error as NodeJS.ErrnoException).code ?? '') ? refused(error as Error) : error;
  }
}

/** The reader has had enough, or the disk is full, which cli.ts reports. */
function ignoreOutputErrors(error: NodeJS.ErrnoException): void {
  if (!['EPIPE', ...diskErrors].includes(error.code ?? '')) throw error;
}
