import type { Database } from '../../db/client.ts';
import { databaseTime } from '../../db/clocks.ts';
import { literal } from '../../db/pattern.ts';
import type { Account } from '../../generated/prisma/client.ts';
import { acceptedSince, byStatus } from '../log/email-counts.ts';
import { isMissingEvents } from '../webhooks/webhook-lines.ts';

/** How many emails were accepted today and this month (UTC), on any plan. */
export interface Accepted {
  day: number;
  month: number;
}

/** An account with the number of its users, of the emails that it sends, and of its webhooks that fail or were disabled for it. */
export type ListedAccount = Account & { userCount: number; accepted: Accepted; failingWebhooks: number };

/** The orders that accounts are listed in. */
export const accountOrders = ['newest', 'usage'] as const;
export type AccountOrder = (typeof accountOrders)[number];

/** What can be asked about the webhooks of an account. */
export const webhookStates = ['failing'] as const;
export type WebhookState = (typeof webhookStates)[number];

/**
 * One page of the accounts, how many there are, and what time it is by the database's clock, which their counts go by.
 *
 * @param page `q`: only accounts with this text in their name, or in the email address of a user, in any case; null: all.
 *   `webhooks`: `failing`: only accounts with a webhook that fails or was disabled for it; null: all.
 *   `sort`: `usage` lists those first that had the most emails accepted this month (UTC)
 */
export async function list(
  db: Database,
  page: { limit: number; offset: number; q: string | null; webhooks: WebhookState | null; sort: AccountOrder },
): Promise<{ accounts: ListedAccount[]; count: number; now: Date }> {
  const now = await databaseTime(db);
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()));
  const day = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()));
  const matches = `($1::text IS NULL OR a.name ILIKE $1
                    OR EXISTS (SELECT FROM users u WHERE u.account_id = a.id AND u.email ILIKE $1))
               ${page.webhooks === 'failing' ? `AND EXISTS (SELECT FROM webhooks w WHERE w.account_id = a.id AND ${isMissingEvents('w')})` : ''}`;
  const sought = page.q === null ? null : `%${literal(page.q)}%`;
  const places = await db.query<{ id: string }>(
    page.sort === 'newest'
      ? {
          text: `SELECT a.id FROM accounts a WHERE ${matches} ORDER BY a.id DESC LIMIT $2 OFFSET $3`,
          values: [sought, page.limit, page.offset],
        }
      : {
          text: `SELECT a.id FROM accounts a LEFT JOIN (${acceptedSince('$4')}) month ON month.account_id = a.id
                  WHERE ${matches} ORDER BY coalesce(month.emails, 0) DESC, a.id DESC LIMIT $2 OFFSET $3`,
          values: [sought, page.limit, page.offset, month],
        },
  );
  const ids = places.map(({ id }) => id);
  const [rows, accepted, failing, [all]] = await Promise.all([
    db.prisma.account.findMany({ where: { id: { in: ids } }, include: { _count: { select: { users: true } } } }),
    acceptedOf(db, ids, { day, month }),
    failingOf(db, ids),
    db.query<{ count: number }>({
      text: `SELECT count(*)::int AS count FROM accounts a WHERE ${matches}`,
      values: [sought],
    }),
  ]);
  const accounts = rows
    .map(({ _count, ...row }) => ({
      ...row,
      userCount: _count.users,
      accepted: accepted(row.id),
      failingWebhooks: failing.get(row.id) ?? 0,
    }))
    .sort((one, other) => ids.indexOf(one.id) - ids.indexOf(other.id));
  return { accounts, count: all?.count ?? 0, now };
}

async function acceptedOf(
  db: Database,
  ids: string[],
  { day, month }: { day: Date; month: Date },
): Promise<(id: string) => Accepted> {
  const [ofDay, ofMonth] = await Promise.all([byStatus(db, ids, day), byStatus(db, ids, month)]);
  const sum = (emails = {}) => Object.values<number>(emails).reduce((total, ofStatus) => total + ofStatus, 0);
  return (id) => ({ day: sum(ofDay.get(id)), month: sum(ofMonth.get(id)) });
}

async function failingOf(db: Database, ids: string[]): Promise<Map<string, number>> {
  const rows = await db.query<{ id: string; webhooks: number }>({
    text: `SELECT w.account_id AS id, count(*)::int AS webhooks FROM webhooks w
            WHERE w.account_id = ANY ($1) AND ${isMissingEvents('w')} GROUP BY 1`,
    values: [ids],
  });
  return new Map(rows.map(({ id, webhooks }) => [id, webhooks]));
}
