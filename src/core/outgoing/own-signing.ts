import type { Keyring } from '../../crypto/seal.ts';
import type { Database } from '../../db/client.ts';
import type { DkimKey } from '../../mail/compose/dkim-key.ts';
import { keysOf } from './outgoing.ts';
import { openKey } from './outgoing-message.ts';

interface Row {
  id: string;
  domain: string;
  dkim_selector: string;
  dkim_private_key: Buffer;
  second_selector: string | null;
  second_key: Buffer | null;
}

/**
 * The keys that this installation's own mail is signed with: those of the verified domain that is this one or the nearest
 * above it, whose DNS records speak for it too (RFC 6376 section 3.10). Empty if there is no such domain.
 */
export async function keysFor(db: Database, keyring: Keyring, domain: string): Promise<DkimKey[]> {
  const [row] = await db.query<Row>({
    text: `SELECT d.id, d.domain, d.dkim_selector, d.dkim_private_key, s.selector AS second_selector, s.private_key AS second_key
             FROM domains d LEFT JOIN dkim_keys s ON s.domain_id = d.id AND s.status = 'active'
            WHERE d.status = 'verified' AND d.domain = ANY($1)
            ORDER BY length(d.domain) DESC LIMIT 1`,
    values: [withParents(domain)],
  });
  if (!row) return [];
  const keys = keysOf(row);
  return keys.map((key) => openKey(keyring, { domainId: row.id, domain: row.domain, keys }, key));
}

/** The domain and those above it, except the top-level domain. */
function withParents(domain: string): string[] {
  const labels = domain.split('.');
  return labels.slice(0, -1).map((_, index) => labels.slice(index).join('.'));
}
