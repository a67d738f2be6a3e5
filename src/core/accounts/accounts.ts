import { hashPassword } from '../../crypto/password.ts';
import type { Database, Sql } from '../../db/client.ts';
import { ApiError, invalidRequest, notFound } from '../../errors.ts';
import { type Account, Prisma } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';
import { StartError } from '../../process/start-error.ts';
import type { Idempotency } from './idempotency.ts';
import * as idempotency from './idempotency.ts';
import { hashFor } from './passwords.ts';
import type { PlanName } from './plans.ts';
import { spellingsOf, withNewEmail } from './users.ts';

/** The user that a new database begins with. */
export interface Admin {
  accountId: string;
  userId: string;
  email: string;
  /** False: nobody can log in as this user yet. */
  hasPassword: boolean;
}

/**
 * Creates the first account and its admin user if there is no admin yet. The admin has no password until
 * `giveFirstPassword` sets one; until then the user's email follows `email`, unless it belongs to another user.
 *
 * @throws StartError when there is no admin yet, and the email belongs to another user
 */
export async function ensureAdmin(db: Database, email: string): Promise<Admin> {
  const spellings = spellingsOf(email);
  return db.transaction(async (tx) => {
    // Two nodes that start on one empty database must not both create an admin.
    await tx.query({ text: `SELECT pg_advisory_xact_lock(hashtext('sendwright first admin'))` });
    await tx.query({
      text: `UPDATE users u SET email = $1
              WHERE role = 'admin' AND password_hash = '' AND email <> $1
                AND NOT EXISTS (SELECT FROM users other WHERE other.email = ANY($2) AND other.id <> u.id)`,
      values: [email, spellings],
    });
    const [admin] = await tx.query<Admin>({
      text: `SELECT account_id AS "accountId", id AS "userId", email, password_hash <> '' AS "hasPassword"
               FROM users WHERE role = 'admin' ORDER BY id LIMIT 1`,
    });
    if (admin) return admin;
    const owners = await tx.query({ text: 'SELECT FROM users WHERE email = ANY($1)', values: [spellings] });
    if (owners.length > 0)
      throw new StartError(
        `ADMIN_EMAIL ${email} belongs to a user who is not an admin: set it to another email address`,
      );
    const [accountId, userId] = [newId(), newId()];
    await tx.query({
      text: `INSERT INTO accounts (id, name, plan) VALUES ($1, 'Admin', 'unlimited')`,
      values: [accountId],
    });
    await tx.query({
      text: `INSERT INTO users (id, account_id, email, password_hash, role) VALUES ($1, $2, $3, '', 'admin')`,
      values: [userId, accountId, email],
    });
    return { accountId, userId, email, hasPassword: false };
  });
}

/**
 * Gives a password to an admin that has none.
 *
 * @param show called when only the commit is left to do: a process that dies at any moment never leaves a password in
 *   force that was not shown. At worst it shows one that never comes into force.
 * @returns false, without calling `show`, if another process was faster
 */
export async function giveFirstPassword(
  db: Database,
  userId: string,
  password: string,
  show: () => void = () => {},
): Promise<boolean> {
  const passwordHash = await hashPassword(password);
  return db.transaction(async (tx) => {
    const given = await tx.query({
      text: `UPDATE users SET password_hash = $2 WHERE id = $1 AND password_hash = '' RETURNING id`,
      values: [userId, passwordHash],
    });
    if (given.length > 0) show();
    return given.length > 0;
  });
}

export interface NewAccount {
  name: string;
  plan: PlanName;
  user: { email: string; password: string };
}

/**
 * Creates an account with its first member.
 *
 * @throws ApiError 400 when the email already belongs to a user, or is the password
 */
export async function create(db: Database, input: NewAccount): Promise<Account> {
  const { name, plan } = input;
  const { email, password } = input.user;
  const passwordHash = await hashFor(email, password);
  const user = { id: newId(), email, passwordHash, role: 'member' } as const;
  const data = { id: newId(), name, plan, users: { create: user } };
  return withNewEmail(db, email, () => db.prisma.account.create({ data }));
}

/**
 * Finds an account by the name an operator gives: its id, or the email of one of its users; null means the account of
 * the first admin.
 *
 * @throws ApiError 404
 */
