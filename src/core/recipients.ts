import type { Database, Sql } from '../db/client.ts';
import type { AttemptOutcome, RecipientStatus } from '../generated/prisma/enums.ts';
import { newId } from '../ids.ts';
import { type DeliverJob, isLiveJob, type Queue } from '../queue.ts';

/** The recipients that one job woke and this node now holds. */
export interface Claim {
  nodeId: string;
  jobId: string;
  emailId: string;
  destination: string;
  recipients: { position: number; address: string; attempts: number }[];
}

/** What became of one recipient after one attempt. */
export interface Settlement {
  nodeId: string;
  emailId: string;
  position: number;
  jobId: string;
  status: Exclude<RecipientStatus, 'queued'>;
  attempts: number;
  /** Null when settled for good. */
  nextAttemptAt: Date | null;
  lastResponse: string;
}

/** One row of the attempt log. Text from remote servers is cleaned and cut before it comes here. */
export interface AttemptRow {
  emailId: string;
  recipient: string;
  number: number;
  at: Date;
  durationMs: number;
  mxHost: string | null;
  remoteAddress: string | null;
  localAddress: string | null;
  tlsVersion: string | null;
  tlsCipher: string | null;
  phase: string;
  outcome: AttemptOutcome;
  uncertain: boolean;
  replyCode: number | null;
  enhancedCode: string | null;
  reply: string | null;
  reason: string;
  classification: string | null;
}

/**
 * Claims for this node the recipients that these jobs woke. A job claims nothing whose recipients are settled, held by a
 * node, or woken by a later job: it can be removed.
 */
export async function claim(tx: Sql, nodeId: string, jobs: DeliverJob[]): Promise<Claim[]> {
  const rows = await tx.query<{
    job_id: string;
    email_id: string;
    destination: string;
    position: number;
    address: string;
    attempts: number;
  }>({
    name: 'recipients-claim',
    text: `UPDATE recipients r SET claimed_by = $1, claimed_at = now()
             FROM unnest($2::uuid[], $3::uuid[]) AS job (email_id, id)
            WHERE r.email_id = job.email_id AND r.job_id = job.id AND r.next_attempt_at IS NOT NULL AND r.claimed_by IS NULL
        RETURNING r.job_id, r.email_id, r.destination, r.position, r.address, r.attempts`,
    values: [nodeId, jobs.map((job) => job.emailId), jobs.map((job) => job.id)],
  });
  const claims = new Map<string, Claim>();
  for (const { job_id: jobId, email_id: emailId, destination, position, address, attempts } of rows) {
    const entry = claims.get(jobId) ?? { nodeId, jobId, emailId, destination, recipients: [] };
    entry.recipients.push({ position, address, attempts });
    claims.set(jobId, entry);
  }
  return [...claims.values()];
}

/**
 * Writes down what became of recipients, the attempts that led to it and what follows for their emails, and removes the
 * finished jobs: all in the caller's transaction. A recipient that another node has taken over in the meantime is left
 * to it, except that "delivered" is true whoever says it.
 */
export async function settle(tx: Sql, queue: Queue, settlements: Settlement[], attempts: AttemptRow[]): Promise<void> {
  // In one order on every node, so that two which settle recipients of the same emails do not wait in a circle.
  const ordered = settlements.toSorted((a, b) =>
    a.emailId < b.emailId ? -1 : a.emailId > b.emailId ? 1 : a.position - b.position,
  );
  await tx.query({
    name: 'recipients-settle',
    text: `WITH settled AS (
             UPDATE recipients r
                SET status = s.status, attempts = s.attempts, next_attempt_at = s.next_attempt_at, last_response = s.response,
                    job_id = NULL, claimed_by = NULL, claimed_at = NULL,
                    settled_at = CASE WHEN s.next_attempt_at IS NULL THEN now() END
               FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::uuid[], $5::recipient_status[], $6::smallint[], $7::timestamptz[], $8::text[])
                    AS s (node_id, email_id, position, job_id, status, attempts, next_attempt_at, response)
              WHERE r.email_id = s.email_id AND r.position = s.position AND r.next_attempt_at IS NOT NULL
                AND ((r.claimed_by = s.node_id AND r.job_id = s.job_id) OR s.status = 'delivered')
          RETURNING r.email_id, r.status, r.last_response),
           totals AS (
             SELECT email_id, count(*) AS done, count(*) FILTER (WHERE status = 'failed') AS failed,
                    min(last_response) FILTER (WHERE status = 'failed') AS error
               FROM settled WHERE status <> 'deferred' GROUP BY email_id)
           UPDATE emails e
              SET pending = e.pending - t.done, failed = e.failed + t.failed, error = coalesce(e.error, t.error),
                  status = CASE WHEN e.pending > t.done THEN e.status
                                WHEN e.failed + t.failed > 0 THEN 'failed'::email_status ELSE 'sent'::email_status END,
                  sent_at = CASE WHEN e.pending = t.done AND e.failed + t.failed = 0 THEN now() END
             FROM totals t WHERE e.id = t.email_id`,
    values: [
      ordered.map((entry) => entry.nodeId),
      ordered.map((entry) => entry.emailId),
      ordered.map((entry) => entry.position),
      ordered.map((entry) => entry.jobId),
      ordered.map((entry) => entry.status),
      ordered.map((entry) => entry.attempts),
      ordered.map((entry) => entry.nextAttemptAt),
      ordered.map((entry) => entry.lastResponse),
    ],
  });
  await insertAttempts(tx, attempts);
  await queue.remove(tx, [...new Set(settlements.map((entry) => entry.jobId))]);
}

