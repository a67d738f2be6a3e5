import type { Database } from '../../db/client.ts';
import { dnsVerificationFailed } from '../../errors.ts';
import type { Domain } from '../../generated/prisma/client.ts';
import * as dkimKeys from './dkim-keys.ts';
import * as domains from './domains.ts';
import { type Checks, check, checkDkim, lookUp, problems, type Surroundings } from './record-checks.ts';

/**
 * Looks up the three records and, if all are right, marks the domain verified. DKIM keys whose records are seen start to
 * sign.
 *
 * @throws ApiError 404, or 400 `dns verification failed` with a report on each of the three
 */
export async function verify(
  db: Database,
  accountId: string,
  id: string,
  where: Surroundings,
): Promise<{ domain: Domain; checks: Checks }> {
  const known = await domains.get(db, accountId, id);
  const keys = await lookAtKeys(db, known, where);
  const domain = keys.begun ? await domains.get(db, accountId, id) : known;
  const checks = await check(domain, where);
  refuseWhereMissing(checks);
  if (!(await takeName(db, domain, where, warningOf(keys)))) {
    // Throws 404 if the domain was removed meanwhile.
    await domains.get(db, accountId, id);
    const detail =
      'verification: another account has this domain verified and still publishes its own verification record';
    const verification = { ...checks.verification, ok: false, problem: 'another account holds this domain' };
    throw dnsVerificationFailed(detail, {
      missing: ['verification'],
      checks: reported({ ...checks, verification }),
    });
  }
  return { domain: await domains.get(db, accountId, id), checks };
}

function refuseWhereMissing(checks: Checks): void {
  const { missing, detail } = problems(checks);
  if (missing.length > 0) throw dnsVerificationFailed(detail, { missing, checks: reported(checks) });
}

/** The checks as the answer has them, without `failed`: the texts already say that a look-up failed. */
const reported = (checks: Checks) =>
  Object.fromEntries(Object.entries(checks).map(([name, { failed, ...check }]) => [name, check]));

/**
 * Marks the domain verified. Only one account can hold a name: its holder keeps it as long as it
 * publishes its own verification record.
 *
 * @param warning what is wrong all the same
 */
async function takeName(db: Database, domain: Domain, where: Surroundings, warning: string | null): Promise<boolean> {
  const holder = await db.prisma.domain.findFirst({
    where: { domain: domain.domain, status: 'verified', NOT: { id: domain.id } },
  });
  if (holder && (await mayStillPublish(holder, where))) return false;
  return db.transaction(async (tx) => {
    // Otherwise two accounts that verify at once would both find it free, and the second would fail on the index.
    await tx.query({ text: 'SELECT pg_advisory_xact_lock(hashtext($1))', values: [`verified ${domain.domain}`] });
    const own = await tx.query({ text: 'SELECT FROM domains WHERE id = $1 FOR UPDATE', values: [domain.id] });
    // It was removed since it was looked up, so it takes the name from nobody.
    if (own.length === 0) return false;
    await tx.query({
      text: `UPDATE domains SET status = 'pending', verified_at = NULL, dns_warning = 'another account has verified this domain'
              WHERE id = $1`,
      values: [holder?.id ?? null],
    });
    const rows = await tx.query({
      text: `UPDATE domains SET status = 'verified', verified_at = coalesce(verified_at, now()), dns_warning = $3, checks = 0,
                    next_check_at = least(CASE WHEN ${hasNewKey} THEN next_check_at END, now() + interval '1 day')
              WHERE id = $1
                AND NOT EXISTS (SELECT FROM domains other WHERE other.domain = $2 AND other.status = 'verified' AND other.id <> $1)
              RETURNING id`,
      values: [domain.id, domain.domain, warning],
    });
    return rows.length > 0;
  });
}

/** A look-up that fails temporarily takes the name from nobody. */
async function mayStillPublish(holder: Domain, where: Surroundings): Promise<boolean> {
  const record = domains.verificationRecord(holder);
  const { texts, failed } = await lookUp(record.name, where);
  return failed || texts.includes(record.value);
}

/** What was found of the keys beside the one that every signature has. */
interface KeysSeen {
  /** Whether any began to sign. */
  begun: boolean;
  /** One sentence for each that signs and that receivers cannot verify. */
  broken: string[];
  /** Whether a look-up for one that signs failed temporarily. */
  failed: boolean;
}

/** Lets pending keys sign whose records are right now, and stores what is wrong with the records of all. */
async function lookAtKeys(db: Database, domain: Domain, where: Surroundings): Promise<KeysSeen> {
  const seen: KeysSeen = { begun: false, broken: [], failed: false };
  for (const key of await dkimKeys.signing(db, domain)) {
    const record = domains.keyRecord(key, domain.domain);
    const { selector, publicKey, privateKey: sealed } = key;
    const { problem, failed } = await checkDkim(domain, { record, selector, publicKey, sealed }, where);
    if (key.status === 'active') {
      await dkimKeys.note(db, key, problem);
      if (problem !== null) seen.broken.push(`dkim of the selector ${selector}: ${problem}`);
      seen.failed ||= failed;
    } else if (problem === null) {
      await dkimKeys.activate(db, key);
      seen.begun = true;
    } else await dkimKeys.note(db, key, problem);
  }
  return seen;
}

const warningOf = ({ broken }: KeysSeen, ...others: string[]): string | null =>
  [...others, ...broken].filter((text) => text !== '').join('; ') || null;

