import { type Keyring, open } from '../../crypto/seal.ts';
import type { Domain } from '../../generated/prisma/client.ts';
import { sign } from '../../mail/compose/dkim.ts';
import { parsePrivateKey, publishedKey } from '../../mail/compose/dkim-key.ts';
import { sameName } from '../../smtp/dns/host-name.ts';
import type { Resolve } from '../../smtp/dns/resolver.ts';
import { cleanRemoteText } from '../../smtp/replies/reply.ts';
import { findAppended } from './appended-zone.ts';
import * as domains from './domains.ts';
import { askSpf, type SpfAnswer } from './spf.ts';

/** The result of looking up one record. */
export interface Check {
  ok: boolean;
  name: string;
  type: domains.DnsRecord['type'];
  expected: string;
  /** What is published there now, cleaned and cut. */
  found: string[];
  /** What is wrong and what to do about it; null when nothing is wrong. */
  problem: string | null;
  /** A look-up failed temporarily, so it is not known whether anything is wrong. */
  failed: boolean;
}

/** The records without which a domain is not verified. */
export type RecordName = 'verification' | 'dkim' | 'spf';
export type Checks = Record<RecordName, Check>;

/** The facts about this installation that verification needs. */
export interface Surroundings {
  /** Live DNS, with the contract of node's `dns.promises.resolve`: nothing older than the record's TTL. */
  resolve: Resolve;
  mailHostname: string;
  /** By sending address, where its EHLO name is not `mailHostname`. */
  ehloNames: ReadonlyMap<string, string>;
  /** Public addresses that mail leaves from; empty if this machine cannot know them, as behind a NAT. */
  sendingIps: string[];
  keyring: Keyring;
}

const spfTimeoutMs = 15_000;

/** The three checks, in parallel, without changing anything. */
export async function check(domain: Domain, where: Surroundings): Promise<Checks> {
  const [verification, dkim, spfCheck] = await Promise.all([
    checkOwnership(domain, where),
    checkSigning(domain, where),
    checkSpf(domain, where),
  ]);
  return { verification, dkim, spf: spfCheck };
}

/** The records that are not right, and one sentence for each. */
export function problems(checks: Checks): { missing: RecordName[]; detail: string } {
  const missing = (Object.keys(checks) as RecordName[]).filter((name) => !checks[name].ok);
  return { missing, detail: missing.map((name) => `${name}: ${checks[name].problem}`).join('; ') };
}

async function checkOwnership(domain: Domain, where: Surroundings): Promise<Check> {
  const record = domains.verificationRecord(domain);
  const { texts, problem, failed } = await lookUpRecord(record, domain, where);
  if (problem) return report(record, texts, problem, failed);
  return report(
    record,
    texts,
    texts.includes(record.value) ? null : 'none of the TXT records found there has the expected value',
  );
}

/** A DKIM key, and where its record has to be. */
interface CheckedKey {
  record: domains.DnsRecord;
  selector: string;
  publicKey: string;
  sealed: Uint8Array;
}

/** Whether receivers can verify what the domain's own key signs, which is on all of its mail. */
export function checkSigning(domain: Domain, where: Surroundings): Promise<Check> {
  const { dkimSelector: selector, dkimPublicKey: publicKey, dkimPrivateKey: sealed } = domain;
  return checkDkim(domain, { record: domains.dkimRecord(domain), selector, publicKey, sealed }, where);
}

/** Whether receivers can verify what this key signs. */
export async function checkDkim(domain: Domain, key: CheckedKey, where: Surroundings): Promise<Check> {
  const { record } = key;
  const { texts, problem, failed } = await lookUpRecord(record, domain, where);
  if (problem) return report(record, texts, problem, failed);
  const keys = texts.map(publishedKey).filter((text) => text !== null);
  if (keys.length === 0) return report(record, texts, 'none of the TXT records found there is a DKIM key');
  if (keys.length > 1)
    return report(
      record,
      texts,
      'there is more than one DKIM key: receivers may use any of them, so remove the others',
    );
  if (keys[0] !== key.publicKey) return report(record, texts, 'the published key (p=) is not ours');
  const refused = await probeDkim(domain, key, where);
  const others = texts.length > 1 ? ': there are other TXT records at this name, so remove them' : '';
  return report(record, texts, refused && `${refused}${others}`);
}

/** Has mailauth verify a signed message as a receiver would, to find errors besides the key (testing flag, type, bad tag). */
async function probeDkim(
  { id, domain }: Domain,
  { selector, sealed }: CheckedKey,
  where: Surroundings,
): Promise<string | null> {
  const privateKey = parsePrivateKey(open(where.keyring, sealed, domains.sealContext(id)));
  const message = Buffer.from(`From: probe@${domain}\r\nSubject: probe\r\n\r\nprobe\r\n`);
  const header = await sign(message, [{ domain, selector, privateKey }], new Date());
  // When it is first needed: loading it would be a fifth of each start.
  const { dkimVerify } = await import('mailauth/lib/dkim/verify.js');
  const verdict = await dkimVerify(Buffer.concat([header, message]), { resolver: where.resolve });
  const status = verdict.results[0]?.status;
  if (status?.result === 'pass') return null;
  return `a message signed with our key does not verify against the published record (${cleanRemoteText(String(status?.comment ?? status?.result ?? 'no result'), 200)})`;
}

