import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../core/accounts/send-limits.ts';
import { answerAll } from '../core/emails/emails.ts';
import * as log from '../core/log/email-log.ts';
import * as hold from '../core/operations/hold.ts';
import { anyDelivers } from '../core/recipients/nodes.ts';
import type { Database } from '../db/client.ts';
import { forbidden } from '../errors.ts';
import type { Email } from '../generated/prisma/client.ts';
import * as present from '../http/present.ts';
import { sendRequest } from '../http/send-request.ts';
import { silentLog } from '../log.ts';
import { createQueue } from '../queue.ts';
import { type Command, type Given, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { contentOf, isSet, listOf, read, textOf } from './given.ts';
import { accountOf } from './whose.ts';

const waitMs = 60_000;
const lookEveryMs = 500;

/** At every how many looks it is asked whether there is anything to wait for: what is under way at a hold has time to end. */
const askEvery = 10;

const names = ['from', 'subject', 'html', 'text', 'type'];
const lists = ['to', 'cc', 'bcc', 'tag'];
const fieldNames = [...names, ...lists, 'scheduled-at'];

export const send: Command = {
  summary: 'accepts an email, which a running node delivers',
  help: [
    'Usage: sendwright send --from <address> --to <address> --subject <text> --text <text> [options]',
    '       sendwright send --file <file> [options]',
    '',
    'Accepts an email as POST /api/v1/emails does, with quota, suppressions and webhooks. A running node delivers it.',
    '',
    '  --to, --cc, --bcc <address>  may be given more than once',
    '  --text, --html <text>        the body; - reads it from standard input',
    '  --tag <tag>                  may be given more than once',
    '  --type <type>                transactional, or marketing',
    '  --scheduled-at <time>        when to send it, such as 2027-01-31T09:00:00Z',
    '  --file <file>                JSON with the fields of the API, including attachments; - reads standard input. It replaces',
    '                               all options above, and cannot be combined with them',
    '  --account <account>          the account that sends: its id, or the email address of one of its users; the default is',
    '                               that of the first admin',
    '  --idempotency-key <key>      accepts the same email once within 24 hours, however often you run this',
    '  --wait                       waits until the email is settled, for at most a minute; it does not wait if no node delivers',
    '                               or the service is on hold. The exit code is 1 if the email was not sent',
  ].join('\n'),
  options: {
    ...Object.fromEntries(
      [...names, 'scheduled-at', 'file', 'account', 'idempotency-key'].map(
        (name) => [name, { type: 'string' }] as const,
      ),
    ),
    ...Object.fromEntries(lists.map((name) => [name, { type: 'string', multiple: true }] as const)),
    wait: { type: 'boolean' },
  },
  async run(env, say, given) {
    const input = await inputOf(given);
    const request = read(sendRequest, input);
    const key = textOf(given, 'idempotency-key');
    if (key !== undefined && (key.length === 0 || key.length > limits.idempotencyKey))
      throw new Misuse(`--idempotency-key must have 1 to ${limits.idempotencyKey} characters`);
    const fingerprint = createHash('sha256')
      .update(`sendwright send ${JSON.stringify(input)}`)
      .digest();
    return withDatabase(env, say, async ({ db, url }) => {
      const account = await accountOf(db, textOf(given, 'account'));
      if (account.suspendedAt) throw forbidden('the account is suspended');
      const queue = createQueue(url, silentLog);
      await queue.start();
      try {
        const holder = { accountId: account.id, keyId: null, plan: account.plan, domains: [] };
        const [answer] = await answerAll(db, queue, holder, [
          {
            requests: [request],
            idempotency: key === undefined ? null : { key, fingerprint },
            respond: ([accepted]) => {
              if (!accepted || 'refusal' in accepted) throw accepted?.refusal;
              return { id: accepted.email.id };
            },
          },
        ]);
        if (!answer || 'error' in answer) throw answer?.error;
        const { id } = answer.response as { id: string };
        const accepted = await emailOf(db, account.id, id);
        const began = Date.now();
        const why = isOpen(accepted) ? await whyHeld(db) : null;
        const waits = isSet(given, 'wait') && why === null;
        const { email, held } = waits ? await settled(db, account.id, id, given) : { email: accepted, held: why };
        if (held) say(held);
        const late = waits && isOpen(email) ? `, after ${Math.round((Date.now() - began) / 1_000)} s` : '';
        return {
          json: { email: present.email(email) },
          text: `${email.id} is ${email.status}${late}${email.error ? `: ${email.error}` : ''}`,
          failed: email.status === 'failed' || email.status === 'suppressed' || isLate(email, given),
        };
      } finally {
        await queue.stop();
      }
    });
  },
};

/** The fields of the API, as they were given. */
async function inputOf(given: Given): Promise<unknown> {
  const file = textOf(given, 'file');
  if (file !== undefined) {
    const beside = fieldNames.filter((name) => given.options[name] !== undefined).map((name) => `--${name}`);
    if (beside.length > 0) throw new Misuse(`${beside.join(', ')}: cannot be combined with --file`);
    try {
      return JSON.parse(await contentOf(given, file));
    } catch (error) {
      if (error instanceof SyntaxError) throw new Misuse(`--file is not JSON (${error.message})`);
      throw error;
    }
  }
  const fields = names.map((name) => [name, textOf(given, name)] as const);
  if (fields.filter(([, value]) => value === '-').length > 1)
    throw new Misuse('only one of --text and --html can be read from standard input');
  const bodies = await Promise.all(
    fields.map(async ([name, value]) => [
      name,
      value === '-' && (name === 'text' || name === 'html') ? await contentOf(given, '-') : value,
    ]),
  );
  const recipients = ['to', 'cc', 'bcc'].map((name) => [name, given.options[name] ?? []]);
  return {
    ...Object.fromEntries(bodies.filter(([, value]) => value !== undefined)),
    ...Object.fromEntries(recipients),
    tags: listOf(given, 'tag'),
    scheduled_at: textOf(given, 'scheduled-at'),
  };
}

const isOpen = ({ status, scheduledAt }: Email) =>
  status === 'queued' && (scheduledAt === null || scheduledAt.getTime() <= Date.now());

const isLate = (email: Email, given: Given) => isSet(given, 'wait') && isOpen(email);

const emailOf = async (db: Database, accountId: string, id: string) => (await log.get(db, accountId, id)).email;

/** Why nothing becomes of what was accepted until somebody does something; null: nothing stands in its way. */
async function whyHeld(db: Database): Promise<string | null> {
  const since = await hold.find(db);
  if (since)
    return `The service has been on hold since ${since.toISOString()}: the email was accepted, and waits until sendwright release --waiting send|fail.`;
  if (await anyDelivers(db)) return null;
  return 'No node that delivers mail is running: the email was accepted, and waits for one.';
}

/** What became of it within the time for that; the end comes sooner where there is nothing to wait for any more. */
async function settled(
  db: Database,
  accountId: string,
  id: string,
  given: Given,
): Promise<{ email: Email; held: string | null }> {
  const end = Date.now() + waitMs;
  for (let look = 1; ; look += 1) {
    const email = await emailOf(db, accountId, id);
    if (!isOpen(email) || Date.now() > end) return { email, held: null };
    const held = look % askEvery === 0 ? await whyHeld(db) : null;
    if (held) return { email, held };
    given.progress(`${id} is ${email.status}, ${Math.ceil((end - Date.now()) / 1_000)} s left`);
    await sleep(lookEveryMs);
  }
}
