import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { spf } from 'mailauth/lib/spf/index.js';
import type { Database } from '../db/client.ts';
import { dnsVerificationFailed } from '../errors.ts';
import type { Domain } from '../generated/prisma/client.ts';
import { parsePrivateKey, publishedKey, sign } from '../mail/dkim.ts';
import { type Keyring, open } from '../seal.ts';
import { cleanRemoteText } from '../smtp/reply.ts';
import * as dkimKeys from './dkim-keys.ts';
import * as domains from './domains.ts';

/** What a look-up of one record came to. */
export interface Check {
  ok: boolean;
  name: string;
  type: string;
  expected: string;
  /** What is published there now, cleaned and cut. */
  found: string[];
  /** What is wrong and what to do about it; null when nothing is. */
  problem: string | null;
}

export type RecordName = 'verification' | 'dkim' | 'spf';
export type Checks = Record<RecordName, Check>;

/** What verifying needs to know of this installation. */
export interface Surroundings {
  /** Live DNS, with the contract of node's `dns.promises.resolve`: nothing older than the record's TTL. */
  resolve: (name: string, type: string) => Promise<unknown[]>;
  mailHostname: string;
  /** Public addresses that mail leaves from; empty when they are not known from here, as behind a NAT. */
  sendingIps: string[];
  keyring: Keyring;
}

const spfTimeoutMs = 15_000;

/**
 * Looks the three records up and, when all are right, marks the domain verified. DKIM keys whose records are seen begin to
 * sign.
 *
 * @throws ApiError 404, or 400 `dns verification failed` with each of the three reported
 */
export async function verify(
  db: Database,
  accountId: string,
  id: string,
  where: Surroundings,
): Promise<{ domain: Domain; checks: Checks }> {
  const known = await domains.get(db, accountId, id);
  const rotated = await activateSeen(db, known, where);
  const domain = rotated ? await domains.get(db, accountId, id) : known;
  const checks = await check(domain, where);
  refuseWhereMissing(checks);
  if (!(await hold(db, domain, where))) {
    // Where it was removed meanwhile that is all there is to say.
    await domains.get(db, accountId, id);
    const detail =
      'verification: another account has this domain verified and still publishes its own verification record';
    const verification = { ...checks.verification, ok: false, problem: 'another account holds this domain' };
    throw dnsVerificationFailed(detail, { missing: ['verification'], checks: { ...checks, verification } });
  }
  return { domain: await domains.get(db, accountId, id), checks };
}

/** The three checks, at the same time, without changing anything. */
export async function check(domain: Domain, where: Surroundings): Promise<Checks> {
  const [verification, dkim, spfCheck] = await Promise.all([
    checkOwnership(domain, where),
    checkDkim(domain, signingKey(domain), where),
    checkSpf(domain, where),
  ]);
  return { verification, dkim, spf: spfCheck };
}

/** The records that are not right, as one sentence each. */
export function problems(checks: Checks): { missing: RecordName[]; detail: string } {
  const missing = (Object.keys(checks) as RecordName[]).filter((name) => !checks[name].ok);
  return { missing, detail: missing.map((name) => `${name}: ${checks[name].problem}`).join('; ') };
}

function refuseWhereMissing(checks: Checks): void {
  const { missing, detail } = problems(checks);
  if (missing.length > 0) throw dnsVerificationFailed(detail, { missing, checks });
}

/**
 * Marks the domain verified. One account alone can hold a name: a holder that no longer publishes its own verification
 * record gives way, one that still does keeps it.
 */
async function hold(db: Database, domain: Domain, where: Surroundings): Promise<boolean> {
  const holder = await db.prisma.domain.findFirst({
    where: { domain: domain.domain, status: 'verified', NOT: { id: domain.id } },
  });
  if (holder && (await mayStillPublish(holder, where))) return false;
  return db.transaction(async (tx) => {
    // Two accounts that verify at once would both find it free, and the second fail on the index instead of being told.
    await tx.query({ text: 'SELECT pg_advisory_xact_lock(hashtext($1))', values: [`verified ${domain.domain}`] });
    const own = await tx.query({ text: 'SELECT FROM domains WHERE id = $1 FOR UPDATE', values: [domain.id] });
    // Removed since it was looked up: it takes the name from nobody.
    if (own.length === 0) return false;
    await tx.query({
      text: `UPDATE domains SET status = 'pending', verified_at = NULL, dns_warning = 'another account has verified this domain'
              WHERE id = $1`,
      values: [holder?.id ?? null],
    });
    const rows = await tx.query({
      text: `UPDATE domains SET status = 'verified', verified_at = coalesce(verified_at, now()), dns_warning = NULL,
                    checks = 0, next_check_at = now() + interval '1 day'
              WHERE id = $1
                AND NOT EXISTS (SELECT FROM domains other WHERE other.domain = $2 AND other.status = 'verified' AND other.id <> $1)
              RETURNING id`,
      values: [domain.id, domain.domain],
    });
    return rows.length > 0;
  });
}

