import { createHash, randomBytes } from 'node:crypto';
import { deriveKey } from '../../crypto/seal.ts';
import type { Database } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { type Part, taking } from '../../db/part.ts';
import { accountSuspended, forbidden, invalidRequest, notFound, unauthorized } from '../../errors.ts';
import type { ApiKey } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';
import { Batcher } from '../../pace/batcher.ts';

/** What a key may be for. `send` covers `read`. */
export const scopes = ['send', 'read'] as const;
export type Scope = (typeof scopes)[number];

/** The caller who sends or changes emails: the holder of a key, or a user who is logged in. */
export interface Sender {
  accountId: string;
  /** Null for a user. */
  keyId: string | null;
  plan: string;
  /** The sender domains that the key is restricted to; empty: all domains of the account. */
  domains: string[];
}

/** Who is calling with an API key, and what that key may do. */
export interface KeyHolder extends Sender {
  keyId: string;
  scopes: ReadonlySet<Scope>;
}

const prefix = 'sk_live_';
const secretLength = 43;
const shownLength = prefix.length + 4;

/** Derives a key from this secret. The key is not stored, because the same secret derives it again. */
export function derived(secret: Buffer): string {
  const seed = deriveKey(secret, 'api key');
  let round = 0;
  return `${prefix}${inBase62(() => deriveKey(seed, String(round++)))}`;
}

/**
 * Creates a key. Only this answer has the full value: the database stores its SHA-256.
 *
 * @param key its value; random by default
 * @throws ApiError 400 when a domain is not one of the account's: such a key could not send, and a typo would show only then
 */
export async function create(
  db: Database,
  accountId: string,
  input: { name: string; scopes: Scope[]; domains: string[]; expiresAt: Date | null },
  key: string = `${prefix}${inBase62(() => randomBytes(secretLength))}`,
): Promise<{ key: string; apiKey: ApiKey }> {
  await demandDomains(db, accountId, input.domains);
  const apiKey = await db.prisma.apiKey.create({
    data: {
      id: newId(),
      accountId,
      name: input.name,
      keyPrefix: key.slice(0, shownLength),
      keyHash: new Uint8Array(digest(key)),
      scopes: input.scopes,
      domains: input.domains,
      expiresAt: input.expiresAt,
    },
  });
  return { key, apiKey };
}

async function demandDomains(db: Database, accountId: string, names: string[]): Promise<void> {
  if (names.length === 0) return;
  const found = await db.prisma.domain.findMany({
    where: { accountId, domain: { in: names } },
    select: { domain: true },
  });
  const own = new Set(found.map(({ domain }) => domain));
  const missing = names.find((name) => !own.has(name));
  if (missing !== undefined)
    throw invalidRequest(`domains: ${missing} is not a domain of this account: add it first with POST /api/v1/domains`);
}

/** One page, newest first, revoked ones included; all of them without a limit. */
export async function list(db: Database, accountId: string, part: Part = {}): Promise<ApiKey[]> {
  return db.prisma.apiKey.findMany({
    where: { accountId },
    orderBy: { id: 'desc' },
    ...taking(part),
  });
}

/**
 * Revokes a key. A key that is already revoked does not change.
 *
 * @throws ApiError 404
 */
export async function revoke(db: Database, accountId: string, id: string): Promise<ApiKey> {
  if (!isId(id)) throw notFound();
  await db.query({
    text: `UPDATE api_keys SET revoked_at = ${dueFromNow} WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL`,
    values: [id, accountId],
  });
  const apiKey = await db.prisma.apiKey.findFirst({ where: { id, accountId } });
  if (!apiKey) throw notFound();
  return apiKey;
}

/**
 * Finds a key and its account, for operators.
 *
 * @param named its id, or the key itself: someone who finds a leaked key has nothing else
 * @throws ApiError 404
 */
export async function findNamed(db: Database, named: string): Promise<{ id: string; accountId: string }> {
  const where = isId(named) ? { id: named } : { keyHash: new Uint8Array(digest(named)) };
  const key = await db.prisma.apiKey.findUnique({ where, select: { id: true, accountId: true } });
  if (!key) throw notFound();
  return key;
}

/**
 * Ends a call that is about what one key sent, if the account has no such key, revoked or not: that nothing was found would read as
 * if the key had sent nothing.
 *
 * @throws ApiError 400
 */
export async function demandOwn(db: Database, accountId: string, id: string): Promise<void> {
  const own = await db.prisma.apiKey.findFirst({ where: { id, accountId }, select: { id: true } });
  if (!own) throw invalidRequest('api_key_id: this account has no such key');
}

interface KeyRow {
  id: string;
  key_hash: Buffer;
  account_id: string;
  scopes: Scope[];
  domains: string[];
  plan: string;
  suspended: boolean;
}

const mostAtOnce = 200;

/** Concurrent look-ups share one statement. */
const lookUps = new WeakMap<Database, Batcher<Buffer, KeyRow | null>>();

/**
 * Finds out who holds this key. Each call reads the database, so a revoked key is refused at once on every node.
 *
 * @throws ApiError 401, or 403 when the account is suspended
 */
export async function authenticate(db: Database, key: string | undefined): Promise<KeyHolder> {
  if (!key?.startsWith(prefix) || key.length > 200) throw unauthorized();
  const lookUp = lookUps.get(db) ?? new Batcher((hashes: Buffer[]) => find(db, hashes), { most: mostAtOnce });
  lookUps.set(db, lookUp);
  const row = await lookUp.add(digest(key));
  if (!row) throw unauthorized();
  if (row.suspended) throw accountSuspended();
  const { id: keyId, account_id: accountId, plan, domains } = row;
  return { accountId, keyId, plan, scopes: new Set(row.scopes), domains };
}

async function find(db: Database, hashes: Buffer[]): Promise<(KeyRow | null)[]> {
  const rows = await db.query<KeyRow>({
    name: 'keys-authenticate',
    text: `SELECT k.id, k.key_hash, k.account_id, k.scopes, k.domains, a.plan, a.suspended_at IS NOT NULL AS suspended
             FROM api_keys k JOIN accounts a ON a.id = k.account_id
            WHERE k.key_hash = ANY($1) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`,
    values: [hashes],
  });
  const byHash = new Map(rows.map((row) => [row.key_hash.toString('hex'), row]));
  return hashes.map((hash) => byHash.get(hash.toString('hex')) ?? null);
}

/**
 * `send` covers reading too.
 *
 * @throws ApiError 403 when the key lacks the scope
 */
export function demandScope(holder: KeyHolder, scope: Scope): void {
  if (!holder.scopes.has(scope) && !holder.scopes.has('send'))
    throw forbidden(`the API key lacks the scope ${scope}: use another key, or create one with this scope`);
}

const digest = (key: string) => createHash('sha256').update(key).digest();

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Uniform: bytes past the largest multiple of 62 are discarded. */
function inBase62(bytes: () => Buffer): string {
  let text = '';
  while (text.length < secretLength) {
    for (const byte of bytes()) {
      if (byte < 248 && text.length < secretLength) text += alphabet[byte % 62];
    }
  }
  return text;
}