/** The most in one run, because failures are reported only at its end. */
const mostRechecks = 200;
const accountsAtOnce = 10;
const pendingForMs = 48 * 3_600_000;

/** SQL: whether a key of the domain still waits for its record, which is looked for in the background. */
const hasNewKey = `EXISTS (SELECT FROM dkim_keys k WHERE k.domain_id = domains.id AND k.status = 'pending'
                              AND k.created_at > now() - interval '${pendingForMs / 3_600_000} hours')`;

/**
 * Checks the domains that are due again: pending ones, and those with a new DKIM key, at doubling intervals for 48 hours,
 * and verified ones daily, or after an hour if a name server did not answer. A verified domain stays verified; its
 * `dns_warning` says what is missing.
 *
 * Accounts take turns, and each has one check under way: silent name servers hold up only their own account.
 *
 * @param stop begins no more checks
 * @throws the first of the errors, after all domains were checked, prefixed with the domain's name
 */
export async function recheckDue(db: Database, where: Surroundings, stop?: AbortSignal): Promise<void> {
  const failures: Error[] = [];
  const underWay = new Map<string, Promise<void>>();
  const lastTurns = new Map<string, number>();
  let ended = 0;
  const begin = ({ id, accountId }: DueDomain) => {
    const work = recheck(db, id, where)
      // A check that fails does not keep the others waiting.
      .catch((error: Error) => void failures.push(error))
      .finally(() => {
        underWay.delete(accountId);
        ended += 1;
      });
    underWay.set(accountId, work);
  };
  try {
    for (let turn = 1; turn <= mostRechecks && !stop?.aborted; ) {
      const endedBefore = ended;
      const due = underWay.size < accountsAtOnce ? await takeNext(db, [...underWay.keys()], lastTurns) : null;
      if (due) {
        begin(due);
        lastTurns.set(due.accountId, turn);
        turn += 1;
        continue;
      }
      // `takeNext` left out busy accounts. One whose check ended meanwhile may have more.
      if (ended !== endedBefore) continue;
      if (underWay.size === 0) break;
      await Promise.race(underWay.values());
    }
  } finally {
    await Promise.all(underWay.values());
  }
  if (failures[0]) throw failures[0];
}

interface DueDomain {
  id: string;
  accountId: string;
}

/** Takes the domain that has waited longest, of the account that has waited longest for a turn. */
async function takeNext(
  db: Database,
  busyAccounts: string[],
  lastTurns: ReadonlyMap<string, number>,
): Promise<DueDomain | null> {
  const accounts = await db.query<{ id: string }>({
    text: `SELECT account_id AS id FROM domains WHERE next_check_at <= now() AND account_id <> ALL($1::uuid[])
            GROUP BY account_id ORDER BY min(next_check_at)`,
    values: [busyAccounts],
  });
  const turnOf = ({ id }: { id: string }) => lastTurns.get(id) ?? 0;
  for (const { id: accountId } of accounts.sort((a, b) => turnOf(a) - turnOf(b))) {
    const id = await takeDue(db, accountId);
    if (id !== null) return { id, accountId };
  }
  return null;
}

/** Postpones the next check, so that no other node takes it. One at a time: a process that ends here skips only one. */
async function takeDue(db: Database, accountId: string): Promise<string | null> {
  const [due] = await db.query<{ id: string }>({
    text: `UPDATE domains SET checks = checks + 1, next_check_at = CASE
                  WHEN ${hasNewKey} THEN now() + interval '1 minute' * power(2, least(checks, 10))
                  WHEN status = 'verified' THEN now() + interval '1 day'
                  WHEN created_at < now() - make_interval(secs => $2) THEN NULL
                  ELSE now() + interval '1 minute' * power(2, least(checks, 10)) END
            WHERE id = (SELECT id FROM domains WHERE account_id = $1 AND next_check_at <= now()
                         ORDER BY next_check_at LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING id`,
    values: [accountId, pendingForMs / 1000],
  });
  return due?.id ?? null;
}

/** @throws Error prefixed with the domain's name */
async function recheck(db: Database, id: string, where: Surroundings): Promise<void> {
  const domain = await db.prisma.domain.findUnique({ where: { id } });
  // It was removed meanwhile.
  if (!domain) return;
  try {
    await recheckDomain(db, domain, where);
  } catch (error) {
    throw new Error(`${domain.domain}: ${(error as Error).message}`, { cause: error });
  }
}

async function recheckDomain(db: Database, known: Domain, where: Surroundings): Promise<void> {
  const keys = await lookAtKeys(db, known, where);
  const domain = keys.begun ? await db.prisma.domain.findUnique({ where: { id: known.id } }) : known;
  if (!domain) return;
  const checks = await check(domain, where);
  const { missing, detail } = problems(checks);
  if (domain.status === 'pending') {
    if (missing.length === 0) await takeName(db, domain, where, warningOf(keys));
    return;
  }
  const isUnknown = [...Object.values(checks), keys].some(({ failed }) => failed);
  await db.query({
    // Another account may have verified the name meanwhile; then this one's warning says so, and stays. A name server that did
    // not answer once must not look like a missing record for a day.
    text: `UPDATE domains SET dns_warning = $2,
                  next_check_at = CASE WHEN $3 THEN least(next_check_at, now() + interval '1 hour') ELSE next_check_at END
            WHERE id = $1 AND status = 'verified'`,
    values: [domain.id, warningOf(keys, detail), isUnknown],
  });
}
