import type { Database } from '../../db/client.ts';

/** When mail to a domain or a site last arrived, to within a minute: on any node, also after it has ended. */

/** How long it is known. As long as attempts are kept, on every plan: what is older nobody can look up in any case. */
const keptDays = 30;

/** A newsletter goes to tens of thousands of domains in a minute. */
const notedAtOnce = 5_000;

/** Notes for each of these domains and sites when mail last arrived there, unless later mail is known. Several nodes may do it at once. */
export async function note(db: Database, deliveries: ReadonlyMap<string, Date>): Promise<void> {
  // In one order, as nodes change the same rows.
  const all = [...deliveries].sort(([one], [other]) => (one < other ? -1 : 1));
  for (let from = 0; from < all.length; from += notedAtOnce) {
    const some = all.slice(from, from + notedAtOnce);
    await db.query({
      name: 'destination-deliveries',
      // What was noted before a clock was set back is in the future, and would stay.
      text: `INSERT INTO destination_deliveries AS d (name, last_delivered_at)
             SELECT n.name, least(n.at, now()) FROM unnest($1::text[], $2::timestamptz[]) WITH ORDINALITY AS n (name, at, place) ORDER BY n.place
             ON CONFLICT (name) DO UPDATE SET last_delivered_at = least(greatest(d.last_delivered_at, excluded.last_delivered_at), now())`,
      values: [some.map(([name]) => name), some.map(([, at]) => at)],
    });
  }
}

/** Forgets where no mail has arrived for long: otherwise every domain that ever got mail would stay. */
export async function forgetOld(db: Database): Promise<void> {
  await db.query({
    text: `DELETE FROM destination_deliveries WHERE last_delivered_at < now() - interval '${keptDays} days'`,
  });
}

/** SQL: when mail to this name last arrived; null: it is not known, or was longer ago. */
export const lastDeliveredAt = (name: string) =>
  `(SELECT ld.last_delivered_at FROM destination_deliveries ld WHERE ld.name = ${name})`;
