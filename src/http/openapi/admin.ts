import { z } from 'zod';
import { planNames } from '../../core/plans.ts';
import { allLogsQuery } from '../log-query.ts';
import { change, newAccount, topUp } from '../routes/admin.ts';
import { page } from '../validation.ts';
import { doctorOperation } from './doctor.ts';
import { accountEmail, besideEmails, listedExample } from './emails.ts';
import type { Group } from './operation.ts';
import { keyUsed } from './refusals.ts';
import { samples } from './samples.ts';
import { id, integer, list, oneOf, time, total, words } from './schema.ts';

const account = z
  .object({
    id: id('Its id.'),
    name: words('What people call it.'),
    plan: oneOf(planNames, 'What it may send.'),
    credit: words(
      'What emails past the month’s number are paid from on the plan `pro`, at 0.50 each, with two decimal places. Other plans do not use it.',
    ),
    usage: z
      .object({
        day: integer('Emails accepted today; null: they are not counted.').nullable(),
        month: integer('Emails accepted this month; null: they are not counted.').nullable(),
      })
      .describe('What counts for the plan, by days and months of UTC. The plan `unlimited` counts nothing.'),
    retention: z
      .object({
        log_days: integer('The log of its emails, at the least: weeks go as a whole.'),
        content_days: integer('Their content.'),
      })
      .describe('For how many days the plan keeps what, from when an email was due. What waits is kept.'),
    suspended_at: time('Since when it may not log in or send; null: it may.').nullable(),
    created_at: time('When it was created.'),
  })
  .meta({ id: 'Account', description: 'An account: one customer of the server.' });

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
      description: 'With its first user.',
      access: 'admin',
      body: { schema: newAccount, example: { name: 'Shop', email: 'ann@shop.example.com', plan: 'pro' } },
      answer: {
        status: 201,
        description: 'It is created.',
        schema: z.object({
          account,
          user: z
            .object({
              email: words('What the user logs in with.'),
              password: words('The password that was made; absent where the request had one.').optional(),
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
          when: 'The email belongs to a user already.',
          detail: 'email: belongs to a user already',
        },
      ],
    },
    {
      id: 'listAccounts',
      method: 'get',
      path: '/api/v1/admin/accounts',
      summary: 'List accounts',
      description: 'All accounts, newest first.',
      access: 'admin',
      query: z.object(page),
      answer: {
        description: 'One page.',
        schema: z.object({ accounts: list(account, 'The page.'), count: total }),
        example: { accounts: [example], count: 1 },
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
        'Renames it, changes its plan, suspends it or lets it go on. Mail that comes due while it is suspended fails for good, and stays failed afterwards; for mail that is to wait pause destinations instead, which is for all accounts. At least one of them must be given.',
      access: 'admin',
      params,
      body: { schema: change, example: { plan: 'unlimited' } },
      answer: answer('It is changed.', { plan: 'unlimited' }),
    },
    {
      id: 'addCredit',
      method: 'post',
      path: '/api/v1/admin/accounts/:id/credits',
      summary: 'Top up the credit',
      description: 'Each email past the plan `pro` takes 0.50 from it.',
      access: 'admin',
      idempotent: true,
      refusals: [keyUsed],
      params,
      body: { schema: topUp, example: { amount: 25 } },
      answer: answer('It has the credit.', { credit: '50.00' }),
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
