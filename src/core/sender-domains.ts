import type { Sql } from '../db/client.ts';

/** Those of these domain names, in their canonical form, that the account may send from, with their ids: the verified ones. */
export async function senderDomains(db: Sql, accountId: string, names: string[]): Promise<Map<string, string>> {
  const rows = await db.query<{ id: string; domain: string }>({
    name: 'sender-domains',
    text: `SELECT id, domain FROM domains WHERE account_id = $1 AND domain = ANY($2) AND status = 'verified'`,
    values: [accountId, [...new Set(names)]],
  });
  return new Map(rows.map(({ id, domain }) => [domain, id]));
}
