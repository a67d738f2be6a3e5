import type { Database, Sql } from '../../db/client.ts';
import { literal } from '../../db/pattern.ts';
import { notFound } from '../../errors.ts';
import type { Suppression } from '../../generated/prisma/client.ts';
import type { EmailType, SuppressionReason } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import { AddressError, comparable, parseMailbox } from '../../mail/address/address.ts';
import { refuseText } from '../../mail/text/characters.ts';

/** A reader who unsubscribed still gets mail that is not marketing; every other reason stops all mail. */
const applies = (reason: SuppressionReason, type: EmailType) => reason !== 'unsubscribe' || type === 'marketing';

/** The addresses that mail of this type must not go to, according to what `find` found. */
export function among(addresses: string[], found: ReadonlyMap<string, SuppressionReason>, type: EmailType) {
  return addresses.flatMap((address) => {
    const reason = found.get(comparable(address));
    return reason && applies(reason, type) ? [{ address, reason }] : [];
  });
}

/** The reasons for those of the addresses that are on the account's list, by comparable form. */
export async function find(db: Sql, accountId: string, addresses: string[]): Promise<Map<string, SuppressionReason>> {
  const rows = await db.query<{ address: string; reason: SuppressionReason }>({
    name: 'suppressions-find',
    text: 'SELECT address, reason FROM suppressions WHERE account_id = $1 AND address = ANY($2)',
    values: [accountId, [...new Set(addresses.map(comparable))]],
  });
  return new Map(rows.map((row) => [row.address, row.reason]));
}

const columns = `id, account_id AS "accountId", address, reason, email_id AS "emailId", created_at AS "createdAt", unsubscribed`;

/**
 * Puts an address on the list. If it is there already, only the reason "unsubscribe" is replaced, by any other reason. The entry
 * knows all the same that the owner has unsubscribed.
 */
export async function add(
  db: Database,
  accountId: string,
  input: { address: string; reason: SuppressionReason },
): Promise<Suppression> {
  const address = comparable(input.address);
  // In one transaction: `addAll` locks an existing entry even if it does not change it, so nobody removes it meanwhile.
  const [entry] = await db.transaction(async (tx) => {
    await addAll(tx, [{ accountId, address, reason: input.reason, emailId: null }]);
    return tx.query<Suppression>({
      text: `SELECT ${columns} FROM suppressions WHERE account_id = $1 AND address = $2`,
      values: [accountId, address],
    });
  });
  if (!entry) throw new Error('an address is not on the list that was just put there');
  return entry;
}

/** Like `add` for many at once, as bounces and complaints come in. Of several reasons for one address "unsubscribe" loses. */
export async function addAll(
  db: Sql,
  entries: { accountId: string; address: string; reason: SuppressionReason; emailId: string | null }[],
): Promise<void> {
  if (entries.length === 0) return;
  await db.query({
    name: 'suppressions-add',
    text: `INSERT INTO suppressions (id, account_id, address, reason, email_id, unsubscribed)
           SELECT DISTINCT ON (account_id, address) id, account_id, address, reason, email_id,
                  bool_or(reason = 'unsubscribe') OVER (PARTITION BY account_id, address)
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::suppression_reason[], $5::uuid[])
                  AS s (id, account_id, address, reason, email_id)
            ORDER BY account_id, address, (reason = 'unsubscribe')
           ON CONFLICT (account_id, address) DO UPDATE
              SET reason = CASE suppressions.reason WHEN 'unsubscribe' THEN excluded.reason ELSE suppressions.reason END,
                  email_id = CASE suppressions.reason WHEN 'unsubscribe' THEN excluded.email_id ELSE suppressions.email_id END,
                  unsubscribed = true
            WHERE CASE suppressions.reason WHEN 'unsubscribe' THEN excluded.reason <> 'unsubscribe'
                                           ELSE excluded.unsubscribed AND NOT suppressions.unsubscribed END`,
    values: [
      entries.map(() => newId()),
      entries.map((entry) => entry.accountId),
      entries.map((entry) => comparable(entry.address)),
      entries.map((entry) => entry.reason),
      entries.map((entry) => entry.emailId),
    ],
  });
}

/** So many are a good part of many a list: autovacuum would count them within a minute or two. */
const countedAtOnce = 1_000;

/**
 * Like `add` for a part of a file or of a call, of up to some thousands. While statistics are of a list with hardly an entry of this account,
 * PostgreSQL may read all that the account has to find one address, for each email. On a list of some millions that takes longer than
 * adding a part: of a large import the list is counted at the end, and each time that as much again was added.
 *
 * @param before how much of the same file was added before
 * @param all how much it is
 */
export async function addImported(
  db: Sql,
  accountId: string,
  imported: { address: string; reason: SuppressionReason }[],
  before = 0,
  all = imported.length,
): Promise<void> {
  await addAll(
    db,
    imported.map((entry) => ({ ...entry, accountId, emailId: null })),
  );
  const end = before + imported.length;
  const isDouble = Math.clz32(end) !== Math.clz32(before);
  if (all >= countedAtOnce && (end === all || isDouble)) await db.query({ text: 'ANALYZE (SKIP_LOCKED) suppressions' });
}

/**
 * Counting takes 20 ms up to here; a list of some millions would take seconds. Of those that contain a text, which are looked for in
 * the whole list, ten thousand are counted.
 */
const mostCounted = ({ parts }: { parts: string[] }) => (parts.length === 0 ? 100_000 : 10_000);