async function checkSpf(domain: Domain, where: Surroundings): Promise<Check> {
  const record = domains.spfRecord(domain, where.mailHostname, where.sendingIps);
  const { texts: all, problem, failed } = await lookUpRecord(record, domain, where);
  const texts = all.filter((text) => /^v=spf1( |$)/i.test(text));
  if (problem) return report(record, texts, problem, failed);
  if (texts.length === 0) return report(record, texts, 'none of the TXT records found there is an SPF policy');
  if (texts.length > 1)
    return report(
      record,
      texts,
      'there is more than one SPF policy, so receivers ignore them all: merge them into one',
    );
  const refused = await probeSpf(domain.domain, where);
  return report(
    record,
    texts,
    refused && problemOfSpf(refused, { domain: domain.domain, policy: texts[0] ?? '' }, where),
    refused?.result === 'temperror',
  );
}

/** An evaluation of SPF that does not pass. */
interface SpfRefusal extends SpfAnswer {
  /** The address that does not pass; null: any, as our addresses are not known. */
  ip: string | null;
}

/**
 * Evaluates the domain's policy as a receiver would, for each address that we send from. If those are not known, our own
 * include is answered with a stand-in that passes a documentation address, so that any legal form that leads to it
 * (include, redirect, nested) passes.
 *
 * @returns null if all addresses pass
 */
async function probeSpf(domain: string, where: Surroundings): Promise<SpfRefusal | null> {
  const { mailHostname, sendingIps } = where;
  const question = { sender: `postmaster@${domain}`, mailHostname, timeoutMs: spfTimeoutMs };
  // Shared by all addresses, whose look-ups are mostly the same.
  const resolve = eachOnce(where.resolve);
  for (const ip of sendingIps) {
    const answer = await askSpf({ ...question, ip, resolve });
    if (answer.result !== 'pass') return { ...answer, ip };
  }
  if (sendingIps.length > 0) return null;
  const standIn = '192.0.2.1';
  const withStandIn: Resolve = async (name, type) =>
    sameName(name, mailHostname) && type === 'TXT' ? [[`v=spf1 ip4:${standIn} -all`]] : resolve(name, type);
  const answer = await askSpf({ ...question, ip: standIn, resolve: withStandIn });
  return answer.result === 'pass' ? null : { ...answer, ip: null };
}

function problemOfSpf(
  { result, reason, ip }: SpfRefusal,
  { domain, policy }: { domain: string; policy: string },
  { mailHostname }: Surroundings,
): string {
  const include = `include:${mailHostname}`;
  const isOurs = sameName(domain, mailHostname);
  if (result === 'temperror') return `a lookup of the policy failed temporarily (${reason}): try again`;
  if (result === 'permerror')
    return `receivers cannot evaluate the policy (${reason}): correct it${isOurs ? '' : `, and include ${include}`}`;
  const answers = `the policy answers ${result} for ${ip ?? 'this server'}`;
  if (ip !== null && isOurs) return `${answers}: add ${domains.spfMechanism(ip)} to it, before its "all"`;
  if (ip !== null && includes(policy, mailHostname))
    return `${answers}, although it includes ${mailHostname}: the operator of this server has to add ${domains.spfMechanism(ip)} to the policy of ${mailHostname}`;
  return `${answers}: add ${include} to it, before its "all"`;
}

/** Whether a policy includes another one where it counts: nothing after `all` does. */
function includes(policy: string, other: string): boolean {
  for (const term of policy.split(' ')) {
    const [, included] = /^\+?include:(.+)$/i.exec(term) ?? [];
    if (included !== undefined && sameName(included, other)) return true;
    if (/^[+?~-]?all$/i.test(term)) return false;
  }
  return false;
}

interface LookedUp {
  texts: string[];
  /** The name server did not answer, so it is not known what is there. */
  failed: boolean;
  problem: string | null;
}

/** The current TXT records of a name. */
export async function lookUp(name: string, where: Surroundings): Promise<LookedUp> {
  try {
    const answers = await where.resolve(name, 'TXT');
    return { texts: answers.map((chunks) => chunks.join('')), failed: false, problem: null };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const absent = code === 'ENOTFOUND' || code === 'ENODATA';
    return {
      texts: [],
      failed: !absent,
      problem: absent
        ? `there is no TXT record at ${name}; a new record can take up to 48 hours to become visible`
        : `the lookup of ${name} failed temporarily (${code || 'error'}): try again`,
    };
  }
}

/** The same; if there are none, the problem says whether the record is where a DNS provider puts it that appends the zone. */
async function lookUpRecord(record: domains.DnsRecord, { domain }: Domain, where: Surroundings): Promise<LookedUp> {
  const known = await lookUp(record.name, where);
  if (known.problem === null || known.failed) return known;
  const elsewhere = await findAppended(record, domain, where.resolve);
  return elsewhere === null ? known : { ...known, problem: elsewhere };
}

function report(record: domains.DnsRecord, found: string[], problem: string | null, failed = false): Check {
  const { name, type, value } = record;
  return {
    ok: problem === null,
    name,
    type,
    expected: value,
    found: found.slice(0, 20).map((text) => cleanRemoteText(text, 500)),
    problem,
    failed,
  };
}

/** Looks up each name once. */
function eachOnce(resolve: Resolve): Resolve {
  const asked = new Map<string, Promise<string[][]>>();
  return (name, type) => {
    const key = `${type} ${name}`;
    const answer = asked.get(key) ?? resolve(name, type);
    asked.set(key, answer);
    return answer;
  };
}
