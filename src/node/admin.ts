import type { Config } from '../config.ts';
import { ensureAdmin, giveFirstPassword } from '../core/accounts/accounts.ts';
import type { Database } from '../db/client.ts';

export interface Admin {
  accountId: string;
  userId: string;
  email: string;
  /** From an earlier start, ADMIN_PASSWORD at this one, or none yet, so that nobody can log in. */
  password: 'earlier' | 'configured' | 'none';
}

/** Sets no password that has to be generated: a start that fails after this must not have used it up. */
export async function prepareAdmin(db: Database, configured: Config['admin']): Promise<Admin> {
  const { hasPassword, ...admin } = await ensureAdmin(db, configured.email);
  if (hasPassword) return { ...admin, password: 'earlier' };
  if (configured.password === null) return { ...admin, password: 'none' };
  const given = await giveFirstPassword(db, admin.userId, configured.password);
  return { ...admin, password: given ? 'configured' : 'earlier' };
}
