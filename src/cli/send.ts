import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits } from '../core/accounts/send-limits.ts';
import { type Accepted, answerAll } from '../core/emails/emails.ts';
import { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { Sendable } from '../core/emails/template-sending.ts';
import * as log from '../core/log/email-log.ts';
import { anyDelivers } from '../core/nodes/nodes.ts';
import * as hold from '../core/operations/hold.ts';
import { pausedBy } from '../core/recipients/waiting-for.ts';
import type { Database } from '../db/client.ts';
import { forbidden } from '../errors.ts';
import type { Account, Email, Recipient } from '../generated/prisma/client.ts';
import { sendRequest } from '../http/input/send-request.ts';
import * as present from '../http/present.ts';
import type { Queue } from '../queue.ts';
import { type Command, type Given, Misuse, type Output, type Say } from './command.ts';
import { withDatabase, withQueue } from './database.ts';
import { contentOf, isSet, listOf, type OptionOf, read, textOf } from './given.ts';
import { accountOf } from './whose.ts';

const longestWaitMs = 60_000;
const lookEveryMs = 500;

/** How many looks at the email there are for one at obstacles: a delivery that is under way when a hold begins has time to end. */
const looksPerCheck = 10;

const texts = ['from', 'subject', 'html', 'text', 'type'];
const lists = ['to', 'cc', 'bcc', 'tag'];
const fieldNames = [...texts, ...lists, 'scheduled-at'];

const optionOf: OptionOf = {
  ...Object.fromEntries(fieldNames.map((name) => [name, name])),
  tags: 'tag',
  scheduled_at: 'scheduled-at',
};

export const send: Command = {
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
    '  --wait                       waits until the email is settled, for at most a minute; it does not wait if no node delivers,',
    '                               the service is on hold or the destination is paused. The exit code is 1 if the email was not sent',
  ].join('\n'),
  options: {
    ...Object.fromEntries(
      [...texts, 'scheduled-at', 'file', 'account', 'idempotency-key'].map(
        (name) => [name, { type: 'string' }] as const,
      ),
    ),
    ...Object.fromEntries(lists.map((name) => [name, { type: 'string', multiple: true }] as const)),
    wait: { type: 'boolean' },
  },
  async run(env, say, given) {
    const input = await inputOf(given);
    const request = read(sendRequest, input, textOf(given, 'file') === undefined ? optionOf : {});
    const idempotency = idempotencyOf(given, input);
    return withDatabase(env, say, async ({ db, url }) => {
      const account = await accountOf(db, textOf(given, 'account'));
      if (account.suspendedAt) throw forbidden('the account is suspended');
      return withQueue(url, async (queue) => {
        const id = await accept(db, queue, account, { request, idempotency });
        return report(db, account.id, id, given, say);
      });
    });
  },
};

/** @throws Misuse if the key is too short or too long */
function idempotencyOf(given: Given, input: unknown): Idempotency | null {
  const key = textOf(given, 'idempotency-key');
  if (key === undefined) return null;
  if (key === '' || [...key].length > limits.idempotencyKey)
    throw new Misuse(`--idempotency-key must have 1 to ${limits.idempotencyKey} characters`);
  const fingerprint = createHash('sha256')
    .update(`sendwright send ${JSON.stringify(input)}`)
    .digest();
  return { key, fingerprint };
}

/** @returns the email's id */
async function accept(
  db: Database,
  queue: Queue,
  { id: accountId, plan }: Account,
  { request, idempotency }: { request: Sendable; idempotency: Idempotency | null },
): Promise<string> {
  const sender = { accountId, keyId: null, plan, domains: [] };
  const respond = ([accepted]: Accepted[]) => {
    if (!accepted || 'refusal' in accepted) throw accepted?.refusal;
    return { id: accepted.email.id };
  };
  const call = { requests: [request], idempotency, respond };
  const [answer] = await answerAll(db, queue, sender, [call], new FreshBodies({ room: 0 }));
  if (!answer || 'error' in answer) throw answer?.error;
  return (answer.response as { id: string }).id;
}