export async function find(db: Database, name: string | null): Promise<Account> {
  if (name !== null && isId(name)) return get(db, name);
  const user = await db.prisma.user.findFirst({
    where: name === null ? { role: 'admin' } : { email: { in: spellingsOf(name) } },
    orderBy: { id: 'asc' },
    include: { account: true },
  });
  if (!user) throw notFound(`account: there is none called ${JSON.stringify(name ?? 'admin')}`);
  return user.account;
}

/** @throws ApiError 404 */
export async function get(db: Database, id: string): Promise<Account> {
  const account = isId(id) ? await db.prisma.account.findUnique({ where: { id } }) : null;
  if (!account) throw notFound();
  return account;
}

/**
 * Changes the given fields and leaves the rest. The members of a suspended account cannot log in, its keys are refused,
 * and its queued emails fail when their turn comes.
 *
 * @throws ApiError 404, or 400 when nobody could log in as an admin afterwards
 */
export async function change(
  db: Database,
  id: string,
  input: { name?: string | undefined; plan?: PlanName | undefined; suspended?: boolean | undefined },
): Promise<Account> {
  const account = await get(db, id);
  await db.transaction(async (tx) => {
    if (input.suspended) await demandOtherAdmin(tx, account.id);
    await tx.query({
      text: `UPDATE accounts
                SET name = coalesce($2, name), plan = coalesce($3, plan),
                    suspended_at = CASE $4::boolean WHEN true THEN coalesce(suspended_at, now()) WHEN false THEN NULL ELSE suspended_at END
              WHERE id = $1`,
      values: [account.id, input.name, input.plan, input.suspended],
    });
  });
  return get(db, account.id);
}

/** Serializes changes that take an admin away: each must see what the one before has left. */
export const turnOfLastAdmin = { text: `SELECT pg_advisory_xact_lock(hashtext('sendwright last admin'))` };

async function demandOtherAdmin(tx: Sql, accountId: string): Promise<void> {
  await tx.query(turnOfLastAdmin);
  // Locked in one order: two admins who suspend each other at the same moment must not both succeed.
  const admins = await tx.query<{ id: string; usable: boolean }>({
    text: `SELECT id, suspended_at IS NULL AND EXISTS (
                    SELECT FROM users u WHERE u.account_id = a.id AND u.role = 'admin' AND u.password_hash <> '') AS usable
             FROM accounts a
            WHERE EXISTS (SELECT FROM users u WHERE u.account_id = a.id AND u.role = 'admin')
            ORDER BY id FOR NO KEY UPDATE`,
  });
  // That of an admin without a password counts, too: it is the one who is given a password at the next start.
  if (admins.some(({ id }) => id === accountId) && !admins.some(({ id, usable }) => usable && id !== accountId))
    throw invalidRequest(
      'this is the account of the only admin: if it is suspended, nobody can log in to run the service. If others know its keys or its password, revoke the keys or change the password',
    );
}

/**
 * Adds to an account's credit, once for each idempotency key of the operator's account `by`.
 *
 * @param respond makes the answer, which is also given to repeated calls with the key
 * @throws ApiError 404; 409 when the key was used with another request
 */
export async function topUp(
  db: Database,
  { id, amount }: { id: string; amount: number },
  call: { by: string; idempotency: Idempotency | null; respond: (account: Account) => unknown },
): Promise<{ response: unknown; replayed: boolean }> {
  const account = await get(db, id);
  const keyed = call.idempotency ? [call.idempotency] : [];
  // Nothing is read after the commit: if that failed, a caller without a key would ask again and add the amount twice.
  return db.transaction(async (tx) => {
    const [turn = 'first'] = await idempotency.take(tx, call.by, keyed);
    if (turn instanceof ApiError) throw turn;
    if (turn !== 'first') return { ...turn, replayed: true };
    const [topped] = await tx.query<{ credit: string }>({
      text: 'UPDATE accounts SET credit = credit + $2::numeric WHERE id = $1 RETURNING credit',
      values: [id, amount],
    });
    if (!topped) throw notFound();
    const response = call.respond({ ...account, credit: new Prisma.Decimal(topped.credit) });
    await idempotency.keep(
      tx,
      call.by,
      keyed.map(({ key }) => ({ key, response })),
      [],
    );
    return { response, replayed: false };
  });
}
