import type { Database } from '../../src/db/client.ts';
import type { EmailType } from '../../src/generated/prisma/enums.ts';

/** Emails per statement, so that a slow machine has time for each. */
const together = 2_000;

/** Emails as if scheduled one by one, each for one recipient at this domain. */
export async function scheduleMany(
  db: Database,
  sender: { account: { id: string }; domainId: string; domain: string; from: string },
  { emails, to, at, type = 'transactional' }: { emails: number; to: string; at: Date; type?: EmailType },
): Promise<void> {
  for (let from = 1; from <= emails; from += together)
    await db.query({
      text: `WITH numbers AS (
             SELECT n, (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3) || '8'
                    || substr(md5(random()::text), 1, 15))::uuid AS id FROM generate_series($9::int, $5::int) n),
           emails AS (
             INSERT INTO emails (id, account_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags, from_address, from_domain,
                                 recipient_addresses, message_id, pending, created_at, scheduled_at)
             SELECT id, $1, $2, $8::email_type, $3, ARRAY['r' || n || '@' || $4], '{}', '{}', '{}', 'scheduled ' || id, '{}', $3, $7,
                    ARRAY['r' || n || '@' || $4], id || '@' || $7, 1, now(), $6 FROM numbers),
           contents AS (INSERT INTO email_contents (email_id, text) SELECT id, repeat('x', 1000) FROM numbers)
           INSERT INTO recipients (account_id, email_id, position, type, kind, address, destination, status, next_attempt_at)
           SELECT $1, id, 0, $8::email_type, 'to', 'r' || n || '@' || $4, $4, 'queued', $6 FROM numbers`,
      values: [
        sender.account.id,
        sender.domainId,
        sender.from,
        to,
        Math.min(from + together - 1, emails),
        at,
        sender.domain,
        type,
        from,
      ],
    });
}
