import type { Sql } from '../db/client.ts';
import type { Queue } from '../queue.ts';
import type { Draft } from './draft.ts';

/**
 * Writes everything that was laid out and enqueues the jobs, inside the caller's transaction and with the same number of
 * statements for one email and for a thousand.
 */
export async function store(tx: Sql, queue: Queue, accountId: string, drafts: Draft[]): Promise<void> {
  await storeAttachments(tx, accountId, drafts);
  await tx.query({
    name: 'accept-emails',
    text: `INSERT INTO emails (id, account_id, api_key_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags,
                               from_address, from_domain, recipient_addresses, message_id, tls, on_uncertain, status, pending, suppressed, error, created_at, scheduled_at)
           SELECT id, "accountId", "apiKeyId", "domainId", type, "from", "to", cc, bcc, "replyTo", subject, tags,
                  "fromAddress", "fromDomain", "recipientAddresses", "messageId", tls, "onUncertain", status, pending, suppressed, error, "createdAt", "scheduledAt"
             FROM json_to_recordset($1::json) AS e (id uuid, "accountId" uuid, "apiKeyId" uuid, "domainId" uuid, type email_type,
                  "from" text, "to" text[], cc text[], bcc text[], "replyTo" text[], subject text, tags text[],
                  "fromAddress" text, "fromDomain" text, "recipientAddresses" text[], "messageId" text, tls tls_level, "onUncertain" uncertain_policy, status email_status, pending smallint, suppressed smallint, error text, "createdAt" timestamptz, "scheduledAt" timestamptz)`,
    values: [JSON.stringify(drafts.map((entry) => entry.email))],
  });
  await tx.query({
    name: 'accept-contents',
    text: `INSERT INTO email_contents (email_id, html, text, headers, attachments)
           SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[])`,
    values: [
      drafts.map(({ email }) => email.id),
      drafts.map(({ request }) => request.html),
      drafts.map(({ request }) => request.text),
      drafts.map(({ request }) => JSON.stringify(request.headers.map(({ name, value }) => [name, value]))),
      drafts.map(({ attachments }) => JSON.stringify(attachments.map(({ content: _, ...stored }) => stored))),
    ],
  });
  const rows = drafts.flatMap(({ email, recipients }) =>
    recipients.map((recipient) => ({ ...recipient, emailId: email.id })),
  );
  await tx.query({
    name: 'accept-recipients',
    text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, next_attempt_at, job_id)
           SELECT $9::uuid, * FROM unnest($1::uuid[], $2::smallint[], $3::recipient_kind[], $4::text[], $5::text[], $6::recipient_status[],
                                $7::timestamptz[], $8::uuid[])`,
    values: [
      rows.map((row) => row.emailId),
      rows.map((row) => row.position),
      rows.map((row) => row.kind),
      rows.map((row) => row.address),
      rows.map((row) => row.destination),
      rows.map((row) => row.status),
      rows.map((row) => row.nextAttemptAt),
      rows.map((row) => row.jobId),
      accountId,
    ],
  });
  await queue.enqueue(
    tx,
    drafts.flatMap((entry) => entry.jobs),
  );
}

/** Bytes that repeat, within the batch or since earlier, are stored once. */
async function storeAttachments(tx: Sql, accountId: string, drafts: Draft[]): Promise<void> {
  const byHash = new Map<string, { content: Buffer; lastUsedAt: Date }>();
  for (const { email, attachments } of drafts) {
    for (const { sha256: hash, content } of attachments) {
      const lastUsedAt = email.scheduledAt ?? email.createdAt;
      const known = byHash.get(hash);
      if (!known || known.lastUsedAt < lastUsedAt) byHash.set(hash, { content, lastUsedAt });
    }
  }
  if (byHash.size === 0) return;
  // In one order on every node: two batches that share attachments must not wait for each other in a circle.
  const entries = [...byHash].sort(([a], [b]) => (a < b ? -1 : 1));
  await tx.query({
    text: `INSERT INTO attachments (account_id, sha256, content, last_used_at)
           SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::timestamptz[])
           ON CONFLICT (account_id, sha256) DO UPDATE SET last_used_at = greatest(attachments.last_used_at, excluded.last_used_at)`,
    values: [
      accountId,
      entries.map(([hash]) => Buffer.from(hash, 'hex')),
      entries.map(([, entry]) => entry.content),
      entries.map(([, entry]) => entry.lastUsedAt),
    ],
  });
}
