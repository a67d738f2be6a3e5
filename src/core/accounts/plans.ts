import type { Database, Sql } from '../../db/client.ts';
import { grouped } from '../../numbers.ts';

/** What a plan allows; null means no limit. */
export interface Plan {
  perMonth: number | null;
  perDay: number | null;
  domains: number | null;
  /** What each email past the monthly number takes from the account's credit; null: no emails past it. */
  pricePast: number | null;
  /** How long the log of its emails is kept at least, in days from when each was due. */
  logDays: number;
  /** How long the content of its emails is kept, in days from when each was due, or ended before; longer while an email waits. */
  contentDays: number;
}

/** An account has the name of its plan: a change here holds for all that have it. */
export const plans = {
  free: { perMonth: 3_000, perDay: 100, domains: 1, pricePast: null, logDays: 30, contentDays: 30 },
  pro: { perMonth: 50_000, perDay: null, domains: 10, pricePast: 0.5, logDays: 30, contentDays: 30 },
  unlimited: { perMonth: null, perDay: null, domains: null, pricePast: null, logDays: 30, contentDays: 30 },
} as const satisfies Record<string, Plan>;

export type PlanName = keyof typeof plans;
export const planNames = Object.keys(plans) as [PlanName, ...PlanName[]];

const smallest: PlanName = 'free';

/** The plan of this name; the smallest for a name that this release does not know. */
export const planOf = (name: string): Plan => plans[name as PlanName] ?? plans[smallest];

/** Whether the plan limits the number of emails. If not, none are counted, and no row needs to be locked. */
export const isCounted = (name: string): boolean => planOf(name).perMonth !== null || planOf(name).perDay !== null;

/**
 * How many more emails a plan and the credit allow today and this month, as far as is known; null: as many as one wants.
 *
 * @param used how many were accepted on this day and in this month, in UTC
 */
export function leftOf(
  name: string,
  credit: number,
  used: { day: number; month: number },
): { day: number | null; month: number | null } {
  const { perDay, perMonth, pricePast } = planOf(name);
  const paid = pricePast === null ? 0 : Math.max(0, Math.floor(credit / pricePast));
  return {
    day: perDay === null ? null : Math.max(0, perDay - used.day),
    month: perMonth === null ? null : Math.max(0, perMonth - used.month) + paid,
  };
}

/**
 * Charges the account for emails, inside the transaction that accepts them. The account's row stays locked until that
 * transaction ends, so the count is exact for any number of concurrent calls and nodes. Days and months are in UTC.
 *
 * @returns how many of the emails the plan and the credit allow, whether only the day's number is used up, and what time it is
 *   by the database's clock
 */
export async function charge(
  tx: Sql,
  accountId: string,
  emails: number,
): Promise<{ granted: number; onlyDayIsFull: boolean; now: Date }> {
  const [row] = await tx.query<{ granted: number; onlyDayIsFull: boolean; now: Date }>({
    name: 'plans-charge',
    // NULL is no limit, and LEAST ignores it. An account may be past a limit after a change of its plan. A plan that this release
    // does not know counts as the smallest, as in `planOf`.
    // A transaction from before midnight may find that a later one has begun the new day: it counts for that day too. Otherwise
    // the day before would begin anew, and then the new day once more.
    text: `WITH today AS (SELECT (now() AT TIME ZONE 'UTC')::date AS day),
           account AS (
             SELECT a.id, a.credit, a.usage_day, a.usage_day_count, a.usage_month, a.usage_month_count,
                    p."perMonth" AS per_month, p."perDay" AS per_day, p."pricePast" AS price,
                    CASE WHEN a.usage_day = t.day + 1 THEN a.usage_day ELSE t.day END AS day
               FROM today t, accounts a
               JOIN jsonb_to_recordset($3::jsonb) AS p (name text, "perMonth" int, "perDay" int, "pricePast" numeric)
                      ON p.name = CASE WHEN a.plan = ANY($4::text[]) THEN a.plan ELSE $5 END
              WHERE a.id = $1 FOR NO KEY UPDATE OF a),
           used AS (
             SELECT *, CASE WHEN usage_day = day THEN usage_day_count ELSE 0 END AS day_used,
                    CASE WHEN usage_month = month THEN usage_month_count ELSE 0 END AS month_used
               FROM account, LATERAL (SELECT date_trunc('month', day::timestamp)::date AS month) m),
           remaining AS (
             SELECT *, per_day - day_used AS of_day,
                    CASE WHEN price IS NULL THEN per_month - month_used
                         ELSE greatest(per_month - month_used, 0) + least(floor(credit / price), $2::int)::int END AS of_month_and_credit
               FROM used),
           allowed AS (SELECT *, greatest(0, least($2::int, of_day, of_month_and_credit)) AS granted FROM remaining),
           charged AS (
             SELECT *, greatest(0, month_used + granted - greatest(per_month, month_used)) AS paid_with_credit FROM allowed)
           UPDATE accounts a
              SET usage_day = c.day, usage_day_count = c.day_used + c.granted,
                  usage_month = c.month, usage_month_count = c.month_used + c.granted,
                  credit = c.credit - coalesce(c.price * c.paid_with_credit, 0)
             FROM charged c WHERE a.id = c.id
        RETURNING c.granted, coalesce(c.day_used + c.granted >= c.per_day, false) AND coalesce(c.of_month_and_credit > c.granted, true) AS "onlyDayIsFull",
                  greatest(now(), c.day::timestamp AT TIME ZONE 'UTC') AS now`,
    values: [
      accountId,
      emails,
      JSON.stringify(Object.entries(plans).map(([name, plan]) => ({ name, ...plan }))),
      planNames,
      smallest,
    ],
  });
  return row ?? { granted: 0, onlyDayIsFull: false, now: new Date() };
}

/** Why the plan grants no more emails, and in how many seconds it grants some again. */
export function whyExceeded(name: string, onlyDayIsFull: boolean, now: Date): { detail: string; retryAfter: number } {
  const { perDay, perMonth, pricePast } = planOf(name);
  const next = onlyDayIsFull
    ? Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1)
    : Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
  const limit = onlyDayIsFull ? `${perDay} emails a day` : `${grouped(perMonth ?? 0)} emails a month`;
  const credit = pricePast === null ? '' : ', and the credit for more is used up';
  const detail = `the ${name} plan allows ${limit}${credit}; sending resumes at ${new Date(next).toISOString()}`;
  return { detail, retryAfter: Math.max(1, Math.ceil((next - now.getTime()) / 1_000)) };
}

class RolledBack extends Error {}

/** Whether one more email would be allowed now: it is charged, and rolled back. */
export async function wouldGrant(db: Database, accountId: string): Promise<boolean> {
  let granted = 0;
  const trial = db.transaction(async (tx) => {
    ({ granted } = await charge(tx, accountId, 1));
    throw new RolledBack();
  });
  await trial.catch((error: Error) => {
    if (!(error instanceof RolledBack)) throw error;
  });
  return granted > 0;
}

/** Whether the account may register one more sending domain. Locks its row, so that concurrent calls count each other. */
export async function allowsDomain(tx: Sql, accountId: string): Promise<boolean> {
  const [account] = await tx.query<{ plan: string }>({
    text: 'SELECT plan FROM accounts WHERE id = $1 FOR NO KEY UPDATE',
    values: [accountId],
  });
  const most = planOf(account?.plan ?? '').domains;
  if (most === null) return true;
  const [row] = await tx.query<{ count: number }>({
    text: 'SELECT count(*)::int AS count FROM domains WHERE account_id = $1',
    values: [accountId],
  });
  return (row?.count ?? 0) < most;
}
