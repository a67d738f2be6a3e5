import type Router from '@koa/router';
import { z } from 'zod';
import * as accounts from '../../core/accounts/accounts.ts';
import { planNames } from '../../core/accounts/plans.ts';
import * as log from '../../core/log/email-log.ts';
import { accountOrders, list, webhookStates } from '../../core/operations/account-list.ts';
import { newPassword } from '../../crypto/password.ts';
import { invalidRequest } from '../../errors.ts';
import type { Account } from '../../generated/prisma/client.ts';
import { grouped } from '../../numbers.ts';
import { readJson } from '../body/body.ts';
import { demandAdmin, demandLogin, sessionOf } from '../credentials/auth.ts';
import { readIdempotency } from '../idempotency.ts';
import { allLogsQuery } from '../input/log-query.ts';
import { idOf, label, line, mailbox, oneOf, page, parse, password } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 16 * 1024;
const largestTopUp = 1_000_000;

export const newAccount = z.object({
  name: label.describe('The name of the account.'),
  email: mailbox.describe('The email address of its first user, to log in with.'),
  password: password
    .nullish()
    .describe(
      'The password of the first user, of at least 8 characters. Omitted: one is generated, and shown only in this response.',
    ),
  plan: oneOf(planNames)
    .nullish()
    .describe('The plan. Omitted: `DEFAULT_PLAN`, which is `free` unless the operator sets it.'),
});

export const change = z
  .object({
    name: label.optional().describe('The name of the account.'),
    plan: oneOf(planNames)
      .optional()
      .describe(
        'What it may send. `free`: 100 emails a day and 3,000 a month, from one domain; `pro`: 50,000 a month, and more for credit, from ten domains; `unlimited`: no limits. Days and months are in UTC.',
      ),
    suspended: z
      .boolean({ error: 'must be true or false' })
      .optional()
      .describe(
        '`true`: its users cannot log in, it cannot send, and its queued emails fail permanently when they are due.',
      ),
  })
  .refine((input) => Object.values(input).some((value) => value !== undefined), 'name, plan or suspended is required');

export const topUp = z.object({
  amount: z
    .number({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a number') })
    .positive('must be more than 0')
    .max(largestTopUp, `must be at most ${grouped(largestTopUp)}`)
    .refine((amount) => Number(amount.toFixed(2)) === amount, 'must have at most two decimal places')
    .describe('The amount to add to the credit, with at most two decimal places.'),
});

export const accountQuery = z.object({
  ...page,
  q: line(200)
    .optional()
    .describe('Only accounts with this text in their name, or in the email address of a user; case does not matter.'),
  webhooks: oneOf(webhookStates)
    .optional()
    .describe(
      '`failing`: only accounts with a webhook whose calls fail, or that the server disabled because they did.',
    ),
  sort: oneOf(accountOrders)
    .optional()
    .describe(
      'The order. `newest` (the default): the newest account first; `usage`: the one with the most emails accepted this month (UTC) first.',
    ),
});

/** `/admin/accounts`, their credits, and `GET /admin/emails`: for the operators of the server. */
export function adminRoutes(router: Router, services: Services): void {
  const { db, defaultPlan, clock } = services;
  const shown = (account: Account) => present.account(account, clock.now());
  const operator = [demandLogin(services), demandAdmin];

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
    // A generated password is shown this once; the client knows its own.
    ctx.body = { account: shown(account), user: { email, ...(input.password ? {} : { password }) } };
  });

  router.get('/admin/accounts', ...operator, async (ctx) => {
    const { q = null, webhooks = null, sort = 'newest', ...page } = parse(accountQuery, ctx.query);
    const found = await list(db, { ...page, q, webhooks, sort });
    ctx.body = { accounts: found.accounts.map((one) => present.listedAccount(one, found.now)), count: found.count };
  });

  router.get('/admin/accounts/:id', ...operator, async (ctx) => {
    ctx.body = { account: shown(await accounts.get(db, idOf(ctx))) };
  });

  router.patch('/admin/accounts/:id', ...operator, async (ctx) => {
    const input = parse(change, await readJson(ctx, bodyLimit));
    const { accountId } = sessionOf(ctx);
    if (input.suspended && ctx.params.id === accountId)
      throw invalidRequest('suspended: you are logged in to this account, and would lock yourself out');
    ctx.body = { account: shown(await accounts.change(db, idOf(ctx), input)) };
  });

  router.post('/admin/accounts/:id/credits', ...operator, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const { amount } = parse(topUp, body);
    const call = {
      by: sessionOf(ctx).accountId,
      idempotency: await readIdempotency(ctx, body),
      respond: (account: Account) => ({ account: shown(account) }),
    };
    const { response, replayed } = await accounts.topUp(db, { id: idOf(ctx), amount }, call);
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
