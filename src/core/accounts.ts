import type { Database } from '../db/client.ts';
import { invalidRequest, notFound } from '../errors.ts';
import type { Account } from '../generated/prisma/client.ts';
import { isId, newId } from '../ids.ts';
import { hashPassword } from '../password.ts';
import type { PlanName } from './plans.ts';

/**
 * Creates the first account and its admin user where there is no admin yet.
 *
 * @returns the account, and whether this call created it
 */
export async function ensureAdmin(
  db: Database,
  input: { email: string; password: string },
): Promise<{ accountId: string; email: string; created: boolean }> {
  const existing = await findAdmin(db);
  if (existing) return { ...existing, created: false };
  const passwordHash = await hashPassword(input.password);
  return db.transaction(async (tx) => {
    // Two nodes that start on one empty database must not both create an admin.
    await tx.query({ text: `SELECT pg_advisory_xact_lock(hashtext('sendwright first admin'))` });
    const [row] = await tx.query<{ account_id: string; email: string }>({
      text: `SELECT account_id, email FROM users WHERE role = 'admin' LIMIT 1`,
    });
    if (row) return { accountId: row.account_id, email: row.email, created: false };
    const accountId = newId();
    await tx.query({
      text: `INSERT INTO accounts (id, name, plan) VALUES ($1, 'Admin', 'unlimited')`,
      values: [accountId],
    });
    await tx.query({
      text: `INSERT INTO users (id, account_id, email, password_hash, role) VALUES ($1, $2, $3, $4, 'admin')`,
      values: [newId(), accountId, input.email, passwordHash],
    });
    return { accountId, email: input.email, created: true };
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
 * @throws ApiError 400 when the email belongs to a user already
 */
export async function create(db: Database, input: NewAccount): Promise<Account> {
  const passwordHash = await hashPassword(input.user.password);
  const id = newId();
  await db.transaction(async (tx) => {
    await tx.query({
      text: 'INSERT INTO accounts (id, name, plan) VALUES ($1, $2, $3)',
      values: [id, input.name, input.plan],
    });
    const [user] = await tx.query({
      text: `INSERT INTO users (id, account_id, email, password_hash, role) VALUES ($1, $2, $3, $4, 'member')
             ON CONFLICT (email) DO NOTHING RETURNING id`,
      values: [newId(), id, input.user.email, passwordHash],
    });
    if (!user) throw invalidRequest('email: belongs to a user already');
  });
  return get(db, id);
}

/** One page of all accounts, newest first. */
export async function list(
  db: Database,
  page: { limit: number; offset: number },
): Promise<{ accounts: Account[]; count: number }> {
  const [accounts, count] = await Promise.all([
    db.prisma.account.findMany({ orderBy: { id: 'desc' }, take: page.limit, skip: page.offset }),
    db.prisma.account.count(),
  ]);
  return { accounts, count };
}

/** @throws ApiError 404 */
export async function get(db: Database, id: string): Promise<Account> {
  const account = isId(id) ? await db.prisma.account.findUnique({ where: { id } }) : null;
  if (!account) throw notFound();
  return account;
}

/**
 * Changes what is given and leaves the rest. A suspended account's members cannot log in, its keys are refused, and what
 * it has queued fails when its turn comes.
 *
 * @throws ApiError 404
 */
export async function change(
  db: Database,
  id: string,
  input: { name?: string | undefined; plan?: PlanName | undefined; suspended?: boolean | undefined },
): Promise<Account> {
  const { suspendedAt } = await get(db, id);
  const { name, plan, suspended } = input;
  await db.prisma.account.updateMany({
    where: { id },
    data: {
      ...(name === undefined ? {} : { name }),
      ...(plan === undefined ? {} : { plan }),
      ...(suspended === undefined ? {} : { suspendedAt: suspended ? (suspendedAt ?? new Date()) : null }),
    },
  });
  return get(db, id);
}

/**
 * Adds to the account's credit.
 *
 * @throws ApiError 404
 */
export async function topUp(db: Database, id: string, amount: number): Promise<Account> {
  await get(db, id);
  await db.prisma.account.updateMany({ where: { id }, data: { credit: { increment: amount } } });
  return get(db, id);
}

async function findAdmin(db: Database): Promise<{ accountId: string; email: string } | null> {
  return db.prisma.user.findFirst({
    where: { role: 'admin' },
    orderBy: { id: 'asc' },
    select: { accountId: true, email: true },
  });
}
