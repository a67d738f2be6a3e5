import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import * as accounts from '../core/accounts/accounts.ts';
import { erase } from '../core/privacy/erasing.ts';
import * as erasures from '../core/privacy/erasures.ts';
import { admit } from '../core/secrets/encryption-key.ts';
import { tokenKeys } from '../core/secrets/service-secrets.ts';
import { keyRefusals } from '../database.ts';
import { accountLines } from '../http/account-lines.ts';
import * as present from '../http/present.ts';
import { mailbox } from '../http/validation.ts';
import { StartError } from '../start-error.ts';
import { type Command, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { isSet, read, textOf } from './given.ts';

/** Whoever reads the export has other users on the machine. */
const ownersOnly = 0o600;
const toldEveryLines = 500;

export const exportAccount: Command = {
  summary: 'exports all data of an account, as lines of JSON',
  help: [
    'Usage: sendwright accounts export <account> [--out <file>] [--without-attachments]',
    '',
    'Writes what GET /api/v1/account/export answers, to standard output or to a new file that only its owner can read. The last',
    'line has the type "end": if it is missing, the export is incomplete. The export contains no secrets.',
  ].join('\n'),
  operands: ['account'],
  options: { out: { type: 'string' }, 'without-attachments': { type: 'boolean' } },
  async run(env, say, given) {
    const named = textOf(given, 'out');
    if (named === '') throw new Misuse('--out must be a file');
    const out = named === undefined ? undefined : resolve(given.folder, named);
    if (out !== undefined && existsSync(out)) throw new Misuse(`--out: ${out} already exists`);
    return withDatabase(env, say, async ({ db }) => {
      const account = await accounts.find(db, given.operands[0] ?? '');
      const written = { lines: 0, bytes: 0 };
      const counted = async function* () {
        for await (const line of accountLines(db, account, { files: !isSet(given, 'without-attachments') })) {
          written.lines += 1;
          written.bytes += Buffer.byteLength(line);
          if (written.lines % toldEveryLines === 0)
            given.progress(`${written.lines} lines, ${(written.bytes / 1e6).toFixed(1)} MB`);
          yield line;
        }
      };
      if (out === undefined) {
        await pipeline(counted, process.stdout as Writable, { end: false }).catch(ignoreClosed);
        return null;
      }
      await writeWhole(out, counted);
      return {
        json: { file: out, ...written },
        text: `Wrote ${written.lines} lines, ${written.bytes} bytes, to ${out}.`,
      };
    });
  },
};

/** What a disk refuses, and no connection to the database. */
const diskErrors = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO'];

/**
 * Whoever finds the file finds all of it.
 *
 * @throws Misuse where it cannot be written; whatever it ends with, nothing is left half written
 */
async function writeWhole(out: string, lines: () => AsyncGenerator<string>): Promise<void> {
  const part = `${out}.part`;
  const refused = (error: Error) => new Misuse(`--out: cannot write ${part} (${error.message})`);
  // One that is there may be open to others, or lead elsewhere.
  const file = await rm(part, { force: true })
    .then(() => open(part, 'wx', ownersOnly))
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

/** Whoever reads it has had enough, or the disk is full, which cli.ts says of the standard output. */
function ignoreClosed(error: NodeJS.ErrnoException): void {
  if (!['EPIPE', ...diskErrors].includes(error.code ?? '')) throw error;
}

const askAgainMs = 500;
/** What a node holds is given back or ends within this time; without a node it is one that runs later who goes on. */
const waitedForMs = 60_000;

export const eraseRecipient: Command = {
  summary: "erases what is stored about one recipient of an account's mail",
  help: [
    'Usage: sendwright accounts erase-recipient <account> <address> [--remove-suppression]',
    '',
    'Erases the address, and the mail written only to it, from all data of the account, as POST /api/v1/recipients/erase does.',
    'Mail that waits for it is canceled. This cannot be undone. A suppression of the address stays unless you give',
    '--remove-suppression. If mail is being sent right now, the command waits for up to a minute; after that a node finishes.',
  ].join('\n'),
  operands: ['account', 'address'],
  options: { 'remove-suppression': { type: 'boolean' } },
  async run(env, say, given) {
    const [name = '', text = ''] = given.operands;
    const { address } = read(z.object({ address: mailbox }), { address: text }).address;
    const keepsSuppression = !isSet(given, 'remove-suppression');
    return withDatabase(env, say, async ({ db, keyring }) => {
      const admission = await db.transaction((tx) => admit(tx, keyring));
      if (admission !== 'admitted') throw new StartError(keyRefusals[admission]);
      const account = await accounts.find(db, name);
      const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
      const { id } = await erasures.ask(db, account.id, { address, keepsSuppression }, keys);
      const onProgress = ({ emails }: erasures.Counts) => given.progress(`${emails} emails`);
      const end = Date.now() + waitedForMs;
      while (!(await erase(db, { id, accountId: account.id, address }, { onProgress })) && Date.now() < end)
        await sleep(askAgainMs);
      const receipt = present.erasure(await erasures.get(db, account.id, id));
      const counts = Object.entries(receipt.counts).map(([kind, count]) => `  ${kind}: ${count}`);
      const state =
        receipt.status === 'done'
          ? 'Everything has been erased.'
          : 'Some of it is being sent right now: a node finishes the erasure.';
      return {
        json: { erasure: receipt },
        text: [`${state} The receipt is ${id}, with the hash ${receipt.address_hash}.`, ...counts].join('\n'),
        failed: receipt.status !== 'done',
      };
    });
  },
};
