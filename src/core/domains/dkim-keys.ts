import { type Keyring, seal } from '../../crypto/seal.ts';
import type { Database } from '../../db/client.ts';
import { invalidRequest, notFound } from '../../errors.ts';
import type { DkimKey, Domain } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';
import { type DkimAlgorithm, DkimKeyError, generateKeyPair, importKeyPair } from '../../mail/compose/dkim-key.ts';
import { sealingKey } from '../secrets/encryption-key.ts';
import * as domains from './domains.ts';

/** How long the record of a retired key should stay: mail that it signed may be verified days later. */
export const overlapMs = 7 * 86_400_000;

export interface Rotation {
  /** By default the algorithm of the given key, or RSA if a new one is generated. */
  algorithm?: DkimAlgorithm | undefined;
  /** PEM of a key that already signs elsewhere; by default a new key is generated. */
  privateKey?: string | undefined;
  /** Its place in DNS; by default a new one. */
  selector?: string | undefined;
}

/** The keys besides the one in the domain's row, newest first. */
export async function list(db: Database, accountId: string, domainId: string): Promise<DkimKey[]> {
  return db.prisma.dkimKey.findMany({ where: { accountId, domainId }, orderBy: { id: 'desc' } });
}

/**
 * Adds a key that starts to sign as soon as its record is seen in DNS; until then nothing changes. An RSA key then replaces
 * the one that signs, and an Ed25519 key signs beside it. A pending key of the same algorithm is discarded.
 *
 * @throws ApiError 404; 400 when the key or the selector cannot be used
 */
export async function rotate(
  db: Database,
  accountId: string,
  domainId: string,
  rotation: Rotation,
  keyring: Keyring,
): Promise<void> {
  const domain = await domains.get(db, accountId, domainId);
  const selector = rotation.selector ?? domains.newSelector();
  if (`${selector}._domainkey.${domain.domain}`.length > 253)
    throw invalidRequest('selector: too long for a record of this domain');
  const pair = await pairFor(rotation);
  const staying = (await list(db, accountId, domainId)).filter(
    ({ status, algorithm }) => status !== 'pending' || algorithm !== pair.algorithm,
  );
  if (selector === domain.dkimSelector || staying.some((key) => key.selector === selector))
    throw invalidRequest('selector: is in use for another key of this domain');
  await db.transaction(async (tx) => {
    // Locks the row: of two concurrent rotations the second replaces the first.
    const locked = await tx.query({
      text: `UPDATE domains SET checks = 0, next_check_at = now() + make_interval(secs => $2) WHERE id = $1 RETURNING 1`,
      values: [domainId, domains.firstCheckMs / 1_000],
    });
    if (locked.length === 0) throw notFound();
    await tx.query({
      text: `DELETE FROM dkim_keys WHERE domain_id = $1 AND algorithm = $2::dkim_algorithm AND status = 'pending'`,
      values: [domainId, pair.algorithm],
    });
    const made = await tx.query({
      text: `INSERT INTO dkim_keys (id, account_id, domain_id, selector, algorithm, private_key, public_key)
             SELECT $1, account_id, id, $4, $5::dkim_algorithm, $6, $7 FROM domains
              WHERE id = $2 AND account_id = $3 AND dkim_selector <> $4
             ON CONFLICT DO NOTHING RETURNING id`,
      values: [
        newId(),
        domain.id,
        accountId,
        selector,
        pair.algorithm,
        // An id may be in capitals: the key is sealed to the stored form.
        seal(await sealingKey(tx, keyring), pair.privateKey, domains.sealContext(domain.id)),
        pair.publicKey,
      ],
    });
    if (made.length === 0) throw invalidRequest('selector: is in use for another key of this domain');
  });
}

async function pairFor({ algorithm, privateKey }: Rotation) {
  if (privateKey === undefined) return generateKeyPair(algorithm);
  try {
    const pair = importKeyPair(privateKey);
    if (algorithm && pair.algorithm !== algorithm)
      throw new DkimKeyError(`is of another algorithm than the one asked for, ${algorithm}`);
    return pair;
  } catch (error) {
    if (error instanceof DkimKeyError) throw invalidRequest(`private_key: ${error.message}`);
    throw error;
  }
}

/** @throws ApiError 404 */
async function get(db: Database, accountId: string, id: string): Promise<DkimKey> {
  const key = isId(id) ? await db.prisma.dkimKey.findFirst({ where: { id, accountId } }) : null;
  if (!key) throw notFound();
  return key;
}

/**
 * Removes a key besides the one that signs: a rotation that is no longer wanted, or a second signature.
 *
 * @throws ApiError 404
 */
export async function remove(db: Database, accountId: string, id: string): Promise<DkimKey> {
  const key = await get(db, accountId, id);
  const { count } = await db.prisma.dkimKey.deleteMany({ where: { id, accountId } });
  if (count === 0) throw notFound();
  return key;
}

/** A key with its private half. */
export type WholeKey = DkimKey & { privateKey: Uint8Array<ArrayBuffer> };

/** The keys of a domain that sign beside the one in its row, or wait for their records. */
export async function signing(db: Database, { id }: Domain): Promise<WholeKey[]> {
  const keys = await db.prisma.dkimKey.findMany({ where: { domainId: id, status: { not: 'retired' } } });
  return keys.filter((key): key is WholeKey => key.privateKey !== null);
}

/** Stores what is wrong with a key's record; null: nothing. */
export async function note(db: Database, { id, status }: DkimKey, problem: string | null): Promise<void> {
  await db.prisma.dkimKey.updateMany({ where: { id, status }, data: { problem } });
}

/** Starts to sign with a key whose record was seen in DNS. Retires the key before it and deletes its private half. */
export async function activate(db: Database, { id, domainId, algorithm }: DkimKey): Promise<void> {
  await db.transaction(async (tx) => {
    const [waiting] = await tx.query({
      text: `SELECT id FROM dkim_keys WHERE id = $1 AND status = 'pending' FOR UPDATE`,
      values: [id],
    });
    // It was removed meanwhile, or another node was faster.
    if (!waiting) return;
    if (algorithm === 'rsa') return void (await tx.query(replaceSigningKey(id)));
    await tx.query({
      text: `UPDATE dkim_keys SET status = 'retired', private_key = NULL, retired_at = now()
              WHERE domain_id = $1 AND status = 'active'`,
      values: [domainId],
    });
    await tx.query({
      text: `UPDATE dkim_keys SET status = 'active', problem = NULL, activated_at = now() WHERE id = $1`,
      values: [id],
    });
  });
}

/** The pending RSA key moves into the domain's row, and the key from there becomes a retired one. */
const replaceSigningKey = (id: string) => ({
  text: `WITH next AS (DELETE FROM dkim_keys WHERE id = $1 RETURNING *),
              before AS (SELECT d.* FROM domains d JOIN next ON next.domain_id = d.id),
              kept AS (INSERT INTO dkim_keys (id, account_id, domain_id, selector, algorithm, status, public_key, created_at, retired_at)
                       SELECT $2, account_id, id, dkim_selector, 'rsa', 'retired', dkim_public_key, created_at, now() FROM before)
         UPDATE domains d SET dkim_selector = next.selector, dkim_private_key = next.private_key, dkim_public_key = next.public_key
           FROM next WHERE d.id = next.domain_id`,
  values: [id, newId()],
});

/** Deletes retired keys whose records receivers no longer look up. */
export async function forgetRetired(db: Database): Promise<void> {
  await db.query({
    text: 'DELETE FROM dkim_keys WHERE retired_at < now() - make_interval(secs => $1)',
    values: [overlapMs / 1_000],
  });
}
