import { z } from 'zod';
import * as accounts from '../core/accounts/accounts.ts';
import { type PlanName, planNames } from '../core/accounts/plans.ts';
import type { Account } from '../generated/prisma/client.ts';
import * as present from '../http/present.ts';
import { newAccount } from '../http/routes/admin.ts';
import { oneOf, page } from '../http/validation.ts';
import type { Command, Told } from './command.ts';
import { withDatabase } from './database.ts';
import { read, required, textOf } from './given.ts';
import { canLogIn, passwordFrom, shownOnce } from './given-password.ts';
import { table } from './table.ts';

const heads = ['ID', 'NAME', 'PLAN', 'TODAY', 'MONTH', 'CREDIT', 'STATE'];

function row(account: Account): (string | number)[] {
  const { id, name, plan, usage, credit, suspended_at: suspended } = present.account(account);
  const [day, month] = [usage.day, usage.month].map((count) => count ?? 'not counted');
  return [id, name, plan, day ?? '', month ?? '', credit, suspended ? 'suspended' : 'active'];
}

const tell = (account: Account, sentence: string): Told => ({
  json: { account: present.account(account) },
  text: `${sentence}\n${table(heads, [row(account)], '')}`,
});

const nobody = (count: number) =>
  count === 0 ? 'There are no accounts.' : `No accounts on this page; ${count} in total.`;

const named = [
  'Name the account by its id, or by the email address of one of its users.',
  'Running nodes apply the change at once.',
].join('\n');

export const listAccounts: Command = {
  summary: 'lists all accounts, newest first',
  help: [
    'Usage: sendwright accounts list [--limit <n>] [--offset <n>]',
    '',
    'Lists at most 100 accounts, newest first, with their usage today and this month (UTC). Usage that the plan does not',
    'limit is not counted.',
  ].join('\n'),
  options: { limit: { type: 'string' }, offset: { type: 'string' } },
  async run(env, say, given) {
    const asked = read(z.object(page), { limit: textOf(given, 'limit') ?? '100', offset: textOf(given, 'offset') });
    return withDatabase(env, say, async ({ db }) => {
      const found = await accounts.list(db, asked);
      return {
        json: { accounts: found.accounts.map((one) => present.account(one)), count: found.count },
        text: table(heads, found.accounts.map(row), nobody(found.count)),
      };
    });
  },
};

export const createAccount: Command = {
  summary: 'creates an account with its first user',
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
      const told = tell(account, canLogIn(email, password));
      return { ...told, json: { account: present.account(account), user: { email, ...shownOnce(password) } } };
    });
  },
};

const change = (
  summary: string,
  help: string[],
  done: string,
  changes: { suspended: boolean } | ((plan: PlanName) => { plan: PlanName }),
): Command => ({
  summary,
  help: [...help, '', named].join('\n'),
  operands: typeof changes === 'function' ? ['account', 'plan'] : ['account'],
  async run(env, say, { operands: [name = '', plan] }) {
    const input =
      typeof changes === 'function' ? changes(read(z.object({ plan: oneOf(planNames) }), { plan }).plan) : changes;
    return withDatabase(env, say, async ({ db }) => {
      const { id } = await accounts.find(db, name);
      return tell(await accounts.change(db, id, input), done);
    });
  },
});

export const suspendAccount = change(
  'suspends an account: no logins, no new mail, and its queued mail fails',
  [
    'Usage: sendwright accounts suspend <account>',
    '',
    'Users of the account can no longer log in or send. Its queued mail fails for good when its turn comes, and stays failed',
    'after sendwright accounts resume <account>. To make mail wait instead, use sendwright queue pause <destination> or',
    'sendwright hold, which affect all accounts.',
    'The account of the only admin cannot be suspended.',
  ],
  'The account is suspended.',
  { suspended: true },
);

export const resumeAccount = change(
  'reactivates a suspended account',
  [
    'Usage: sendwright accounts resume <account>',
    '',
    'Logins and API keys of the account work again. Mail that failed in the meantime stays failed.',
  ],
  'The account is active.',
  { suspended: false },
);

export const changePlan = change(
  'changes the plan of an account',
  ['Usage: sendwright accounts plan <account> <plan>', '', `The plan is one of ${planNames.join(', ')}.`],
  'The plan has been changed.',
  (plan) => ({ plan }),
);
