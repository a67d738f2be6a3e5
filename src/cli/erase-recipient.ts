import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import * as accounts from '../core/accounts/accounts.ts';
import { erase } from '../core/privacy/erasing.ts';
import * as erasures from '../core/privacy/erasures.ts';
import { tokenKeys } from '../core/secrets/service-secrets.ts';
import { mailbox } from '../http/input/validation.ts';
import * as present from '../http/present.ts';
import type { Command, Output } from './command.ts';
import { demandEncryptionKey, withDatabase } from './database.ts';
import { isSet, read } from './given.ts';

const tryAgainMs = 500;
/** Nodes finish or give back within this time the mail that they are sending. If no node runs, the next one continues. */
const longestWaitMs = 60_000;

export const eraseRecipient: Command = {
  help: [
    'Usage: sendwright accounts erase-recipient <account> <address> [--remove-suppression]',
    '',
    'Erases the address, and the mail written only to it, from all data of the account, as POST /api/v1/recipients/erase does.',
    'Mail that waits for it is canceled. This cannot be undone. A suppression of the address stays unless you give',
    '--remove-suppression. If a node has such mail in hand, the command waits for up to a minute; after that a node finishes.',
  ].join('\n'),
  operands: ['account', 'address'],
  options: { 'remove-suppression': { type: 'boolean' } },
  async run(env, say, given) {
    const [name = '', text = ''] = given.operands;
    const { address } = read(z.object({ address: mailbox }), { address: text }).address;
    const keepsSuppression = !isSet(given, 'remove-suppression');
    return withDatabase(env, say, async (opened) => {
      const { db, keyring } = opened;
      await demandEncryptionKey(opened);
      const account = await accounts.find(db, name);
      const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
      const { id } = await erasures.ask(db, account.id, { address, keepsSuppression }, keys);
      const onProgress = ({ emails }: erasures.Counts) => given.progress(`${emails} emails`);
      const end = Date.now() + longestWaitMs;
      while (!(await erase(db, { id, accountId: account.id, address }, { onProgress })) && Date.now() < end)
        await sleep(tryAgainMs);
      return outputOf(await erasures.get(db, account.id, id));
    });
  },
};

function outputOf(erasure: Parameters<typeof present.erasure>[0]): Output {
  const receipt = present.erasure(erasure);
  const isDone = receipt.status === 'done';
  const state = isDone
    ? 'Everything has been erased.'
    : 'Some of it is being sent or about to be: a node will finish the erasure.';
  const counts = Object.entries(receipt.counts).map(([kind, count]) => `  ${kind}: ${count}`);
  return {
    json: { erasure: receipt },
    text: [`${state} The receipt is ${receipt.id}, with the hash ${receipt.address_hash}.`, ...counts].join('\n'),
    failed: !isDone,
  };
}
