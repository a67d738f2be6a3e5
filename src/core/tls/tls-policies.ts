import type { Database } from '../../db/client.ts';
import { Batcher } from '../../pace/batcher.ts';
import { expiresAt, type StsPolicy } from '../../smtp/policies/mta-sts.ts';
import type { StsStore } from '../../smtp/policies/sts-policies.ts';

/** The most that one statement looks up. */
const mostDomains = 1_000;

/** The MTA-STS policies that any node has fetched. Look-ups that arrive while one is under way share the next one. */
export class KnownPolicies implements StsStore {
  readonly #db: Database;
  readonly #finding: Batcher<string, StsPolicy | null>;

  constructor(db: Database) {
    this.#db = db;
    this.#finding = new Batcher((domains) => this.#find(domains), { most: mostDomains });
  }

  load(domain: string): Promise<StsPolicy | null> {
    return this.#finding.add(domain);
  }

  /** Overwrites no policy that another node fetched later, unless that time is in the future, by a clock that was ahead. */
  async save(domain: string, policy: StsPolicy): Promise<void> {
    await this.#db.query({
      text: `INSERT INTO tls_policies (domain, policy_id, mode, mx, max_age_seconds, fetched_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (domain) DO UPDATE
                SET policy_id = excluded.policy_id, mode = excluded.mode, mx = excluded.mx, max_age_seconds = excluded.max_age_seconds,
                    fetched_at = excluded.fetched_at, expires_at = excluded.expires_at
              WHERE tls_policies.fetched_at <= excluded.fetched_at OR tls_policies.fetched_at > now()`,
      values: [domain, policy.id, policy.mode, policy.mx, policy.maxAgeSeconds, policy.fetchedAt, expiresAt(policy)],
    });
  }

  async #find(domains: string[]): Promise<(StsPolicy | null)[]> {
    const rows = await this.#db.query<StsPolicy & { domain: string }>({
      name: 'tls-policies-find',
      text: `SELECT domain, policy_id AS id, mode, mx, max_age_seconds AS "maxAgeSeconds", fetched_at AS "fetchedAt" FROM tls_policies
              WHERE domain = ANY($1) AND expires_at > now()`,
      values: [[...new Set(domains)]],
    });
    const found = new Map(rows.map(({ domain, ...policy }) => [domain, policy]));
    return domains.map((domain) => found.get(domain) ?? null);
  }
}

/** Deletes policies that expired before anybody fetched them again. */
export async function forgetExpired(db: Database): Promise<void> {
  await db.query({ text: 'DELETE FROM tls_policies WHERE expires_at < now()' });
}
