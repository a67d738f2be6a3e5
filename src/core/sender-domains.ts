import type { Sql } from '../db/client.ts';

/** Those of these domain names, in their canonical form, that the account may send from: the verified ones. */
export async function verifiedAmong(db: Sql, accountId: string, names: string[]): Promise<Set<string>> {
  const rows = await db.query<{ domain: string }>({
    name: 'sender-domains-verified',
    text: `SELECT domain FROM domains WHERE account_id = $1 AND domain = ANY($2) AND status = 'verified'`,
    values: [accountId, [...new Set(names)]],
  });
  return new Set(rows.map(({ domain }) => domain));
}
