import type { Database } from '../db/client.ts';
import { notFound } from '../errors.ts';
import type { Attempt, Email, EmailStatus, EmailType, Recipient } from '../generated/prisma/client.ts';
import { floorId, isId } from '../ids.ts';

/** What a log is searched by; null: whatever. Addresses, names and words in lower case. */
export interface Filter {
  /** Null only for the operator's log of all accounts. */
  accountId: string | null;
  status: EmailStatus | null;
  type: EmailType | null;
  tag: string | null;
  from: string | null;
  to: string | null;
  domain: string | null;
  /** Words that the subject has, all of them. */
  q: string | null;
  createdAfter: Date | null;
  createdBefore: Date | null;
}

export interface Page {
  limit: number;
  offset: number;
  /** The id of the last email of the page before; null: from the newest on. */
  cursor: string | null;
}

/**
 * One page of the emails that match, newest first, how many match in all, and where the next page begins (null when there is
 * none).
 */
export async function list(
  db: Database,
  filter: Filter,
  page: Page,
): Promise<{ emails: Email[]; count: number; nextCursor: string | null }> {
  const { where, values } = conditions(filter);
  const after = values.length + 1;
  const [ids, [counted]] = await Promise.all([
    db.query<{ id: string }>({
      text: `SELECT id FROM emails WHERE ${where} AND ($${after}::uuid IS NULL OR id < $${after})
              ORDER BY id DESC LIMIT $${after + 1} OFFSET $${after + 2}`,
      values: [...values, page.cursor, page.limit + 1, page.offset],
    }),
    db.query<{ count: number }>({ text: `SELECT count(*)::int AS count FROM emails WHERE ${where}`, values }),
  ]);
  const shown = ids.slice(0, page.limit).map((row) => row.id);
  const emails = await db.prisma.email.findMany({ where: { id: { in: shown } }, orderBy: { id: 'desc' } });
  return { emails, count: counted?.count ?? 0, nextCursor: ids.length > page.limit ? (shown.at(-1) ?? null) : null };
}

/** Only what is asked for stands in the statement, so that the planner sees which index serves. */
function conditions(filter: Filter): { where: string; values: unknown[] } {
  const values: unknown[] = [];
  const parts = ['true'];
  const add = (value: unknown, condition: (parameter: string) => string) => {
    if (value === null) return;
    values.push(value);
    parts.push(condition(`$${values.length}`));
  };
  add(filter.accountId, (p) => `account_id = ${p}`);
  add(filter.status, (p) => `status = ${p}::email_status`);
  add(filter.type, (p) => `type = ${p}::email_type`);
  add(filter.tag, (p) => `tags @> ARRAY[${p}]`);
  add(filter.from, (p) => `from_address = ${p}`);
  add(filter.to, (p) => `recipient_addresses @> ARRAY[${p}]`);
  add(filter.domain, (p) => `from_domain = ${p}`);
  add(filter.q, (p) => `to_tsvector('simple', subject) @@ plainto_tsquery('simple', ${p})`);
  // Ids are made in the order of time: a time is a place among them.
  add(filter.createdAfter && floorId(filter.createdAfter), (p) => `id >= ${p}::uuid`);
  add(filter.createdBefore && floorId(filter.createdBefore), (p) => `id < ${p}::uuid`);
  return { where: parts.join(' AND '), values };
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
