import type { Database, Sql } from '../../db/client.ts';
import { invalidRequest, notFound } from '../../errors.ts';
import type { Role } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import { turnOfLastAdmin } from './accounts.ts';
import * as loginAttempts from './login-attempts.ts';
import { changedNow, hashFor } from './passwords.ts';
import { spellingsOf, withNewEmail } from './users.ts';

/** A user as operators see it. */
export interface Member {
  id: string;
  accountId: string;
  email: string;
  role: Role;
  createdAt: Date;
}

const shown = { id: true, accountId: true, email: true, role: true, createdAt: true } as const;

/** One page of the users of an account, or of all accounts, oldest first. */
export async function list(
  db: Database,
  accountId: string | null,
  page: { limit: number; offset: number },
): Promise<{ users: Member[]; count: number }> {
  const where = accountId === null ? {} : { accountId };
  const [take, skip] = [page.limit, page.offset];
  const users = await db.prisma.user.findMany({ where, orderBy: { id: 'asc' }, take, skip, select: shown });
  return { users, count: await db.prisma.user.count({ where }) };
}

/** @throws ApiError 400 when the email already belongs to a user of any account, or is the password */
export async function add(
  db: Database,
  accountId: string,
  { email, password, role }: { email: string; password: string; role: Role },
): Promise<Member> {
  const passwordHash = await hashFor(email, password);
  const data = { id: newId(), accountId, email, passwordHash, role };
  return withNewEmail(db, email, () => db.prisma.user.create({ data, select: shown }));
}

/**
 * Gives a user a new password without asking for the old one, and ends every login. Failed attempts are forgotten.
 *
 * @throws ApiError 404, or 400 when the password is the user's address
 */
export async function setPassword(db: Database, email: string, password: string): Promise<Member> {
  const { id, email: stored } = await find(db, email);
  const passwordHash = await hashFor(stored, password);
  return db.transaction(async (tx) => {
    const [user] = await tx.query<Member>({
      text: `UPDATE users SET password_hash = $2, password_changed_at = ${changedNow}
              WHERE id = $1 RETURNING id, account_id AS "accountId", email, role, created_at AS "createdAt"`,
      values: [id, passwordHash],
    });
    if (!user) throw nobody(email);
    const [, canonical] = spellingsOf(user.email);
    await loginAttempts.forgetAllOf(tx, { email: canonical, userId: user.id });
    return user;
  });
}

/**
 * Removes a user and ends their logins at once. Everything of the account stays, including its API keys.
 *
 * @throws ApiError 404, or 400 when nobody could log in as an admin afterwards
 */
export async function remove(db: Database, email: string): Promise<Member> {
  const user = await find(db, email);
  await db.transaction(async (tx) => {
    if (user.role === 'admin') await demandAnotherAdmin(tx, user.id);
    const gone = await tx.query({ text: 'DELETE FROM users WHERE id = $1 RETURNING id', values: [user.id] });
    if (gone.length === 0) throw nobody(email);
  });
  return user;
}

/** The user with this email, in any spelling. @throws ApiError 404 */
async function find(db: Database, email: string): Promise<Member> {
  const spellings = spellingsOf(email);
  const found = await db.prisma.user.findMany({ where: { email: { in: spellings } }, select: shown });
  const [written] = spellings;
  const user = found.find((one) => one.email === written) ?? found[0];
  if (!user) throw nobody(email);
  return user;
}

const nobody = (email: string) => notFound(`user: nobody logs in with ${JSON.stringify(email)}`);

async function demandAnotherAdmin(tx: Sql, userId: string): Promise<void> {
  await tx.query(turnOfLastAdmin);
  const admins = await tx.query<{ id: string }>({
    text: `SELECT u.id FROM users u JOIN accounts a ON a.id = u.account_id
            WHERE u.role = 'admin' AND u.password_hash <> '' AND a.suspended_at IS NULL`,
  });
  if (!admins.some(({ id }) => id !== userId))
    throw invalidRequest('this is the only admin: add another one first, with sendwright users add --admin');
}
