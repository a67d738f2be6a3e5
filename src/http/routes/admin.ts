import type Router from '@koa/router';
import { z } from 'zod';
import * as accounts from '../../core/accounts.ts';
import * as log from '../../core/email-log.ts';
import { planNames } from '../../core/plans.ts';
import { invalidRequest } from '../../errors.ts';
import type { Account } from '../../generated/prisma/client.ts';
import { newPassword } from '../../password.ts';
import { demandAdmin, demandLogin, sessionOf } from '../auth.ts';
import { readJson } from '../body.ts';
import { readIdempotency } from '../idempotency.ts';
import { allLogsQuery } from '../log-query.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { label, mailbox, oneOf, page, parse, password } from '../validation.ts';

const bodyLimit = 16 * 1024;
const largestTopUp = 1_000_000;

export const newAccount = z.object({
  name: label.describe('What people call it.'),
  email: mailbox.describe('The address that its first user logs in with.'),
  password: password
    .nullish()
    .describe("The first user's, 8 characters or more. Omitted: one is made, and shown in this answer only."),
  plan: oneOf(planNames)
    .nullish()
    .describe('Omitted: `DEFAULT_PLAN`, which is `free` where the operator says nothing else.'),
});

export const change = z
  .object({
    name: label.optional().describe('What people call it.'),
    plan: oneOf(planNames)
      .optional()
      .describe(
        'What it may send: `free` 100 emails a day and 3,000 a month from one domain, `pro` 50,000 a month from ten and more for credit, `unlimited` what it likes. Days and months are those of UTC.',
      ),
    suspended: z
      .boolean({ error: 'must be true or false' })
      .optional()
      .describe('`true`: nobody of it may log in or send, and what it has queued fails for good as it comes due.'),
  })
  .refine((input) => Object.values(input).some((value) => value !== undefined), 'name, plan or suspended is required');

export const topUp = z.object({
  amount: z
    .number({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a number') })
    .positive('must be more than 0')
    .max(largestTopUp, `may be ${largestTopUp} at the most`)
    .refine((amount) => Number(amount.toFixed(2)) === amount, 'may have two decimal places')
    .describe('What is added to the credit, with two decimal places at the most.'),
});

/** `/admin/accounts`, their credits, and `GET /admin/emails`: for the operators of the server. */
export function adminRoutes(router: Router, services: Services): void {
  const { db, defaultPlan } = services;
  const operator = [...demandLogin(services), demandAdmin];

  router.post('/admin/accounts', ...operator, async (ctx) => {
    const input = parse(newAccount, await readJson(ctx, bodyLimit));
    const password = input.password ?? newPassword();
    const email = input.email.address.toLowerCase();
    const account = await accounts.create(db, {
      name: input.name,
      plan: input.plan ?? defaultPlan,
      user: { email, password },
    });
    ctx.status = 201;
    // A password that was made here is shown this once; one that was given is known.
    ctx.body = { account: present.account(account), user: { email, ...(input.password ? {} : { password }) } };
  });

  router.get('/admin/accounts', ...operator, async (ctx) => {
    const found = await accounts.list(db, parse(z.object(page), ctx.query));
    ctx.body = { accounts: found.accounts.map((account) => present.account(account)), count: found.count };
  });

  router.get('/admin/accounts/:id', ...operator, async (ctx) => {
    ctx.body = { account: present.account(await accounts.get(db, ctx.params.id ?? '')) };
  });

  router.patch('/admin/accounts/:id', ...operator, async (ctx) => {
    const input = parse(change, await readJson(ctx, bodyLimit));
    const { accountId } = sessionOf(ctx);
    if (input.suspended && ctx.params.id === accountId)
      throw invalidRequest('suspended: you are logged in with this account, and could not come back');
    ctx.body = { account: present.account(await accounts.change(db, ctx.params.id ?? '', input)) };
  });

  router.post('/admin/accounts/:id/credits', ...operator, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const { amount } = parse(topUp, body);
    const call = {
      by: sessionOf(ctx).accountId,
      idempotency: await readIdempotency(ctx, body),
      respond: (account: Account) => ({ account: present.account(account) }),
    };
    const { response, replayed } = await accounts.topUp(db, { id: ctx.params.id ?? '', amount }, call);
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    ctx.body = response;
  });

  router.get('/admin/emails', ...operator, async (ctx) => {
    const { accountId, page, filter } = parse(allLogsQuery, ctx.query);
    const { emails, count, countExact, nextCursor } = await log.list(db, { accountId, ...filter }, page);
    ctx.body = {
      emails: emails.map((email) => present.withAccount(present.listedEmail(email), email)),
      count,
      count_exact: countExact,
      next_cursor: nextCursor,
    };
  });
}
