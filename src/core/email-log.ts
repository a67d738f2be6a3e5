import type { Database } from '../db/client.ts';
import { notFound } from '../errors.ts';
import type { Attempt, Email, Recipient } from '../generated/prisma/client.ts';
import { isId } from '../ids.ts';

/** One page of the account's emails, newest first, and how many there are. */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number },
): Promise<{ emails: Email[]; count: number }> {
  const [emails, count] = await Promise.all([
    db.prisma.email.findMany({ where: { accountId }, orderBy: { id: 'desc' }, take: page.limit, skip: page.offset }),
    db.prisma.email.count({ where: { accountId } }),
  ]);
  return { emails, count };
}

/** The same over all accounts, for the operator. */
export async function listAll(
  db: Database,
  page: { limit: number; offset: number; accountId: string | null },
): Promise<{ emails: Email[]; count: number }> {
  const where = page.accountId ? { accountId: page.accountId } : {};
  const [emails, count] = await Promise.all([
    db.prisma.email.findMany({ where, orderBy: { id: 'desc' }, take: page.limit, skip: page.offset }),
    db.prisma.email.count({ where }),
  ]);
  return { emails, count };
}

/** @throws ApiError 404 */
export async function get(
  db: Database,
  accountId: string,
  id: string,
): Promise<{ email: Email; recipients: Recipient[] }> {
  const email = await find(db, accountId, id);
  const recipients = await db.prisma.recipient.findMany({ where: { emailId: id }, orderBy: { position: 'asc' } });
  return { email, recipients };
}

/**
 * Every SMTP attempt of the email, oldest first: one entry for each recipient and each MX host tried.
 *
 * @throws ApiError 404
 */
export async function attempts(db: Database, accountId: string, id: string): Promise<Attempt[]> {
  await find(db, accountId, id);
  return db.prisma.attempt.findMany({ where: { emailId: id }, orderBy: [{ at: 'asc' }, { id: 'asc' }] });
}

async function find(db: Database, accountId: string, id: string): Promise<Email> {
  const email = isId(id) ? await db.prisma.email.findFirst({ where: { id, accountId } }) : null;
  if (!email) throw notFound();
  return email;
}
