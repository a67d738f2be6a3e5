import type { Database } from '../db/client.ts';
import { forbidden, rateLimited, unauthorized } from '../errors.ts';
import type { Role } from '../generated/prisma/enums.ts';
import { verifyPassword } from '../password.ts';

export interface User {
  id: string;
  email: string;
  role: Role;
  account: { id: string; name: string; plan: string };
}

const windowSeconds = 15 * 60;
/** An email is tried from one address ten times; whoever knows the email alone cannot keep its owner out so easily. */
const failuresAllowed = { pair: 10, email: 300, address: 100 };

/**
 * Checks an email and a password. An unknown email and a wrong password are the same 401 after the same work.
 *
 * @param address the client's address: in 15 minutes ten failures for one email from one address, a hundred from one
 *   address, which may be that of a whole office, or 300 for one email end in a 429; counted in the database, so on all nodes together
 * @throws ApiError 401, 403 when the account is suspended, or 429
 */
export async function login(db: Database, input: { email: string; password: string; address: string }): Promise<User> {
  const email = input.email.toLowerCase();
  const pair = `pair:${input.address} ${email}`;
  const subjects = [pair, `email:${email}`, `address:${input.address}`];
  await refuseWhenThrottled(db, subjects);
  const user = await db.prisma.user.findUnique({ where: { email }, include: { account: true } });
  if (!(await verifyPassword(input.password, user?.passwordHash ?? null)) || !user) {
    await db.prisma.loginFailure.createMany({ data: subjects.map((subject) => ({ subject })) });
    throw unauthorized();
  }
  await db.prisma.loginFailure.deleteMany({ where: { subject: { in: [pair, `email:${email}`] } } });
  const { id, name, plan, suspendedAt } = user.account;
  if (suspendedAt) throw forbidden();
  return { id: user.id, email: user.email, role: user.role, account: { id, name, plan } };
}

async function refuseWhenThrottled(db: Database, subjects: string[]): Promise<void> {
  const rows = await db.query<{ wait: number }>({
    text: `SELECT ceil(extract(epoch FROM max(at) + make_interval(secs => $2) - now()))::int AS wait
             FROM (SELECT subject, at, row_number() OVER (PARTITION BY subject ORDER BY at DESC) AS nth
                     FROM login_failures WHERE subject = ANY($1) AND at > now() - make_interval(secs => $2)) recent
            WHERE nth = ($3::jsonb ->> split_part(subject, ':', 1))::int GROUP BY subject`,
    values: [subjects, windowSeconds, JSON.stringify(failuresAllowed)],
  });
  if (rows.length > 0) {
    const wait = Math.max(1, ...rows.map((row) => row.wait));
    const minutes = Math.ceil(wait / 60);
    throw rateLimited(wait, `too many failed logins for this email or from this address: try again in ${minutes} min`);
  }
}

/**
 * The role of the user whom a token names, issued at `issuedAt` (Unix seconds); null when the token does not count any
 * more: there is no such user in that account, or the password was changed since.
 *
 * @throws ApiError 403 when the account is suspended
 */
export async function currentRole(
  db: Database,
  token: { userId: string; accountId: string; issuedAt: number },
): Promise<Role | null> {
  const user = await db.prisma.user.findFirst({
    where: { id: token.userId, accountId: token.accountId },
    select: { passwordChangedAt: true, role: true, account: { select: { suspendedAt: true } } },
  });
  if (!user || token.issuedAt < Math.floor(user.passwordChangedAt.getTime() / 1000)) return null;
  if (user.account.suspendedAt) throw forbidden();
  return user.role;
}

/** Forgets failed logins that no longer count. */
export async function forgetOldFailures(db: Database): Promise<void> {
  await db.query({
    text: 'DELETE FROM login_failures WHERE at < now() - make_interval(secs => $1)',
    values: [windowSeconds],
  });
}
