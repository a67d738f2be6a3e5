import type { Database } from '../db/client.ts';
import { newId } from '../ids.ts';
import { hashPassword } from '../password.ts';

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

async function findAdmin(db: Database): Promise<{ accountId: string; email: string } | null> {
  return db.prisma.user.findFirst({
    where: { role: 'admin' },
    orderBy: { id: 'asc' },
    select: { accountId: true, email: true },
  });
}
