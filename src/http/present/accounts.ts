import { isCounted, leftOf, planOf } from '../../core/accounts/plans.ts';
import type * as users from '../../core/accounts/users.ts';
import type { ListedAccount } from '../../core/operations/account-list.ts';
import type { Account, ApiKey, User } from '../../generated/prisma/client.ts';
import { iso } from './times.ts';

/**
 * Counts of a past day or month show as 0. If the plan counts nothing, they are null, not 0.
 *
 * @param now by the database's clock, which the counts go by
 */
export function account(row: Account, now: Date) {
  const today = now.toISOString();
  const isToday = row.usageDay?.toISOString().slice(0, 10) === today.slice(0, 10);
  const isThisMonth = row.usageMonth?.toISOString().slice(0, 7) === today.slice(0, 7);
  const plan = planOf(row.plan);
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    credit: row.credit.toFixed(2),
    usage: isCounted(row.plan)
      ? { day: isToday ? row.usageDayCount : 0, month: isThisMonth ? row.usageMonthCount : 0 }
      : { day: null, month: null },
    retention: { log_days: plan.logDays, content_days: plan.contentDays },
    suspended_at: iso(row.suspendedAt),
    created_at: iso(row.createdAt),
  };
}

export const listedAccount = (row: ListedAccount, now: Date) => ({
  ...account(row, now),
  user_count: row.userCount,
  accepted: row.accepted,
  failing_webhooks: row.failingWebhooks,
});

/** Adds the account, for operators, who see more than one. */
export const withAccount = <T extends object>(shown: T, row: { accountId: string }) => ({
  ...shown,
  account_id: row.accountId,
});

function user(row: Pick<User, 'id' | 'email' | 'role'>) {
  return { id: row.id, email: row.email, role: row.role };
}

/** Who logged in, and to which account. */
export function loggedIn(row: users.User) {
  const { id, name, plan } = row.account;
  return { user: user(row), account: { id, name, plan } };
}

/** The same for a browser, which says when the plan is used up. */
export function session(row: users.User, of: Account, now: Date) {
  const { usage } = account(of, now);
  const left = leftOf(of.plan, Number(of.credit), { day: usage.day ?? 0, month: usage.month ?? 0 });
  return { user: user(row), account: { id: of.id, name: of.name, plan: of.plan, usage, left } };
}

export const exportedUser = (row: User) => ({ ...user(row), created_at: iso(row.createdAt) });

export function apiKey(key: ApiKey) {
  return {
    id: key.id,
    name: key.name,
    key_prefix: key.keyPrefix,
    scopes: key.scopes,
    domains: key.domains,
    expires_at: iso(key.expiresAt),
    created_at: iso(key.createdAt),
    revoked_at: iso(key.revokedAt),
  };
}