/** Reports the status of the email, with `--wait` once it is settled or there is no point in waiting. */
async function report(db: Database, accountId: string, id: string, given: Given, say: Say): Promise<Output> {
  const accepted = await log.getEmail(db, accountId, id);
  const began = Date.now();
  const obstacle = isOpen(accepted) ? await obstacleTo(db) : null;
  const waits = isSet(given, 'wait') && obstacle === null;
  const settled = waits ? await settle(db, accountId, id, given) : { email: accepted, obstacle, reason: null };
  if (settled.obstacle) say(settled.obstacle);
  const { email } = settled;
  const after = waits && isOpen(email) ? `, after ${Math.round((Date.now() - began) / 1_000)} s` : '';
  const reason = email.error ?? settled.reason;
  return {
    json: { email: present.email(email) },
    text: `${email.id} is ${email.status}${after}${reason ? `: ${reason}` : ''}`,
    failed: email.status === 'failed' || email.status === 'suppressed' || (isSet(given, 'wait') && isOpen(email)),
  };
}

/** The body of the equivalent call of the API. */
async function inputOf(given: Given): Promise<unknown> {
  const file = textOf(given, 'file');
  return file === undefined ? fieldsOf(given) : fieldsIn(file, given);
}

/** @throws Misuse if the file is not JSON, or other fields are given */
async function fieldsIn(file: string, given: Given): Promise<unknown> {
  const others = fieldNames.filter((name) => given.options[name] !== undefined).map((name) => `--${name}`);
  if (others.length > 0) throw new Misuse(`${others.join(', ')}: cannot be combined with --file`);
  try {
    return JSON.parse(await contentOf(given, file));
  } catch (error) {
    if (error instanceof SyntaxError) throw new Misuse(`--file is not JSON (${error.message})`);
    throw error;
  }
}

async function fieldsOf(given: Given): Promise<Record<string, unknown>> {
  const fields: Record<string, string> = {};
  for (const name of texts) {
    const text = textOf(given, name);
    if (text !== undefined) fields[name] = text;
  }
  const piped = ['html', 'text'].filter((name) => fields[name] === '-');
  if (piped.length > 1) throw new Misuse('only one of --text and --html can be read from standard input');
  for (const name of piped) fields[name] = await contentOf(given, '-');
  if (!fields.html && !fields.text) throw new Misuse('neither --text nor --html has a body');
  return {
    ...fields,
    ...Object.fromEntries(['to', 'cc', 'bcc'].map((name) => [name, given.options[name] ?? []])),
    tags: listOf(given, 'tag'),
    scheduled_at: textOf(given, 'scheduled-at'),
  };
}

const isOpen = ({ status, scheduledAt }: Email) =>
  status === 'queued' && (scheduledAt === null || scheduledAt.getTime() <= Date.now());

/** Why no node delivers accepted email until an operator acts; null if nothing is in the way. */
async function obstacleTo(db: Database): Promise<string | null> {
  const since = await hold.find(db);
  if (since)
    return `The service has been on hold since ${since.toISOString()}: the email was accepted, and waits until sendwright release --waiting send|fail.`;
  if (await anyDelivers(db)) return null;
  return 'No node that delivers mail is running: the email was accepted, and waits for one.';
}

/** The same, if all who wait do so because an operator has paused their destinations. */
function pauseOfAll(waiting: Recipient[]): string | null {
  const paused = waiting.map(({ waitingFor }) => pausedBy(waitingFor ?? ''));
  const [name] = paused;
  if (!name || paused.includes(null)) return null;
  return `The destination is paused: the email was accepted, and waits until sendwright queue resume ${name}.`;
}

/** Waits until the email is settled, there is an obstacle, or the time is up; `reason` is why it waits then, if that is known. */
async function settle(
  db: Database,
  accountId: string,
  id: string,
  given: Given,
): Promise<{ email: Email; obstacle: string | null; reason: string | null }> {
  const end = Date.now() + longestWaitMs;
  for (let look = 1; ; look += 1) {
    const { email, recipients } = await log.get(db, accountId, id);
    const waiting = recipients.filter(({ nextAttemptAt }) => nextAttemptAt !== null);
    const reason = waiting.map(({ waitingFor, lastResponse }) => waitingFor ?? lastResponse).find(Boolean) ?? null;
    if (!isOpen(email)) return { email, obstacle: null, reason: null };
    const obstacle = pauseOfAll(waiting) ?? (look % looksPerCheck === 0 ? await obstacleTo(db) : null);
    if (obstacle || Date.now() > end) return { email, obstacle, reason };
    given.progress(`${id} is ${email.status}, ${Math.ceil((end - Date.now()) / 1_000)} s left`);
    await sleep(lookEveryMs);
  }
}
