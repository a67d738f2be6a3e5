import { z } from 'zod';
import { planNames } from '../../core/accounts/plans.ts';
import { allLogsQuery } from '../input/log-query.ts';
import { accountQuery, change, newAccount, topUp } from '../routes/admin.ts';
import { doctorOperation } from './doctor.ts';
import { accountEmail, besideEmails } from './email-schemas.ts';
import { listedExample } from './emails.ts';
import type { Group } from './operation.ts';
import { keyUsed } from './refusals.ts';
import { samples } from './samples.ts';
import { id, integer, list, oneOf, time, total, words } from './schema.ts';

/** What counts towards a plan. */
export const usage = z.object({
  day: integer('Emails accepted today; null: not counted.').nullable(),
  month: integer('Emails accepted this month; null: not counted.').nullable(),
});

const accountFields = {
  id: id('Its id.'),
  name: words('Its name.'),
  plan: oneOf(planNames, 'Its plan.'),
  credit: words(
    'The balance, with two decimal places. On the plan `pro`, each email above the monthly limit takes 0.50 from it. Other plans do not use it.',
  ),
  usage: usage.describe(
    'Usage that counts towards the plan, by days and months in UTC. The plan `unlimited` counts nothing.',
  ),
  retention: z
    .object({
      log_days: integer('Days that the log is kept, at least: whole weeks are deleted at a time.'),
      content_days: integer('Days that the content of emails is kept; of a canceled one, from when it was canceled.'),
    })
    .describe('How long the plan keeps data, in days from when an email was due. Waiting emails are always kept.'),
  suspended_at: time('When it was suspended: its users cannot log in or send; null: it is not suspended.').nullable(),
  created_at: time('When it was created.'),
};

const account = z.object(accountFields).meta({ id: 'Account', description: 'An account: one customer of the server.' });

const listedAccount = z
  .object({
    ...accountFields,
    user_count: integer('How many users it has.'),
    accepted: z
      .object({ day: integer('Emails accepted today.'), month: integer('Emails accepted this month.') })
      .describe(
        'What it sends, by days and months in UTC: all emails in its log, whether or not its plan counts them.',
      ),
    failing_webhooks: integer(
      'How many of its webhooks do not get their events: calls to them fail, or the server disabled them because they did.',
    ),
  })
  .meta({ id: 'ListedAccount', description: 'An account in the list of all.' });

const example = {
  id: samples.account,
  name: 'Shop',
  plan: 'pro',
  credit: '25.00',
  usage: { day: 12, month: 340 },
  retention: { log_days: 30, content_days: 30 },
  suspended_at: null,
  created_at: samples.createdAt,
};

const params = { id: "The account's id." };
const answer = (description: string, shown: object) => ({
  description,
  schema: z.object({ account }),
  example: { account: { ...example, ...shown } },
});

export const adminGroup: Group = {
  name: 'Administration',
  description: 'For the operators of the server: accounts, their plans and credit, and the log of all accounts.',
  operations: [
    {
      id: 'createAccount',
      method: 'post',
      path: '/api/v1/admin/accounts',
      summary: 'Create an account',
      description: 'Creates an account with its first user.',
      access: 'admin',
      body: { schema: newAccount, example: { name: 'Shop', email: 'ann@shop.example.com', plan: 'pro' } },
      answer: {
        status: 201,
        description: 'The new account.',
        schema: z.object({
          account,
          user: z
            .object({
              email: words('The email address to log in with.'),
              password: words('The generated password; absent if the request had one.').optional(),
            })
            .describe('Its first user.'),
        }),
        example: {
          account: { ...example, credit: '0.00', usage: { day: 0, month: 0 } },
          user: { email: 'ann@shop.example.com', password: 'b1fH0sK2mQ9xT4uZ' },
        },
      },
      refusals: [
        {
          status: 400,
          error: 'invalid request',
          when: 'Another user already has the email address.',
          detail: 'email: belongs to a user already',
        },
      ],
    },
    {
      id: 'listAccounts',
      method: 'get',
      path: '/api/v1/admin/accounts',
      summary: 'List accounts',
      description: 'All accounts, newest first, or by what they have sent this month.',
      access: 'admin',
      query: accountQuery,
      answer: {
        description: 'One page.',
        schema: z.object({ accounts: list(listedAccount, 'The page.'), count: total }),
        example: {
          accounts: [{ ...example, user_count: 3, accepted: { day: 12, month: 340 }, failing_webhooks: 0 }],
          count: 1,
        },
      },
    },
    {
      id: 'getAccount',
      method: 'get',
      path: '/api/v1/admin/accounts/:id',
      summary: 'Get an account',
      description: 'One account.',
      access: 'admin',
      params,
      answer: answer('The account.', {}),
    },
    {
      id: 'changeAccount',
      method: 'patch',
      path: '/api/v1/admin/accounts/:id',
      summary: 'Change an account',
      description:
        'Renames an account, changes its plan, suspends it or reactivates it. Give at least one field. Mail that comes due while the account is suspended fails for good, and stays failed afterwards. To make mail wait instead, pause destinations, which affects all accounts.',
      access: 'admin',
      params,
      body: { schema: change, example: { plan: 'unlimited' } },
      answer: answer('The changed account.', { plan: 'unlimited' }),
    },
    {
      id: 'addCredit',
      method: 'post',
      path: '/api/v1/admin/accounts/:id/credits',
      summary: 'Top up the credit',
      description: 'Adds to the balance. On the plan `pro`, each email above the monthly limit takes 0.50 from it.',
      access: 'admin',
      idempotent: true,
      refusals: [keyUsed],
      params,
      body: { schema: topUp, example: { amount: 25 } },
      answer: answer('The account with its new credit.', { credit: '50.00' }),
    },
    {
      id: 'listAllEmails',
      method: 'get',
      path: '/api/v1/admin/emails',
      summary: 'List the emails of all accounts',
      description: 'The log, newest first, with the account of each.',
      access: 'admin',
      query: allLogsQuery,
      answer: {
        description: 'One page.',
        schema: z.object({
          emails: list(accountEmail, 'The page.'),
          ...besideEmails,
        }),
        example: {
          emails: [{ ...listedExample, account_id: samples.account }],
          count: 1,
          count_exact: true,
          next_cursor: null,
        },
      },
    },
    doctorOperation,
  ],
};
