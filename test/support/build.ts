import { randomBytes } from 'node:crypto';
import * as keys from '../../src/core/accounts/keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { type HeldListener, register } from '../../src/core/nodes/nodes.ts';
import { sealingKey } from '../../src/core/secrets/encryption-key.ts';
import { deriveKey, Keyring, seal } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { normalizeDomain } from '../../src/mail/address/address.ts';
import { type DkimKeyPair, generateKeyPair } from '../../src/mail/compose/dkim-key.ts';
import { quickHash } from './quick-hash.ts';

export interface BuiltAccount {
  id: string;
  email: string;
  password: string;
}

/** One for all of them. */
export const builtPassword = randomBytes(9).toString('hex');
const quick = quickHash(builtPassword);

/**
 * A new account with one member: tests share nothing, so nothing has to be cleaned up. Its password is checked at once,
 * unless the test brings a hash that takes as long as the service's own.
 */
export async function buildAccount(db: Database, passwordHash = quick): Promise<BuiltAccount> {
  const email = `${randomBytes(6).toString('hex')}@members.test`;
  const id = newId();
  await db.prisma.account.create({
    data: {
      id,
      name: email,
      plan: 'unlimited',
      users: { create: { id: newId(), email, passwordHash, role: 'member' } },
    },
  });
  return { id, email, password: builtPassword };
}

/** The key for unsubscribe tokens of a new database. */
export const unsubscribeKey = (encryptionKey: Buffer) => deriveKey(encryptionKey, 'unsubscribe');

const pairs: Promise<DkimKeyPair>[] = [];
const mostPairs = 4;
let next = 0;

/** Making one takes longer than most tests. Domains that are built one after the other have different ones, as a key that is mistaken for another must show. */
function pair(): Promise<DkimKeyPair> {
  const at = next++ % mostPairs;
  pairs[at] ??= generateKeyPair();
  return pairs[at];
}

/** A domain of the account that counts as verified without any DNS: the row that `domains.add` makes. */
export async function buildVerifiedDomain(
  db: Database,
  accountId: string,
  encryptionKey: Buffer,
  name = `${randomBytes(6).toString('hex')}.test`,
): Promise<{ id: string; domain: string }> {
  const id = newId();
  const domain = normalizeDomain(name);
  const { privateKey, publicKey } = await pair();
  await db.transaction(async (tx) => {
    const key = await sealingKey(tx, new Keyring(encryptionKey));
    return tx.query({
      text: `INSERT INTO domains (id, account_id, domain, status, verified_at, verification_token, dkim_selector, dkim_private_key, dkim_public_key, next_check_at)
             VALUES ($1, $2, $3, 'verified', now(), $4, $5, $6, $7, now() + interval '1 minute')`,
      values: [
        id,
        accountId,
        domain,
        `sendwright-verification=${randomBytes(20).toString('hex')}`,
        domains.newSelector(),
        seal(key, privateKey, domains.sealContext(id)),
        publicKey,
      ],
    });
  });
  return { id, domain };
}

/** An API key of the account; without scopes it has `send`. */
export async function buildKey(
  db: Database,
  accountId: string,
  input: { scopes?: keys.Scope[]; domains?: string[]; expiresAt?: Date } = {},
): Promise<string> {
  const { scopes = ['send'], domains: restricted = [], expiresAt = null } = input;
  const { key, apiKey } = await keys.create(db, accountId, { name: 'test', scopes, domains: [], expiresAt });
  // As if the account had had them then.
  if (restricted.length > 0) await db.prisma.apiKey.update({ where: { id: apiKey.id }, data: { domains: restricted } });
  return key;
}

/** What a key of the account stands for that may send from every domain of it. */
export const holderOf = ({ id }: { id: string }): keys.KeyHolder => ({
  accountId: id,
  keyId: id,
  plan: 'unlimited',
  scopes: new Set(['send']),
  domains: [],
});

/** An account that can send: a verified domain and a key. */
export async function buildSender(db: Database, encryptionKey: Buffer) {
  const account = await buildAccount(db);
  const { id: domainId, domain } = await buildVerifiedDomain(db, account.id, encryptionKey);
  return { account, domainId, domain, from: `sender@${domain}`, key: await buildKey(db, account.id) };
}

/** For tests that ask nothing of what is held. */
export const unheard: HeldListener = { onCrashes: () => undefined, onUnanswered: async () => undefined };

/** A living node beside others. */
export const buildNode = (db: Database, id: string, roles: string[] = []) =>
  register(db, { id, hostname: 'test', roles }, false, unheard);
