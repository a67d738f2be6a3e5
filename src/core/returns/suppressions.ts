import type { Database, Sql } from '../../db/client.ts';
import { notFound } from '../../errors.ts';
import type { Suppression } from '../../generated/prisma/client.ts';
import type { EmailType, SuppressionReason } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import { AddressError, comparable, parseMailbox } from '../../mail/address.ts';
import { refuseText } from '../../mail/characters.ts';

/** Somebody who unsubscribed still gets what is not marketing; every other reason stands for all mail. */
const applies = (reason: SuppressionReason, type: EmailType) => reason !== 'unsubscribe' || type === 'marketing';

/** Those of the addresses that mail of this type does not go to, of what `find` found. */
export function among(addresses: string[], found: ReadonlyMap<string, SuppressionReason>, type: EmailType) {
  return addresses.flatMap((address) => {
    const reason = found.get(comparable(address));
    return reason && applies(reason, type) ? [{ address, reason }] : [];
  });
}

/** Those of the addresses that are on the account's list, in their comparable form. */
export async function find(db: Sql, accountId: string, addresses: string[]): Promise<Map<string, SuppressionReason>> {
  const rows = await db.query<{ address: string; reason: SuppressionReason }>({
    name: 'suppressions-find',
    text: 'SELECT address, reason FROM suppressions WHERE account_id = $1 AND address = ANY($2)',
    values: [accountId, [...new Set(addresses.map(comparable))]],
  });
  return new Map(rows.map((row) => [row.address, row.reason]));
}

/** Puts an address on the list. Where it is on it already, only "unsubscribe" gives way, to any reason that says more. */
export async function add(
  db: Database,
  accountId: string,
  input: { address: string; reason: SuppressionReason },
): Promise<Suppression> {
  const address = comparable(input.address);
  // In one transaction: what is on the list is locked, also where nothing of it changes, so nobody takes it off meanwhile.
  const [entry] = await db.transaction(async (tx) => {
    await addAll(tx, [{ accountId, address, reason: input.reason, emailId: null }]);
    return tx.query<Suppression>({
      text: `SELECT id, account_id AS "accountId", address, reason, email_id AS "emailId", created_at AS "createdAt"
               FROM suppressions WHERE account_id = $1 AND address = $2`,
      values: [accountId, address],
    });
  });
  if (!entry) throw new Error('an address is not on the list that was just put there');
  return entry;
}

/** The same for many, with one statement, as bounces and complaints come in; of several reasons for one address the same gives way. */
export async function addAll(
  db: Sql,
  entries: { accountId: string; address: string; reason: SuppressionReason; emailId: string | null }[],
): Promise<void> {
  if (entries.length === 0) return;
  await db.query({
    name: 'suppressions-add',
    text: `INSERT INTO suppressions (id, account_id, address, reason, email_id)
           SELECT DISTINCT ON (account_id, address) id, account_id, address, reason, email_id
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::suppression_reason[], $5::uuid[])
                  AS s (id, account_id, address, reason, email_id)
            ORDER BY account_id, address, (reason = 'unsubscribe')
           ON CONFLICT (account_id, address) DO UPDATE SET reason = excluded.reason, email_id = excluded.email_id
            WHERE suppressions.reason = 'unsubscribe' AND excluded.reason <> 'unsubscribe'`,
    values: [
      entries.map(() => newId()),
      entries.map((entry) => entry.accountId),
      entries.map((entry) => comparable(entry.address)),
      entries.map((entry) => entry.reason),
      entries.map((entry) => entry.emailId),
    ],
  });
}

/**
 * One page of the list, newest first.
 *
 * @param page its `parts`, in lower case: only addresses that have one of them in them; none: all
 */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number; reason: SuppressionReason | null; parts: string[] },
): Promise<{ suppressions: Suppression[]; count: number }> {
  const where = {
    accountId,
    ...(page.reason ? { reason: page.reason } : {}),
    ...(page.parts.length > 0 ? { OR: page.parts.map((part) => ({ address: { contains: literal(part) } })) } : {}),
  };
  const suppressions = await db.prisma.suppression.findMany({
    where,
    orderBy: { id: 'desc' },
    take: page.limit,
    skip: page.offset,
  });
  const count = await db.prisma.suppression.count({ where });
  return { suppressions, count };
}

/** As a pattern that matches nothing but itself. */
const literal = (text: string) => text.replaceAll(/[\\%_]/g, '\\$&');

const exportedAtOnce = 5_000;

/** All of the list, newest first, some at a time, however long it is. */
export async function* exported(db: Database, accountId: string): AsyncGenerator<Suppression[]> {
  let before: string | null = null;
  do {
    const some: Suppression[] = await db.prisma.suppression.findMany({
      where: { accountId, ...(before ? { id: { lt: before } } : {}) },
      orderBy: { id: 'desc' },
      take: exportedAtOnce,
    });
    yield some;
    before = some.length === exportedAtOnce ? (some.at(-1)?.id ?? null) : null;
  } while (before !== null);
}

/** @throws ApiError 404 when the address is not on the list */
export async function remove(db: Database, accountId: string, address: string): Promise<void> {
  // What could not have been put on the list is not looked for: PostgreSQL takes no NUL and no half characters.
  const findable = refuseText(address) === null;
  const where = { accountId, address: comparable(canonical(address)) };
  if (!findable || (await db.prisma.suppression.deleteMany({ where })).count === 0) throw notFound();
}

/** As it was put on the list: a domain in its A-labels. What is no address stays as it is, and is not found. */
function canonical(address: string): string {
  try {
    return parseMailbox(address).address;
  } catch (error) {
    if (error instanceof AddressError) return address;
    throw error;
  }
}
