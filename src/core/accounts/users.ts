import { domainToUnicode } from 'node:url';
import type { Database } from '../../db/client.ts';
import { databaseCodeOf } from '../../db/errors.ts';
import { accountSuspended, invalidRequest, unauthorized } from '../../errors.ts';
import type { Role } from '../../generated/prisma/enums.ts';
import { networkOf } from '../../ip.ts';
import { AddressError, parseMailbox } from '../../mail/address/address.ts';
import type { Subject } from './login-attempts.ts';
import * as loginAttempts from './login-attempts.ts';
import * as passwords from './passwords.ts';

/** Somebody who logs in, with their account. */
export interface User {
  id: string;
  email: string;
  role: Role;
  account: { id: string; name: string; plan: string };
  /** Tokens name it: they are invalid once it has changed. */
  passwordChangedAt: Date;
}

/**
 * Checks an email and a password. An unknown email and a wrong password give the same 401 after the same work.
 *
 * @param address the client's address. In 15 minutes ten failures for one email from one address, 100 from one address (which
 *   may be a whole office's; an IPv6 /64) or 300 for one email end in a 429. The database counts for all nodes together.
 * @throws ApiError 401, 403 when the account is suspended, or 429
 */
export async function login(db: Database, input: { email: string; password: string; address: string }): Promise<User> {
  const spellings = spellingsOf(input.email);
  const [written, canonical] = spellings;
  // Ten tries per email and address: the low limit is per pair, so that strangers cannot easily lock the owner out.
  const network = networkOf(input.address);
  const own: Subject[] = [`pair:${network} ${canonical}`, `email:${canonical}`];
  const attempt = await loginAttempts.begin(db, [...own, `address:${network}`]);
  const { user, isRight } = await attempt.look(async () => {
    const found = await db.prisma.user.findMany({
      where: { email: { in: spellings } },
      include: { account: true },
    });
    const known = found.find((one) => one.email === written) ?? found[0];
    return { user: known, isRight: await passwords.check(input.password, known?.passwordHash ?? null) };
  });
  if (!isRight || !user) throw unauthorized('no user has this email and this password');
  await attempt.succeeded(own);
  return currentOf(user);
}

/**
 * Runs `insert`, which stores a user with this email. Each email belongs to one user across all accounts.
 *
 * @throws ApiError 400 when a user has it already, in any spelling
 */
export async function withNewEmail<T>(db: Database, email: string, insert: () => Promise<T>): Promise<T> {
  const where = { email: { in: spellingsOf(email) } };
  if (await db.prisma.user.findFirst({ where, select: { id: true } })) throw emailTaken();
  try {
    return await insert();
  } catch (error) {
    // Another call has stored it since.
    if (databaseCodeOf(error) === 'P2002') throw emailTaken();
    throw error;
  }
}

const emailTaken = () => invalidRequest('email: belongs to a user already');

/**
 * All forms that an email may be stored in. Emails are stored in the canonical form, except that of the first admin, which
 * is stored as it was configured: its domain may be in Unicode.
 */
export function spellingsOf(email: string): [written: string, canonical: string, inUnicode: string] {
  const canonical = canonicalOf(email);
  const domainAt = canonical.lastIndexOf('@') + 1;
  const inUnicode = canonical.slice(0, domainAt) + domainToUnicode(canonical.slice(domainAt));
  return [email.toLowerCase(), canonical, inUnicode];
}

/** In lower case, with A-labels. A non-address (admin@localhost) is only lowercased. */
function canonicalOf(email: string): string {
  try {
    return parseMailbox(email).address.toLowerCase();
  } catch (error) {
    if (error instanceof AddressError) return email.toLowerCase();
    throw error;
  }
}

/** What a token says of a login; `id` is null if it has none. */
interface Token {
  id: string | null;
  userId: string;
  accountId: string;
  /** When the password had last been changed, in ms. */
  passwordAt: number;
}

/**
 * The user whom a token names. Null when the token is no longer valid: that account has no such user, the password has
 * changed since, or the login was ended.
 *
 * @throws ApiError 403 when the account is suspended
 */
export async function currentUser(db: Database, token: Token): Promise<User | null> {
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

/** Those of many tokens for which `currentUser` would return a user, with one statement for all of them. */
export async function currentAmong<T extends Token>(db: Database, tokens: readonly T[]): Promise<Set<T>> {
  const rows = await db.query<{ place: number; passwordChangedAt: Date }>({
    name: 'current-tokens',
    text: `SELECT token.place::int, password_changed_at AS "passwordChangedAt"
             FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS token (id, user_id, account_id, place)
             JOIN users ON users.id = token.user_id AND users.account_id = token.account_id
             JOIN accounts ON accounts.id = token.account_id
            WHERE suspended_at IS NULL AND NOT EXISTS (SELECT FROM ended_sessions WHERE ended_sessions.id = token.id)`,
    values: [tokens.map(({ id }) => id), tokens.map(({ userId }) => userId), tokens.map(({ accountId }) => accountId)],
  });
  const current = rows.flatMap(({ place, passwordChangedAt }) => {
    const token = tokens[place - 1];
    return token?.passwordAt === passwordChangedAt.getTime() ? [token] : [];
  });
  return new Set(current);
}

type Row = Omit<User, 'account'> & { account: User['account'] & { suspendedAt: Date | null } };

/** @throws ApiError 403 when the account is suspended */
function currentOf({ id, email, role, passwordChangedAt, account }: Row): User {
  if (account.suspendedAt) throw accountSuspended();
  const { id: accountId, name, plan } = account;
  return { id, email, role, account: { id: accountId, name, plan }, passwordChangedAt };
}