/** A look-up that fails for now takes the name from nobody. */
async function mayStillPublish(holder: Domain, where: Surroundings): Promise<boolean> {
  const record = domains.dnsRecords(holder, where.mailHostname).verification;
  const { texts, failed } = await lookUp(record.name, where);
  return failed || texts.includes(record.value);
}

async function checkOwnership(domain: Domain, where: Surroundings): Promise<Check> {
  const record = domains.dnsRecords(domain, where.mailHostname).verification;
  const { texts, problem } = await lookUp(record.name, where);
  if (problem) return report(record, texts, problem);
  return report(
    record,
    texts,
    texts.includes(record.value) ? null : 'the TXT records found there do not have the expected value',
  );
}

interface CheckedKey {
  record: domains.DnsRecord;
  selector: string;
  publicKey: string;
  sealed: Uint8Array;
}

const signingKey = (domain: Domain): CheckedKey => ({
  record: domains.dkimRecord(domain),
  selector: domain.dkimSelector,
  publicKey: domain.dkimPublicKey,
  sealed: domain.dkimPrivateKey,
});

/**
 * Lets the keys sign whose records are right by now.
 *
 * @returns whether there were any
 */
async function activateSeen(db: Database, domain: Domain, where: Surroundings): Promise<boolean> {
  let any = false;
  for (const key of await dkimKeys.pending(db, domain)) {
    if (!key.privateKey) continue;
    const record = domains.keyRecord(key, domain.domain);
    const { selector, publicKey, privateKey: sealed } = key;
    const { problem } = await checkDkim(domain, { record, selector, publicKey, sealed }, where);
    if (problem === null) await dkimKeys.activate(db, key);
    else await dkimKeys.note(db, key, problem);
    any ||= problem === null;
  }
  return any;
}

async function checkDkim(domain: Domain, key: CheckedKey, where: Surroundings): Promise<Check> {
  const { record } = key;
  const { texts, problem } = await lookUp(record.name, where);
  if (problem) return report(record, texts, problem);
  const keys = texts.map(publishedKey).filter((text) => text !== null);
  if (keys.length === 0) return report(record, texts, 'no TXT record found there is a DKIM key');
  if (keys.length > 1)
    return report(record, texts, 'there is more than one DKIM key; receivers may read either, so remove the others');
  if (keys[0] !== key.publicKey) return report(record, texts, 'the published key (p=) is not ours');
  return report(record, texts, await probeDkim(domain, key, where));
}

/** Signs a message and lets mailauth verify it as a receiver would: what is wrong beside the key itself (a testing flag, a type, a bad tag) shows here. */
async function probeDkim(
  { id, domain }: Domain,
  { selector, sealed }: CheckedKey,
  where: Surroundings,
): Promise<string | null> {
  const privateKey = parsePrivateKey(open(where.keyring, sealed, domains.sealContext(id)));
  const message = Buffer.from(`From: probe@${domain}\r\nSubject: probe\r\n\r\nprobe\r\n`);
  const header = await sign(message, [{ domain, selector, privateKey }], new Date());
  const verdict = await dkimVerify(Buffer.concat([header, message]), { resolver: asMailauth(where) });
  const status = verdict.results[0]?.status;
  if (status?.result === 'pass') return null;
  return `a message signed with our key does not verify against the published record (${cleanRemoteText(String(status?.comment ?? status?.result ?? 'no result'), 200)})`;
}

/**
 * Evaluates the domain's policy as a receiver would for each address that we send from. Where those are not known, our
 * own include is answered with a stand-in that passes a documentation address, so that any legal form that leads to it
 * (include, redirect, nested) passes.
 */
