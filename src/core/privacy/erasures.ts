import { createHmac } from 'node:crypto';
import { type Keyring, open, seal } from '../../crypto/seal.ts';
import type { Database, Sql } from '../../db/client.ts';
import { notFound } from '../../errors.ts';
import type { Erasure } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';
import { comparable } from '../../mail/address/address.ts';
import { sealingKey } from '../secrets/encryption-key.ts';
import type { TokenKeys } from '../secrets/service-secrets.ts';
import type { Redaction } from './redaction.ts';

/** What a receipt counts. */
export const countedKinds = [
  'emails',
  'contents',
  'attachments',
  'recipients',
  'canceled',
  'attempts',
  'returns',
  'webhook_deliveries',
  'idempotency_keys',
  'sandbox_messages',
  'suppressions',
] as const;
/** How much of each kind an erasure has removed so far. */
export type Counts = Record<(typeof countedKinds)[number], number>;

/** All zero. */
const noCounts = (): Counts => Object.fromEntries(countedKinds.map((kind) => [kind, 0])) as Counts;

/** The counts so far. */
export const countsOf = (erasure: Pick<Erasure, 'counts'>): Counts => ({
  ...noCounts(),
  ...(erasure.counts as Partial<Counts>),
});

/** The context that the address is sealed to while its erasure is pending. */
export const sealContext = (erasureId: string) => `erasure:${erasureId}`;

/** Takes the address's place in a receipt. It is keyed, so that guesses cannot be tested against it without the key. */
const hashOf = (accountId: string, address: string, { erasedAddress }: TokenKeys) =>
  createHmac('sha256', erasedAddress)
    .update(`${accountId} ${comparable(address)}`)
    .digest('hex');

/**
 * Requests the erasure of what is stored about a recipient of the account; a node starts within a second. While a request is
 * pending, another one for the same recipient returns it, and extends it to the emails accepted since.
 *
 * @param input the address in its canonical form, and whether a suppression of it stays
 */
export async function ask(
  db: Database,
  accountId: string,
  input: { address: string; keepsSuppression: boolean },
  keys: { keyring: Keyring; tokenKeys: TokenKeys },
): Promise<Erasure> {
  const hash = hashOf(accountId, input.address, keys.tokenKeys);
  const id = await db.transaction(async (tx) => {
    const made = newId();
    const sealed = seal(await sealingKey(tx, keys.keyring), Buffer.from(input.address), sealContext(made));
    const [row] = await tx.query<{ id: string }>({
      // If either request wants the suppression gone as well, it goes.
      text: `INSERT INTO erasures (id, account_id, sealed_address, address_hash, keeps_suppression) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (account_id, address_hash) WHERE done_at IS NULL
             DO UPDATE SET keeps_suppression = erasures.keeps_suppression AND excluded.keeps_suppression, asked_at = now() RETURNING id`,
      values: [made, accountId, sealed, hash, input.keepsSuppression],
    });
    return row?.id ?? made;
  });
  return get(db, accountId, id);
}

/** One page, newest first, and the total. @param page `address`: only those of this address; null: all */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number; address: string | null },
  tokenKeys: TokenKeys,
): Promise<{ erasures: Erasure[]; count: number }> {
  const { address, limit, offset } = page;
  const where = { accountId, ...(address === null ? {} : { addressHash: hashOf(accountId, address, tokenKeys) }) };
  const erasures = await db.prisma.erasure.findMany({ where, orderBy: { id: 'desc' }, take: limit, skip: offset });
  const count = await db.prisma.erasure.count({ where });
  return { erasures, count };
}

/** @throws ApiError 404 */
export async function get(db: Database, accountId: string, id: string): Promise<Erasure> {
  const erasure = isId(id) ? await db.prisma.erasure.findFirst({ where: { id, accountId } }) : null;
  if (!erasure) throw notFound();
  return erasure;
}

/** An erasure that is to be done, with its address. */
export interface PendingErasure {
  id: string;
  accountId: string;
  address: string;
}

/** The same while it is under way: `redaction` finds and replaces the address. */
export interface Work {
  id: string;
  accountId: string;
  redaction: Redaction;
}

/** A pending erasure as stored. */
export interface SealedErasure {
  id: string;
  accountId: string;
  sealedAddress: Buffer;
}

/** Accounts that have pending erasures, the longest waiting first. */
export async function accountsWaiting(db: Sql): Promise<string[]> {
  const rows = await db.query<{ id: string }>({
    name: 'erasures-accounts',
    // The smallest id is the earliest request.
    text: 'SELECT account_id AS id FROM erasures WHERE done_at IS NULL GROUP BY account_id ORDER BY min(id::text)',
  });
  return rows.map(({ id }) => id);
}

/** Pending erasures of an account in the order of the requests, a page at a time. */
export async function pending(db: Sql, accountId: string, after: string | null): Promise<SealedErasure[]> {
  return db.query<SealedErasure>({
    name: 'erasures-pending',
    text: `SELECT id, account_id AS "accountId", sealed_address AS "sealedAddress" FROM erasures
            WHERE account_id = $1 AND done_at IS NULL AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT 20`,
    values: [accountId, after],
  });
}

/** @throws Error if none of these keys opens it */
export function unseal(keyring: Keyring, { id, accountId, sealedAddress }: SealedErasure): PendingErasure {
  return { id, accountId, address: open(keyring, sealedAddress, sealContext(id)).toString() };
}

/**
 * Locks a pending erasure until the transaction ends, so that each thing erased is counted once.
 *
 * @returns null when it is already done
 */
export async function lock(tx: Sql, id: string): Promise<{ keepsSuppression: boolean; counts: Counts } | null> {
  const [row] = await tx.query<{ keeps: boolean; counts: Partial<Counts> }>({
    text: 'SELECT keeps_suppression AS keeps, counts FROM erasures WHERE id = $1 AND done_at IS NULL FOR UPDATE',
    values: [id],
  });
  return row ? { keepsSuppression: row.keeps, counts: countsOf({ counts: row.counts }) } : null;
}

/** Records the counts so far of an erasure that is locked. */
export async function note(tx: Sql, id: string, counts: Counts): Promise<void> {
  await tx.query({ text: 'UPDATE erasures SET counts = $2 WHERE id = $1', values: [id, JSON.stringify(counts)] });
}

/** Records that an erasure that is locked is done, with its final counts. The address is deleted. */
export async function conclude(tx: Sql, id: string, counts: Counts): Promise<void> {
  await tx.query({
    text: 'UPDATE erasures SET counts = $2, done_at = now(), sealed_address = NULL WHERE id = $1',
    values: [id, JSON.stringify(counts)],
  });
}