async function insertAttempts(tx: Sql, attempts: AttemptRow[]): Promise<void> {
  const column = (read: (row: AttemptRow) => unknown) => attempts.map(read);
  await tx.query({
    name: 'attempts-insert',
    text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, remote_address, local_address, tls_version,
                                 tls_cipher, phase, outcome, uncertain, reply_code, enhanced_code, reply, reason, classification)
           SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::smallint[], $5::timestamptz[], $6::integer[], $7::text[], $8::text[],
                  $9::text[], $10::text[], $11::text[], $12::text[], $13::attempt_outcome[], $14::boolean[], $15::smallint[], $16::text[],
                  $17::text[], $18::text[], $19::text[])`,
    values: [
      column((row) => row.emailId),
      column(() => newId()),
      column((row) => row.recipient),
      column((row) => row.number),
      column((row) => row.at),
      column((row) => row.durationMs),
      column((row) => row.mxHost),
      column((row) => row.remoteAddress),
      column((row) => row.localAddress),
      column((row) => row.tlsVersion),
      column((row) => row.tlsCipher),
      column((row) => row.phase),
      column((row) => row.outcome),
      column((row) => row.uncertain),
      column((row) => row.replyCode),
      column((row) => row.enhancedCode),
      column((row) => row.reply),
      column((row) => row.reason),
      column((row) => row.classification),
    ],
  });
}

/** Gives claimed recipients back untouched, due at once, as on shutdown. */
export async function release(db: Database, queue: Queue, claims: Claim[]): Promise<void> {
  if (claims.length === 0) return;
  await db.transaction(async (tx) => {
    await tx.query({
      text: `UPDATE recipients r SET job_id = NULL, claimed_by = NULL, claimed_at = NULL
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS c (email_id, job_id, node_id)
              WHERE r.email_id = c.email_id AND r.job_id = c.job_id AND r.claimed_by = c.node_id`,
      values: [
        claims.map((entry) => entry.emailId),
        claims.map((entry) => entry.jobId),
        claims.map((entry) => entry.nodeId),
      ],
    });
    await queue.remove(
      tx,
      claims.map((entry) => entry.jobId),
    );
  });
}

/**
 * Makes jobs for recipients whose time has come, the longest waiting first.
 *
 * @returns how many recipients were woken; `limit` means that there may be more
 */
export async function wakeDue(db: Database, queue: Queue, limit: number): Promise<number> {
  const woken = await db.transaction(async (tx) => {
    const due = await tx.query<{ email_id: string; position: number; destination: string; type: string }>({
      name: 'recipients-due',
      text: `SELECT r.email_id, r.position, r.destination, e.type
               FROM (SELECT email_id, position, destination FROM recipients
                      WHERE job_id IS NULL AND next_attempt_at <= now()
                      ORDER BY next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED) r
               JOIN emails e ON e.id = r.email_id`,
      values: [limit],
    });
    if (due.length === 0) return 0;
    const jobs = new Map<string, DeliverJob & { priority: number }>();
    const jobIds = due.map(({ email_id: emailId, destination, type }) => {
      const key = `${emailId} ${destination}`;
      const job = jobs.get(key) ?? { id: newId(), emailId, destination, priority: type === 'marketing' ? 0 : 10 };
      jobs.set(key, job);
      return job.id;
    });
    await tx.query({
      name: 'recipients-wake',
      text: `UPDATE recipients r SET job_id = due.job_id
               FROM unnest($1::uuid[], $2::smallint[], $3::uuid[]) AS due (email_id, position, job_id)
              WHERE r.email_id = due.email_id AND r.position = due.position`,
      values: [due.map((row) => row.email_id), due.map((row) => row.position), jobIds],
    });
    await queue.enqueue(tx, [...jobs.values()]);
    return due.length;
  });
  if (woken > 0) queue.wake();
  return woken;
}

/**
 * Looks at a stretch of the recipients that have a job, in the order of their ids, and makes those due again whose job
 * is gone or whose node no longer exists: the rows are the truth, and no lost job loses mail.
 *
 * @param after where the last stretch ended; null begins anew
 * @returns where this one ended; null when it reached the end
 */
export async function sweep(
  db: Database,
  after: { emailId: string; position: number } | null,
  limit: number,
): Promise<{ freed: number; next: { emailId: string; position: number } | null }> {
  const [row] = await db.query<{ freed: number; seen: number; email_id: string | null; position: number | null }>({
    text: `WITH stretch AS (
             SELECT email_id, position, job_id, claimed_by FROM recipients
              WHERE job_id IS NOT NULL AND (email_id, position) > ($1::uuid, $2::smallint)
              ORDER BY email_id, position LIMIT $3),
           orphans AS (
             SELECT s.* FROM stretch s
              WHERE (s.claimed_by IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = s.claimed_by))
                 OR (s.claimed_by IS NULL AND NOT ${isLiveJob('s.job_id')})),
           freed AS (
             UPDATE recipients r SET job_id = NULL, claimed_by = NULL, claimed_at = NULL
               FROM orphans o
              WHERE r.email_id = o.email_id AND r.position = o.position AND r.job_id = o.job_id
                AND r.claimed_by IS NOT DISTINCT FROM o.claimed_by
          RETURNING 1)
           SELECT (SELECT count(*)::int FROM freed) AS freed, (SELECT count(*)::int FROM stretch) AS seen, last.email_id, last.position
             FROM (SELECT 1) one LEFT JOIN LATERAL (
               SELECT email_id, position FROM stretch ORDER BY email_id DESC, position DESC LIMIT 1) last ON true`,
    values: [after?.emailId ?? '00000000-0000-0000-0000-000000000000', after?.position ?? -1, limit],
  });
  if (!row) return { freed: 0, next: null };
  const atEnd = row.seen < limit || row.email_id === null || row.position === null;
  return {
    freed: row.freed,
    next: atEnd ? null : { emailId: row.email_id as string, position: row.position as number },
  };
}