async function checkSpf(domain: Domain, where: Surroundings): Promise<Check> {
  const record = domains.dnsRecords(domain, where.mailHostname).spf;
  const { texts: all, problem } = await lookUp(record.name, where);
  const texts = all.filter((text) => /^v=spf1( |$)/i.test(text));
  if (problem) return report(record, texts, problem);
  if (texts.length === 0) return report(record, texts, 'no TXT record found there is an SPF policy');
  if (texts.length > 1)
    return report(record, texts, 'there is more than one SPF policy, which counts as none: merge them into one');
  const standIn = '192.0.2.1';
  const known = where.sendingIps.length > 0;
  const resolve = asMailauth(where);
  for (const ip of known ? where.sendingIps : [standIn]) {
    const result = await spf({
      sender: `postmaster@${domain.domain}`,
      ip,
      helo: where.mailHostname,
      mta: where.mailHostname,
      maxElapsedTime: spfTimeoutMs,
      resolver: known
        ? resolve
        : async (name, type) =>
            name === where.mailHostname && type === 'TXT' ? [[`v=spf1 ip4:${standIn} -all`]] : resolve(name, type),
    });
    const { result: verdict, comment } = result.status;
    const include = `include:${where.mailHostname}`;
    if (verdict === 'pass') continue;
    const reason = cleanRemoteText(String(comment ?? verdict), 200);
    if (verdict === 'temperror')
      return report(record, texts, `a look-up of the policy failed for now (${reason}); try again`);
    if (verdict === 'permerror')
      return report(record, texts, `receivers cannot evaluate the policy (${reason}): mend it, with ${include} in it`);
    const outcome = `the policy answers ${verdict} for ${known ? ip : 'this server'}`;
    return report(record, texts, `${outcome}: add ${include} to it, before its "all"`);
  }
  return report(record, texts, null);
}

interface LookedUp {
  texts: string[];
  /** Nobody knows what is there: the name server did not say. */
  failed: boolean;
  problem: string | null;
}

async function lookUp(name: string, where: Surroundings): Promise<LookedUp> {
  try {
    const answers = (await where.resolve(name, 'TXT')) as string[][];
    return { texts: answers.map((chunks) => chunks.join('')), failed: false, problem: null };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const absent = code === 'ENOTFOUND' || code === 'ENODATA';
    return {
      texts: [],
      failed: !absent,
      problem: absent
        ? `there is no TXT record at ${name}; a new one can take up to 48 hours to be seen`
        : `the look-up of ${name} failed for now (${code || 'error'}); try again`,
    };
  }
}

function report(record: domains.DnsRecord, found: string[], problem: string | null): Check {
  const { name, type, value } = record;
  return {
    ok: problem === null,
    name,
    type,
    expected: value,
    found: found.slice(0, 20).map((text) => cleanRemoteText(text, 500)),
    problem,
  };
}

/** mailauth's contract for a resolver is node's, with its own idea of the types. */
function asMailauth(where: Surroundings): (name: string, type: string) => Promise<string[][]> {
  return async (name, type) => (await where.resolve(name, type)) as string[][];
}

const recheckBatch = 20;
const pendingForMs = 48 * 3_600_000;

/**
 * Looks again at the domains whose time has come: pending ones, and those with a new DKIM key, at doubling intervals for
 * 48 hours, verified ones daily. A verified domain stays verified; what is missing is said in its `dns_warning`.
 *
 * @throws the first of the errors, once all were looked at, with the domain's name before it
 */
export async function recheckDue(db: Database, where: Surroundings): Promise<void> {
  // Taking them moves their time on, so that no other node looks at the same ones.
  const due = await db.query<{ id: string }>({
    text: `UPDATE domains SET checks = checks + 1, next_check_at = CASE
                  WHEN EXISTS (SELECT FROM dkim_keys k WHERE k.domain_id = domains.id AND k.status = 'pending'
                                  AND k.created_at > now() - make_interval(secs => $2))
                    THEN now() + interval '1 minute' * power(2, least(checks, 10))
                  WHEN status = 'verified' THEN now() + interval '1 day'
                  WHEN created_at < now() - make_interval(secs => $2) THEN NULL
                  ELSE now() + interval '1 minute' * power(2, least(checks, 10)) END
            WHERE id IN (SELECT id FROM domains WHERE next_check_at <= now() ORDER BY next_check_at LIMIT $1 FOR UPDATE SKIP LOCKED)
        RETURNING id`,
    values: [recheckBatch, pendingForMs / 1000],
  });
  const failures: Error[] = [];
  for (const { id } of due) {
    const domain = await db.prisma.domain.findUnique({ where: { id } });
    // One that fails does not keep the others waiting: their time has been moved on already.
    if (domain)
      await recheck(db, domain, where).catch((error: Error) =>
        failures.push(new Error(`${domain.domain}: ${error.message}`, { cause: error })),
      );
  }
  if (failures[0]) throw failures[0];
}

async function recheck(db: Database, known: Domain, where: Surroundings): Promise<void> {
  const rotated = await activateSeen(db, known, where);
  const domain = rotated ? await db.prisma.domain.findUnique({ where: { id: known.id } }) : known;
  if (!domain) return;
  const { missing, detail } = problems(await check(domain, where));
  if (domain.status === 'pending') {
    if (missing.length === 0) await hold(db, domain, where);
    return;
  }
  await db.prisma.domain.updateMany({
    // Meanwhile another account may have proved that it is theirs, which is what it then says.
    where: { id: domain.id, status: domain.status },
    data: { dnsWarning: missing.length === 0 ? null : detail },
  });
}
