import * as keys from '../core/accounts/keys.ts';
import { stopMatching } from '../core/orders/stopping-matching.ts';
import { stoppedByOperator } from '../core/recipients/settlement.ts';
import type { Database } from '../db/client.ts';
import { ApiError, notFound } from '../errors.ts';
import { parseWanted } from '../http/input/email-search.ts';
import * as present from '../http/present.ts';
import { stopRequest } from '../http/routes/destinations.ts';
import type { Queue } from '../queue.ts';
import { type Command, type Given, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { linesOnLeftAlone, untilNoneRests } from './give-up.ts';
import { type OptionOf, read, readBy, textOf } from './given.ts';
import { counted } from './table.ts';
import { accountOf } from './whose.ts';

/** How long one look at what waits lasts: nobody's call times out here, and each one reads again what it leaves alone. */
const lookMs = 60_000;

/** Options, and the fields of the API's call that they are. */
const searches = {
  tag: 'tag',
  from: 'from',
  to: 'to',
  domain: 'domain',
  type: 'type',
  subject: 'q',
  'created-after': 'created_after',
  'created-before': 'created_before',
} as const;

const optionOf: OptionOf = Object.fromEntries(Object.entries(searches).map(([option, field]) => [field, option]));

export const stopEmails: Command = {
  help: [
    'Usage: sendwright emails stop [--account <account>] <which emails> [--reason <words>]',
    '',
    'Recipients that wait in the queue or for another attempt fail for good, and scheduled emails are canceled. This cannot be',
    'undone. Mail goes out meanwhile: sendwright hold keeps all of it, until sendwright release --waiting send.',
    '',
    '  --account <account>       its id, or the email address of one of its users; the default is that of the first admin',
    '  --key <key>               only what this API key sent, of its account: the id that keys list shows, or the key itself',
    '  --tag <tag>               only emails with this tag',
    '  --from <address>          only emails from this address',
    '  --to <address>            only emails to this address; @example.com for every address there',
    '  --domain <domain>         only emails from this sender domain',
    '  --type <type>             only transactional or marketing ones',
    '  --subject <words>         only emails whose subject has all of these words',
    '  --created-after <time>    only emails accepted at this time or later, such as 2027-12-31T00:00:00Z',
    '  --created-before <time>   only emails accepted before this time',
    '  --reason <words>          for the owner, who sees it in the log of each email',
    '',
    'At least one that says which emails is required; an email must match all that are given. Recipients that are being sent to',
    'or about to be, or are held, are left alone, and so is mail that is accepted later.',
  ].join('\n'),
  options: {
    account: { type: 'string' },
    key: { type: 'string' },
    ...Object.fromEntries(Object.keys(searches).map((name) => [name, { type: 'string' }])),
    reason: { type: 'string' },
  },
  async run(env, say, given) {
    const { reason = null } = read(stopRequest, { reason: textOf(given, 'reason') });
    return withDatabase(env, say, async ({ db, url, joined }) => {
      const { accountId, keyId } = await ownerOf(db, given);
      const fields = asked(given, keyId);
      if (Object.keys(fields).length === 0)
        throw new Misuse(
          `say which emails: --key, ${Object.keys(searches)
            .map((name) => `--${name}`)
            .join(', ')}`,
        );
      const wanted = readBy(parseWanted, fields, optionOf);
      const done = { stopped: 0, canceled: 0 };
      const inWords = () =>
        `${counted(done.stopped, 'recipient', 'recipients')} given up, ${counted(done.canceled, 'scheduled email', 'scheduled emails')} canceled`;
      const stopping = {
        ms: lookMs,
        onStopped: (some: number) => {
          done.stopped += some;
          given.progress(inWords());
        },
        onCanceled: (some: number) => {
          done.canceled += some;
          given.progress(inWords());
        },
      };
      given.progress('reading what waits');
      const call = (queue: Queue) => stopMatching(db, queue, accountId, wanted, stoppedByOperator(reason), stopping);
      const soFar = () => (done.stopped + done.canceled > 0 ? inWords() : null);
      const result = await untilNoneRests({ url, joined, say, soFar }, call);
      const text = [`${inWords()}.`, ...linesOnLeftAlone(result)].join('\n');
      return { json: present.stopped({ ...result, ...done }), text };
    });
  },
};

/** The account whose emails are meant; a key belongs to one. */
async function ownerOf(db: Database, given: Given): Promise<{ accountId: string; keyId: string | undefined }> {
  const [account, named] = [textOf(given, 'account'), textOf(given, 'key')];
  const key = named === undefined ? undefined : await keys.findNamed(db, named).catch(asUnknownKey);
  if (key && account === undefined) return { accountId: key.accountId, keyId: key.id };
  const { id: accountId } = await accountOf(db, account);
  if (key && key.accountId !== accountId)
    throw new Misuse('--key is one of another account: leave out --account, which the key says');
  return { accountId, keyId: key?.id };
}

/** Which of the options it was that named nothing. Its value is not shown, as it may be a key. */
function asUnknownKey(error: unknown): never {
  if (!(error instanceof ApiError)) throw error;
  throw notFound('key: there is none with this id, and none that reads so');
}

/** The body of the API's call. */
const asked = (given: Given, keyId: string | undefined): Record<string, string> =>
  Object.fromEntries(
    [
      ['api_key_id', keyId],
      ...Object.entries(searches).map(([option, field]) => [field, textOf(given, option)]),
    ].filter(([, value]) => value !== undefined),
  );
