import * as accounts from '../core/accounts/accounts.ts';
import type { Database } from '../db/client.ts';
import { ApiError, notFound } from '../errors.ts';
import type { Account } from '../generated/prisma/client.ts';

/**
 * The account that `--account` names; without `--account`, the first admin's account.
 *
 * @throws ApiError 404
 */
export async function accountOf(db: Database, name: string | undefined): Promise<Account> {
  try {
    return await accounts.find(db, name ?? null);
  } catch (error) {
    if (name !== undefined || !(error instanceof ApiError)) throw error;
    throw notFound('there is no admin yet, whose account would be the default: the first npm start creates one');
  }
}
