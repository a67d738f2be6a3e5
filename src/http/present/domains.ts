import { overlapMs } from '../../core/domains/dkim-keys.ts';
import { keyRecord } from '../../core/domains/domains.ts';
import type { Check, Checks } from '../../core/domains/record-checks.ts';
import type { DkimKey, Domain } from '../../generated/prisma/client.ts';
import { iso } from './times.ts';

export function domain(row: Domain) {
  return {
    id: row.id,
    domain: row.domain,
    status: row.status,
    dkim_selector: row.dkimSelector,
    verified_at: iso(row.verifiedAt),
    dns_warning: row.dnsWarning,
    tls: row.tls,
    pool: row.pool,
    created_at: iso(row.createdAt),
  };
}

/** @param domain the name of the domain that the key is for */
export function dkimKey(key: DkimKey, domain: string) {
  return {
    id: key.id,
    selector: key.selector,
    algorithm: key.algorithm,
    status: key.status,
    record: keyRecord(key, domain),
    problem: key.problem,
    created_at: iso(key.createdAt),
    activated_at: iso(key.activatedAt),
    retired_at: iso(key.retiredAt),
    remove_after: key.retiredAt && iso(new Date(key.retiredAt.getTime() + overlapMs)),
  };
}

export function exportedDomain(row: Domain, keys: DkimKey[]) {
  return {
    ...domain(row),
    dkim_public_key: row.dkimPublicKey,
    dkim_keys: keys.map((key) => dkimKey(key, row.domain)),
  };
}

export function check({ ok, name, type, expected, found, problem }: Check) {
  return { ok, name, type, expected, found, problem };
}

export function checks({ verification, dkim, spf }: Checks) {
  return { verification: check(verification), dkim: check(dkim), spf: check(spf) };
}