/**
 * One page of the list, newest first, and how many match; if `countExact` is false, there are more than that.
 *
 * @param page `parts`, in lower case: only addresses that contain one of them, or `areWhole`: that are one of them; empty: all
 * @param most where counting ends
 */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number; reason: SuppressionReason | null; parts: string[]; areWhole?: boolean },
  most = mostCounted(page),
): Promise<{ suppressions: Suppression[]; count: number; countExact: boolean }> {
  const { limit, offset, reason, parts, areWhole = false } = page;
  const values: unknown[] = [accountId];
  const where = ['account_id = $1'];
  if (reason !== null) where.push(`reason = $${values.push(reason)}::suppression_reason`);
  if (parts.length > 0) {
    const sought = areWhole ? parts : parts.map((part) => `%${literal(part)}%`);
    where.push(`address ${areWhole ? '=' : 'LIKE'} ANY ($${values.push(sought)}::text[])`);
  }
  const found = `FROM suppressions WHERE ${where.join(' AND ')}`;
  // A part of addresses is looked for in all of them: once, unless it is in many, of which the newest are found at once.
  const some = parts.length === 0 ? null : await findUpTo(db, found, values, most + 1);
  const few = some && some.length <= most ? some.sort().reverse() : null;
  const count = some?.length ?? (await countUpTo(db, found, values, most + 1));
  const isPage = few
    ? { text: 'ANY ($2::uuid[])', values: [few.slice(offset, offset + limit)] }
    : {
        // What comes before the page is counted in the index: no row of it is read.
        text: `ANY (ARRAY(SELECT id ${found} ORDER BY id DESC LIMIT $${values.length + 1} OFFSET $${values.length + 2}))`,
        values: [...values.slice(1), limit, offset],
      };
  const suppressions = await db.query<Suppression>({
    text: `SELECT ${columns} FROM suppressions WHERE account_id = $1 AND id = ${isPage.text} ORDER BY id DESC`,
    values: [accountId, ...isPage.values],
  });
  return { suppressions, count: Math.min(count, most), countExact: count <= most };
}

/** The ids of those that match, in no order. @param most where the search ends */
async function findUpTo(db: Sql, found: string, values: unknown[], most: number): Promise<string[]> {
  const rows = await db.query<{ id: string }>({
    text: `SELECT id ${found} LIMIT $${values.length + 1}`,
    values: [...values, most],
  });
  return rows.map(({ id }) => id);
}

/** @param most where counting ends */
async function countUpTo(db: Sql, found: string, values: unknown[], most: number): Promise<number> {
  const [row] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM (SELECT ${found} LIMIT $${values.length + 1}) counted`,
    values: [...values, most],
  });
  return row?.count ?? 0;
}

const exportedAtOnce = 5_000;

/**
 * The whole list, newest first, in batches. What is added meanwhile is not in it, and what is removed meanwhile may be missing.
 *
 * @returns count: how many there are at the moment of the first batch
 */
export async function exported(
  db: Sql,
  accountId: string,
): Promise<{ count: number; pages: AsyncGenerator<Suppression[]> }> {
  // One statement, and so one moment.
  const first = await db.query<Suppression & { count: number }>({
    text: `SELECT ${columns}, (SELECT count(*)::int FROM suppressions WHERE account_id = $1) AS count
             FROM suppressions WHERE account_id = $1 ORDER BY id DESC LIMIT ${exportedAtOnce}`,
    values: [accountId],
  });
  return { count: first[0]?.count ?? 0, pages: pagesFrom(db, accountId, first) };
}

async function* pagesFrom(db: Sql, accountId: string, first: Suppression[]): AsyncGenerator<Suppression[]> {
  for (let some = first; some.length > 0; ) {
    yield some;
    const last = some.length === exportedAtOnce ? some.at(-1) : undefined;
    if (!last) return;
    some = await db.query<Suppression>({
      text: `SELECT ${columns} FROM suppressions WHERE account_id = $1 AND id < $2
              ORDER BY id DESC LIMIT ${exportedAtOnce}`,
      values: [accountId, last.id],
    });
  }
}

/**
 * Takes an address off the list. If its owner has unsubscribed as well, which another reason hid, it stays there for that: whoever
 * is told that a mailbox works again does not ask for newsletters. A second call takes it off.
 *
 * @returns whether it stays
 * @throws ApiError 404 when the address is not on the list
 */
export async function remove(db: Database, accountId: string, address: string): Promise<{ unsubscribed: boolean }> {
  // An address that cannot be on the list is not looked up: PostgreSQL accepts no NUL and no lone surrogates.
  if (refuseText(address) !== null) throw notFound();
  return db.transaction(async (tx) => {
    const [entry] = await tx.query<{ id: string; stays: boolean }>({
      text: `SELECT id, unsubscribed AND reason <> 'unsubscribe' AS stays FROM suppressions
              WHERE account_id = $1 AND address = $2 FOR UPDATE`,
      values: [accountId, comparable(canonical(address))],
    });
    if (!entry) throw notFound();
    const { id, stays: unsubscribed } = entry;
    const text = unsubscribed
      ? `UPDATE suppressions SET reason = 'unsubscribe', email_id = NULL WHERE id = $1`
      : 'DELETE FROM suppressions WHERE id = $1';
    await tx.query({ text, values: [id] });
    return { unsubscribed };
  });
}

/** The form in which it was put on the list, with A-labels. A non-address stays as it is, and is not found. */
function canonical(address: string): string {
  try {
    return parseMailbox(address).address;
  } catch (error) {
    if (error instanceof AddressError) return address;
    throw error;
  }
}
