import { z } from 'zod';
import * as accounts from '../core/accounts/accounts.ts';
import * as members from '../core/accounts/members.ts';
import { mailbox, page, password as passwordSchema } from '../http/input/validation.ts';
import type { Command, Output } from './command.ts';
import { withDatabase } from './database.ts';
import { isSet, read, required, textOf } from './given.ts';
import { canLogIn, type GivenPassword, passwordFrom, shownOnce } from './given-password.ts';
import { notShown, table } from './table.ts';

const heads = ['EMAIL', 'ROLE', 'ACCOUNT', 'SINCE'];

const row = ({ email, role, accountId, createdAt }: members.Member) => [
  email,
  role,
  accountId,
  createdAt.toISOString().slice(0, 10),
];

const present = ({ id, accountId, email, role, createdAt }: members.Member) => ({
  id,
  account_id: accountId,
  email,
  role,
  created_at: createdAt,
});

const newUser = z.object({ email: mailbox, password: passwordSchema });

const outputOf = (user: members.Member, password: GivenPassword): Output => ({
  json: { user: { ...present(user), ...shownOnce(password) } },
  text: canLogIn(user.email, password),
});

const passwordHelp =
  '  --password-stdin     reads the password from standard input; by default one is generated and shown once';

export const listUsers: Command = {
  help: [
    'Usage: sendwright users list [--account <account>] [--limit <n>] [--offset <n>]',
    '',
    'Lists at most 100 users at a time.',
    '',
    '  --account <account>  its id, or the email address of one of its users',
  ].join('\n'),
  options: { account: { type: 'string' }, limit: { type: 'string' }, offset: { type: 'string' } },
  async run(env, say, given) {
    const asked = read(z.object(page), { limit: textOf(given, 'limit') ?? '100', offset: textOf(given, 'offset') });
    return withDatabase(env, say, async ({ db }) => {
      const name = textOf(given, 'account');
      const account = name === undefined ? null : await accounts.find(db, name);
      const { users, count } = await members.list(db, account?.id ?? null, asked);
      const left = notShown(users.length, count, 'user', 'users', '--limit, --offset and --account');
      if (left !== null) say(left);
      const nothing = count === 0 ? 'There are no users.' : `No users on this page; ${count} in total.`;
      return { json: { users: users.map(present), count }, text: table(heads, users.map(row), nothing) };
    });
  },
};

export const addUser: Command = {
  help: [
    'Usage: sendwright users add <account> --email <address> [--admin] [--password-stdin]',
    '',
    'The user has the same rights as the other users of the account. Name the account by its id, or by the email address of',
    'one of its users.',
    '',
    '  --admin              makes the user an operator of the server, who sees every account',
    passwordHelp,
  ].join('\n'),
  operands: ['account'],
  options: { email: { type: 'string' }, admin: { type: 'boolean' }, 'password-stdin': { type: 'boolean' } },
  async run(env, say, given) {
    const email = required(given, 'email');
    const password = await passwordFrom(given);
    const input = read(newUser, { email, password: password.value });
    return withDatabase(env, say, async ({ db }) => {
      const { id } = await accounts.find(db, given.operands[0] ?? '');
      const user = await members.add(db, id, {
        email: input.email.address.toLowerCase(),
        password: password.value,
        role: isSet(given, 'admin') ? 'admin' : 'member',
      });
      return outputOf(user, password);
    });
  },
};

export const setPassword: Command = {
  help: [
    'Usage: sendwright users password <email> [--password-stdin]',
    '',
    'Sets another password without asking for the current one. Every login of the user ends at once, and a user who was locked',
    'out after too many attempts can log in again.',
    '',
    passwordHelp,
  ].join('\n'),
  operands: ['email'],
  options: { 'password-stdin': { type: 'boolean' } },
  async run(env, say, given) {
    const password = await passwordFrom(given);
    return withDatabase(env, say, async ({ db }) => {
      const user = await members.setPassword(db, given.operands[0] ?? '', password.value);
      return outputOf(user, password);
    });
  },
};

export const removeUser: Command = {
  help: [
    'Usage: sendwright users remove <email>',
    '',
    'Every login of the user ends at once. The account keeps all its data, including its API keys: revoke those that the user',
    'knows. The only admin cannot be removed.',
  ].join('\n'),
  operands: ['email'],
  async run(env, say, { operands: [email = ''] }) {
    return withDatabase(env, say, async ({ db }) => {
      const user = await members.remove(db, email);
      return { json: { user: present(user) }, text: `${user.email} can no longer log in.` };
    });
  },
};
