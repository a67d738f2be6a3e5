import { randomBytes } from 'node:crypto';
import * as keys from '../../src/core/accounts/keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { deriveKey, Keyring } from '../../src/seal.ts';
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

/** A domain of the account that counts as verified without any DNS. */
export async function buildVerifiedDomain(
  db: Database,
  accountId: string,
  encryptionKey: Buffer,
  domain = `${randomBytes(6).toString('hex')}.test`,
): Promise<{ id: string; domain: string }> {
  const created = await domains.add(db, accountId, { domain }, new Keyring(encryptionKey));
  await db.prisma.domain.updateMany({
    where: { id: created.id },
    data: { status: 'verified', verifiedAt: new Date() },
  });
  return { id: created.id, domain };
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
