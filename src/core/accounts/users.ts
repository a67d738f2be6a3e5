import type { Database } from '../../db/client.ts';
import { accountSuspended, invalidRequest, unauthorized } from '../../errors.ts';
import type { Role } from '../../generated/prisma/enums.ts';
import { networkOf } from '../../ip.ts';
import { AddressError, parseMailbox } from '../../mail/address.ts';
import type { Subject } from './login-attempts.ts';
import * as loginAttempts from './login-attempts.ts';
import * as passwords from './passwords.ts';

export interface User {
  id: string;
  email: string;
  role: Role;
  account: { id: string; name: string; plan: string };
  /** Tokens name it, and are over when it is another one. */
  passwordChangedAt: Date;
}

/**
 * Checks an email and a password. An unknown email and a wrong password are the same 401 after the same work.
 *
 * @param address the client's address: in 15 minutes ten failures for one email from one address, a hundred from one
 *   address, which may be that of a whole office (of IPv6 a /64), or 300 for one email end in a 429; counted in the database, so on all nodes together
 * @throws ApiError 401, 403 when the account is suspended, or 429
 */
export async function login(db: Database, input: { email: string; password: string; address: string }): Promise<User> {
  // Failures count for the one form that all spellings of an email have.
  const [written, email] = emailsOf(input.email);
  // An email is tried from one address ten times; whoever knows the email alone cannot keep its owner out so easily.
  const network = networkOf(input.address);
  const own: Subject[] = [`pair:${network} ${email}`, `email:${email}`];
  const attempt = await loginAttempts.begin(db, [...own, `address:${network}`]);
  const { user, isRight } = await attempt.look(async () => {
    const found = await db.prisma.user.findMany({
      where: { email: { in: [written, email] } },
      include: { account: true },
    });
    const known = found.find((one) => one.email === written) ?? found[0];
    return { user: known, isRight: await passwords.check(input.password, known?.passwordHash ?? null) };
  });
  if (!isRight || !user) throw unauthorized('no user has this email and this password');
  await attempt.succeeded(own);
  return currentOf(user);
}

/** An email is one user's, of whichever account. */
export const emailTaken = () => invalidRequest('email: belongs to a user already');

/** As it may be stored: the first admin's as it was configured, which need not be an address in its A-labels; and all others'. */
export const emailsOf = (email: string): [written: string, canonical: string] => [
  email.toLowerCase(),
  canonical(email),
];

/** As a new user's email is stored: a domain in its A-labels. What is no address, as admin@localhost, is just in lower case. */
function canonical(email: string): string {
  try {
    return parseMailbox(email).address.toLowerCase();
  } catch (error) {
    if (error instanceof AddressError) return email.toLowerCase();
    throw error;
  }
}

/**
 * The user whom a token names; null when the token does not count any more: there is
 * no such user in that account, the password was changed since, or this login was ended.
 *
 * @throws ApiError 403 when the account is suspended
 */
export async function currentUser(
  db: Database,
  token: { id: string | null; userId: string; accountId: string; passwordAt: number },
): Promise<User | null> {
  const [user, ended] = await Promise.all([
    db.prisma.user.findFirst({
      where: { id: token.userId, accountId: token.accountId },
      include: { account: true },
      omit: { passwordHash: true },
    }),
    token.id === null ? null : db.prisma.endedSession.findUnique({ where: { id: token.id } }),
  ]);
  if (!user || ended || token.passwordAt !== user.passwordChangedAt.getTime()) return null;
  return currentOf(user);
}

type Row = Omit<User, 'account'> & { account: User['account'] & { suspendedAt: Date | null } };

/** @throws ApiError 403 when the account is suspended */
function currentOf({ id, email, role, passwordChangedAt, account }: Row): User {
  if (account.suspendedAt) throw accountSuspended();
  const { id: accountId, name, plan } = account;
  return { id, email, role, account: { id: accountId, name, plan }, passwordChangedAt };
}
