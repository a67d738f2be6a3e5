import { randomBytes } from 'node:crypto';
import { getDomain } from 'tldts';
import { type Keyring, seal } from '../../crypto/seal.ts';
import type { Database } from '../../db/client.ts';
import { type Part, taking } from '../../db/part.ts';
import { domainAlreadyExists, forbidden, invalidRequest, notFound } from '../../errors.ts';
import type { DkimKey, Domain } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';
import { AddressError, normalizeDomain, wordsForDomain } from '../../mail/address/address.ts';
import { type DkimAlgorithm, dnsValue, generateKeyPair } from '../../mail/compose/dkim-key.ts';
import { sameName } from '../../smtp/dns/host-name.ts';
import type { TlsLevel } from '../../smtp/replies/tls-names.ts';
import { allowsDomain } from '../accounts/plans.ts';
import * as wakings from '../destinations/wakings.ts';
import { sealingKey } from '../secrets/encryption-key.ts';

/** A record for the owner of a domain to publish. */
export interface DnsRecord {
  /** Fully qualified, without a trailing dot. */
  name: string;
  type: 'TXT' | 'MX';
  /** The value without quotes. */
  value: string;
}

export interface DnsRecords {
  verification: DnsRecord;
  dkim: DnsRecord;
  spf: DnsRecord;
}

/** The policy that asks receivers for nothing. */
export const dmarcPolicy = 'v=DMARC1; p=none';

/** What the longest name that we use, the DKIM record's, leaves of the 253 characters of a DNS name. */
const longestDomain = 253 - 'sw00000000._domainkey.'.length;

/** An unused place in DNS for a key. */
export const newSelector = () => `sw${randomBytes(4).toString('hex')}`;

/** First background check of a pending domain, or of a new key's record; the intervals then double, for 48 hours in all. */
export const firstCheckMs = 60_000;

/**
 * Registers a sending domain, which is pending until its DNS records are right.
 *
 * @throws ApiError 400 when the name cannot be a sending domain, or the account already has it; 403 when the plan allows
 *   no more domains
 */
export async function add(
  db: Database,
  accountId: string,
  input: { domain: string; tls?: TlsLevel | undefined; pool?: string | null | undefined },
  keyring: Keyring,
): Promise<Domain> {
  const domain = parseName(input.domain);
  // Checked before the key is made, which costs far more than this look-up.
  if (await db.prisma.domain.findFirst({ where: { accountId, domain }, select: { id: true } }))
    throw domainAlreadyExists(domain);
  const id = newId();
  const pair = await generateKeyPair();
  const inserted = await db.transaction(async (tx) => {
    if (!(await allowsDomain(tx, accountId)))
      throw forbidden('the plan allows no more domains: remove one, or ask an operator for another plan');
    return tx.query({
      text: `INSERT INTO domains (id, account_id, domain, verification_token, dkim_selector, dkim_private_key, dkim_public_key, next_check_at, tls, pool)
             VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8), $9, $10) ON CONFLICT (account_id, domain) DO NOTHING RETURNING id`,
      values: [
        id,
        accountId,
        domain,
        `sendwright-verification=${randomBytes(20).toString('hex')}`,
        newSelector(),
        seal(await sealingKey(tx, keyring), pair.privateKey, sealContext(id)),
        pair.publicKey,
        firstCheckMs / 1_000,
        input.tls ?? 'opportunistic',
        input.pool ?? null,
      ],
    });
  });
  if (inserted.length === 0) throw domainAlreadyExists(domain);
  return get(db, accountId, id);
}

/** The context that the private keys of this domain are sealed to. */
export const sealContext = (domainId: string) => `domain:${domainId}`;

/** One page, newest first; all of them without a limit. */
export async function list(db: Database, accountId: string, part: Part = {}): Promise<Domain[]> {
  return db.prisma.domain.findMany({
    where: { accountId },
    orderBy: { id: 'desc' },
    ...taking(part),
  });
}

/** Domains of all accounts, for operators, newest first; optionally only those that can send. */
export async function listAll(db: Database, options: { limit: number; verified?: true }): Promise<Domain[]> {
  const { limit, verified } = options;
  return db.prisma.domain.findMany({
    ...(verified ? { where: { status: 'verified' } } : {}),
    orderBy: { id: 'desc' },
    take: limit,
  });
}

/** Verified domains with a warning, newest first: the one with this id and older ones. */
export async function listWarned(db: Database, from: string, limit: number): Promise<Domain[]> {
  return db.prisma.domain.findMany({
    where: { status: 'verified', dnsWarning: { not: null }, id: { lte: from } },
    orderBy: { id: 'desc' },
    take: limit,
  });
}

/** Names that accounts have registered and none has verified, those registered last first: of up to 1,000 registrations. */
export async function unverifiedNames(db: Database): Promise<string[]> {
  const pending = await db.prisma.domain.findMany({
    where: { status: 'pending' },
    select: { domain: true },
    orderBy: { id: 'desc' },
    take: 1_000,
  });
  const names = new Set(pending.map(({ domain }) => domain));
  const elsewhere = await db.prisma.domain.findMany({
    where: { domain: { in: [...names] }, status: 'verified' },
    select: { domain: true },
  });
  for (const { domain } of elsewhere) names.delete(domain);
  return [...names];
}

/**
 * Finds a domain by name, for operators. Without an account several may have registered it: the one that has it verified
 * comes first, then the one that registered it last.
 *
 * @throws ApiError 404
 */
export async function findByName(db: Database, name: string, accountId: string | null): Promise<Domain> {
  const found = await db.prisma.domain.findMany({
    where: { domain: parseName(name), ...(accountId === null ? {} : { accountId }) },
    orderBy: { id: 'desc' },
    take: 100,
  });
  const [newest] = found;
  if (!newest) throw notFound();
  return found.find(({ status }) => status === 'verified') ?? newest;
}

