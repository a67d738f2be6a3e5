import type { Sql } from '../../db/client.ts';
import { type ApiError, forbidden } from '../../errors.ts';
import type { Sender } from '../accounts/keys.ts';

/** The 403 for a sender whose key may not send from this domain, verified or not; null if it may. */
export const refusalOfKey = ({ domains }: Pick<Sender, 'domains'>, domain: string): ApiError | null =>
  domains.length === 0 || domains.includes(domain)
    ? null
    : forbidden(`the API key is restricted to other sender domains: use another key, or create one for ${domain}`);

/** @throws ApiError 403, as `refusalOfKey` returns it */
export function demandSendFrom(sender: Pick<Sender, 'domains'>, domain: string): void {
  const refusal = refusalOfKey(sender, domain);
  if (refusal) throw refusal;
}

/** The ids of the domains, among these names in canonical form, that the account may send from: the verified ones. */
export async function senderDomains(db: Sql, accountId: string, names: string[]): Promise<Map<string, string>> {
  return (await sendersNow(db, accountId, names)).domains;
}

/** Those of these names that the account has added, verified or not: asked only to say why a sender is refused. */
export async function addedDomains(db: Sql, accountId: string, names: string[]): Promise<Set<string>> {
  if (names.length === 0) return new Set();
  const rows = await db.query<{ domain: string }>({
    text: 'SELECT domain FROM domains WHERE account_id = $1 AND domain = ANY($2)',
    values: [accountId, [...new Set(names)]],
  });
  return new Set(rows.map(({ domain }) => domain));
}

/** Like `senderDomains`, with the database's time: that decides when mail is due, not this machine's clock. */
export async function sendersNow(
  db: Sql,
  accountId: string,
  names: string[],
): Promise<{ domains: Map<string, string>; now: Date }> {
  const rows = await db.query<{ now: Date; id: string | null; domain: string | null }>({
    name: 'sender-domains',
    text: `SELECT clock_timestamp() AS now, d.id, d.domain
             FROM (VALUES (true)) AS always
             LEFT JOIN domains d ON d.account_id = $1 AND d.domain = ANY($2) AND d.status = 'verified'`,
    values: [accountId, [...new Set(names)]],
  });
  const domains = new Map(rows.flatMap(({ id, domain }) => (id !== null && domain !== null ? [[domain, id]] : [])));
  return { domains, now: rows[0]?.now ?? new Date() };
}
