import { z } from 'zod';
import * as accounts from '../core/accounts/accounts.ts';
import { type PlanName, planNames } from '../core/accounts/plans.ts';
import { list } from '../core/operations/account-list.ts';
import type { Database } from '../db/client.ts';
import { databaseTime } from '../db/clocks.ts';
import type { Account } from '../generated/prisma/client.ts';
import { oneOf } from '../http/input/validation.ts';
import * as present from '../http/present.ts';
import { accountQuery, newAccount } from '../http/routes/admin.ts';
import type { Command, Env, Output, Say } from './command.ts';
import { withDatabase } from './database.ts';
import { read, required, textOf } from './given.ts';
import { canLogIn, passwordFrom, shownOnce } from './given-password.ts';
import { notShown, table } from './table.ts';

const heads = ['ID', 'NAME', 'PLAN', 'TODAY', 'MONTH', 'CREDIT', 'STATE'];

type Shown = ReturnType<typeof present.account>;

function row({ id, name, plan, credit, suspended_at: suspended }: Shown, emails: Shown['usage']): (string | number)[] {
  const counted = (number: number | null) => number ?? 'not counted';
  return [id, name, plan, counted(emails.day), counted(emails.month), credit, suspended ? 'suspended' : 'active'];
}

async function outputOf(db: Database, changed: Account, sentence: string) {
  const account = present.account(changed, await databaseTime(db));
  return { json: { account }, text: `${sentence}\n${table(heads, [row(account, account.usage)], '')}` };
}

const noAccounts = (count: number, q: string | undefined, webhooks: string | undefined) => {
  if (count > 0) return `No accounts on this page; ${count} in total.`;
  if (webhooks !== undefined) return `No ${q === undefined ? 'account' : 'such account'} has a webhook that fails.`;
  return q === undefined
    ? 'There are no accounts.'
    : 'No account has this text in its name, or in the email address of a user.';
};

const helpOnName = [
  'Name the account by its id, or by the email address of one of its users.',
  'Running nodes apply the change at once.',
].join('\n');

export const listAccounts: Command = {
  help: [
    'Usage: sendwright accounts list [--limit <n>] [--offset <n>] [--q <text>] [--sort newest|usage]',
    '                               [--webhooks failing]',
    '',
    'Lists at most 100 accounts at a time, with the emails accepted today and this month (UTC).',
    '',
    '  --q <text>          only accounts with this text in their name, or in the email address of a user; case does not matter',
    '  --webhooks failing  only accounts with a webhook whose calls fail, or that was disabled because they did',
    '  --sort <order>      newest: the newest account first (the default); usage: the one with the most emails this month first',
  ].join('\n'),
  options: {
    limit: { type: 'string' },
    offset: { type: 'string' },
    q: { type: 'string' },
    sort: { type: 'string' },
    webhooks: { type: 'string' },
  },
  async run(env, say, given) {
    const {
      q,
      webhooks,
      sort = 'newest',
      ...page
    } = read(accountQuery, {
      limit: textOf(given, 'limit') ?? '100',
      offset: textOf(given, 'offset'),
      q: textOf(given, 'q'),
      webhooks: textOf(given, 'webhooks'),
      sort: textOf(given, 'sort'),
    });
    return withDatabase(env, say, async ({ db }) => {
      const found = await list(db, { ...page, q: q ?? null, webhooks: webhooks ?? null, sort });
      const left = notShown(found.accounts.length, found.count, 'account', 'accounts', '--limit, --offset and --q');
      if (left !== null) say(left);
      const shown = found.accounts.map((one) => present.listedAccount(one, found.now));
      return {
        json: { accounts: shown, count: found.count },
        text: table(
          heads,
          shown.map((account) => row(account, account.accepted)),
          noAccounts(found.count, q, webhooks),
        ),
      };
    });
  },
};

export const createAccount: Command = {
  help: [
    'Usage: sendwright accounts create --name <name> --email <address> [--plan <plan>] [--password-stdin]',
    '',
    'Creates an account with a user who logs in with this address. The password is generated and shown once, or read from',
    `standard input with --password-stdin. The plan is one of ${planNames.join(', ')}; the default is DEFAULT_PLAN.`,
  ].join('\n'),
  options: {
    name: { type: 'string' },
    email: { type: 'string' },
    plan: { type: 'string' },
    'password-stdin': { type: 'boolean' },
  },
  async run(env, say, given) {
    const wanted = { name: required(given, 'name'), email: required(given, 'email'), plan: textOf(given, 'plan') };
    const input = read(newAccount, wanted);
    const password = await passwordFrom(given);
    return withDatabase(env, say, async ({ db, config }) => {
      const email = input.email.address.toLowerCase();
      const account = await accounts.create(db, {
        name: input.name,
        plan: input.plan ?? config.defaultPlan,
        user: { email, password: password.value },
      });
      const { text, json } = await outputOf(db, account, canLogIn(email, password));
      return { json: { ...json, user: { email, ...shownOnce(password) } }, text };
    });
  },
};

async function change(
  env: Env,
  say: Say,
  name: string,
  changes: { suspended: boolean } | { plan: PlanName },
  sentence: string,
): Promise<Output> {
  return withDatabase(env, say, async ({ db }) => {
    const { id } = await accounts.find(db, name);
    return outputOf(db, await accounts.change(db, id, changes), sentence);
  });
}

export const suspendAccount: Command = {
  help: [
    'Usage: sendwright accounts suspend <account>',
    '',
    'Users of the account can no longer log in or send. Its queued mail fails for good when its turn comes, and stays failed',
    'after sendwright accounts resume <account>. To make mail wait instead, use sendwright queue pause <destination> or',
    'sendwright hold, which affect all accounts.',
    'The account of the only admin cannot be suspended.',
    '',
    helpOnName,
  ].join('\n'),
  operands: ['account'],
  async run(env, say, { operands: [name = ''] }) {
    return change(env, say, name, { suspended: true }, 'The account is suspended.');
  },
};

export const resumeAccount: Command = {
  help: [
    'Usage: sendwright accounts resume <account>',
    '',
    'Logins and API keys of the account work again. Mail that failed in the meantime stays failed.',
    '',
    helpOnName,
  ].join('\n'),
  operands: ['account'],
  async run(env, say, { operands: [name = ''] }) {
    return change(env, say, name, { suspended: false }, 'The account is active.');
  },
};

export const changePlan: Command = {
  help: [
    'Usage: sendwright accounts plan <account> <plan>',
    '',
    `The plan is one of ${planNames.join(', ')}.`,
    '',
    helpOnName,
  ].join('\n'),
  operands: ['account', 'plan'],
  async run(env, say, { operands: [name = '', plan] }) {
    const changes = read(z.object({ plan: oneOf(planNames) }), { plan });
    return change(env, say, name, changes, 'The plan has been changed.');
  },
};