/** @throws ApiError 404 */
export async function get(db: Database, accountId: string, id: string): Promise<Domain> {
  const domain = isId(id) ? await db.prisma.domain.findFirst({ where: { id, accountId } }) : null;
  if (!domain) throw notFound();
  return domain;
}

/** Changes the given fields. @throws ApiError 404 */
export async function change(
  db: Database,
  accountId: string,
  id: string,
  changes: Partial<Pick<Domain, 'tls' | 'pool'>>,
): Promise<Domain> {
  if (!isId(id)) throw notFound();
  const waking = await db.transaction(async (tx) => {
    const [before] = await tx.query<{ pool: string | null }>({
      text: 'SELECT pool FROM domains WHERE id = $1 AND account_id = $2 FOR NO KEY UPDATE',
      values: [id, accountId],
    });
    if (!before) throw notFound();
    const { tls = null, pool = before.pool } = changes;
    await tx.query({
      text: 'UPDATE domains SET tls = coalesce($2::tls_level, tls), pool = $3 WHERE id = $1',
      values: [id, tls, pool],
    });
    // What waits for room in the old pool may leave from another one now.
    return pool === before.pool ? null : wakings.add(tx, { name: id, kind: 'pool', destinations: [] });
  });
  if (waking) await wakings.begin(db, waking);
  return get(db, accountId, id);
}

/**
 * Removes a domain. Its queued mail is not sent: the node that claims it finds no domain and ends it.
 *
 * @throws ApiError 404
 */
export async function remove(db: Database, accountId: string, id: string): Promise<Domain> {
  const domain = await get(db, accountId, id);
  const { count } = await db.prisma.domain.deleteMany({ where: { id, accountId } });
  if (count === 0) throw notFound();
  return domain;
}

/**
 * The three records that must be published before the domain can be verified.
 *
 * @param sendingIps the addresses that mail leaves from; empty if they are not known
 */
export function dnsRecords(domain: Domain, mailHostname: string, sendingIps: readonly string[]): DnsRecords {
  return {
    verification: verificationRecord(domain),
    dkim: dkimRecord(domain),
    spf: spfRecord(domain, mailHostname, sendingIps),
  };
}

/** The record that shows whose the domain is. */
export const verificationRecord = ({ domain, verificationToken }: Domain): DnsRecord => ({
  name: `_sendwright.${domain}`,
  type: 'TXT',
  value: verificationToken,
});

/** The policy that names who may send for the domain. */
export const spfRecord = ({ domain }: Domain, mailHostname: string, sendingIps: readonly string[]): DnsRecord => ({
  name: domain,
  type: 'TXT',
  value: spfPolicy(domain, mailHostname, sendingIps),
});

/** That of our own host name, which all others include, must not include itself: receivers could evaluate none of them. */
function spfPolicy(domain: string, mailHostname: string, sendingIps: readonly string[]): string {
  if (!sameName(domain, mailHostname)) return `v=spf1 include:${mailHostname} ~all`;
  const ours = sendingIps.length > 0 ? sendingIps.map(spfMechanism) : ['a'];
  return `v=spf1 ${ours.join(' ')} -all`;
}

/** How an SPF policy names an address. */
export const spfMechanism = (ip: string): string => `${ip.includes(':') ? 'ip6' : 'ip4'}:${ip}`;

/** The record of the key that signs. */
export const dkimRecord = ({ domain, dkimSelector: selector, dkimPublicKey: publicKey }: Domain): DnsRecord =>
  keyRecord({ selector, publicKey, algorithm: 'rsa' }, domain);

/** The record of any key of a domain. */
export function keyRecord(
  key: { selector: string; publicKey: string; algorithm: DkimAlgorithm },
  domain: string,
): DnsRecord {
  return {
    name: `${key.selector}._domainkey.${domain}`,
    type: 'TXT',
    value: dnsValue(key.publicKey, key.algorithm),
  };
}

/**
 * Records that improve delivery but are not needed for verification.
 *
 * @param keys those of the domain besides its own: an Ed25519 key that signs, or will, has its record here as well
 */
export function recommendedRecords(
  domain: Domain,
  mailHostname: string,
  keys: DkimKey[],
): (DnsRecord & { purpose: string })[] {
  const ed25519 = keys.filter(({ algorithm, status }) => algorithm === 'ed25519' && status !== 'retired');
  return [
    {
      name: `_dmarc.${domain.domain}`,
      type: 'TXT',
      value: dmarcPolicy,
      purpose: 'DMARC: large mailbox providers require a policy from bulk senders; this one is enough',
    },
    {
      name: mailHostname,
      type: 'MX',
      value: `10 ${mailHostname}`,
      purpose: 'return path: where bounces come back to; published once by the operator of this server',
    },
    ...ed25519.map((key) => ({
      ...keyRecord(key, domain.domain),
      purpose: 'DKIM with Ed25519: a second signature, which is added once this record is found',
    })),
  ];
}

function parseName(text: string): string {
  let domain: string;
  try {
    domain = normalizeDomain(text);
  } catch (error) {
    if (error instanceof AddressError) throw invalidRequest(`domain: ${wordsForDomain(text, error.message)}`);
    throw error;
  }
  if (domain.length > longestDomain)
    throw invalidRequest(`domain: longer than ${longestDomain} characters, which leaves no room for its DKIM record`);
  // Null for a public suffix itself, such as co.uk, under which anyone can register.
  if (getDomain(domain, { allowPrivateDomains: true }) === null) {
    throw invalidRequest('domain: a public suffix cannot be a sending domain');
  }
  return domain;
}
