import type { Sql } from '../../db/client.ts';
import { byWeight } from '../../pace/by-weight.ts';

/** Bytes of bodies that are read together. The bodies of one email have at most 30 MB: three for each of ten million characters. */
const heaviestRead = 4 * 1024 * 1024;

/** The emails that have content, in groups that can be read together: a few megabytes, or one email. */
export async function contentGroups(db: Sql, emailIds: string[]): Promise<string[][]> {
  const sizes = await db.query<{ id: string; bytes: number }>({
    text: `SELECT email_id AS id, coalesce(octet_length(html), 0) + coalesce(octet_length(text), 0) AS bytes
             FROM email_contents WHERE email_id = ANY($1) ORDER BY email_id`,
    values: [emailIds],
  });
  return byWeight(sizes, heaviestRead, ({ bytes }) => bytes).map((group) => group.map(({ id }) => id));
}
