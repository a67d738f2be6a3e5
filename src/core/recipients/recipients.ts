import type { Database, Sql } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { unseen } from '../../db/prepared.ts';
import { beforeAllIds } from '../../ids.ts';
import { type DeliverJob, isSame, isWaitingJob, letGo, type Placed } from '../../queue.ts';
import { pausedUntil, pauseOf } from './waiting-for.ts';

/** The recipients of an email that one job woke and a node is going to deliver to. */
export interface Claim {
  nodeId: string;
  jobId: string;
  emailId: string;
  destination: string;
  /** That of the job: a claim with a higher one goes first, also where it waits for its site. */
  priority: number;
  recipients: { position: number; address: string; attempts: number }[];
}

/**
 * Claims for this node the recipients that these jobs woke, except those that are settled, claimed by another node, or woken
 * by a later job.
 *
 * @returns one claim for each email of a job, those with higher priority first, then older emails first
 */
export async function claim(tx: Sql, nodeId: string, jobs: Placed<DeliverJob>[]): Promise<Claim[]> {
  const rows = await tx.query<Omit<Claim, 'nodeId' | 'priority' | 'recipients'> & Claim['recipients'][number]>({
    name: 'recipients-claim',
    text: `UPDATE recipients r SET claimed_by = $1, claimed_at = now(), waiting_for = NULL
             FROM unnest(${unseen('$2::uuid[]')}, ${unseen('$3::uuid[]')}) AS job (email_id, id)
            WHERE r.email_id = job.email_id AND r.job_id ${isSame} job.id AND r.next_attempt_at IS NOT NULL AND r.claimed_by IS NULL
        RETURNING r.job_id AS "jobId", r.email_id AS "emailId", r.destination, r.position, r.address, r.attempts`,
    values: [nodeId, jobs.flatMap((job) => job.emailIds), jobs.flatMap((job) => job.emailIds.map(() => job.id))],
  });
  const priorities = new Map(jobs.map((job) => [job.id, job.priority]));
  const claims = new Map<string, Claim>();
  for (const { jobId, emailId, destination, position, address, attempts } of rows) {
    const key = `${jobId} ${emailId}`;
    const priority = priorities.get(jobId) ?? 0;
    const entry = claims.get(key) ?? { nodeId, jobId, emailId, destination, priority, recipients: [] };
    entry.recipients.push({ position, address, attempts });
    claims.set(key, entry);
  }
  return [...claims.values()].sort((a, b) => b.priority - a.priority || (a.emailId < b.emailId ? -1 : 1));
}

/** SQL: values of a recipient that its node gives back. As the node did not crash, the count of crashes in a row starts anew. */
export const givenBack = `${letGo}, crashes = 0`;

/**
 * SQL: a `next_attempt_at` that makes a recipient due at once. While the service is on hold it is the start of the hold, so
 * that the recipient is decided about with those that were due before.
 */
export const dueNow = `least((SELECT since FROM service_hold), ${dueFromNow})`;

/** SQL: the recipients `r` of the claims whose `idsOf` are the first three parameters, as long as those hold them. */
const whereClaimed = `FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS c (email_id, job_id, node_id)
            WHERE r.email_id = c.email_id AND r.job_id ${isSame} c.job_id AND r.claimed_by = c.node_id`;

const idsOf = (claims: Claim[]) => [
  claims.map((entry) => entry.emailId),
  claims.map((entry) => entry.jobId),
  claims.map((entry) => entry.nodeId),
];

/** Gives claimed recipients back untouched and due at once, as on shutdown. */
export async function release(db: Sql, claims: Claim[]): Promise<void> {
  if (claims.length === 0) return;
  await db.query({
    text: `UPDATE recipients r SET ${givenBack} ${whereClaimed}`,
    values: idsOf(claims),
  });
}

/** Gives claimed recipients back untouched, to be tried later. @param reason what they wait for, in words */
export async function park(db: Sql, claims: Claim[], until: Date, reason: string): Promise<void> {
  await db.query({
    name: 'recipients-park',
    text: `UPDATE recipients r SET ${givenBack}, next_attempt_at = $4, waiting_for = $5 ${whereClaimed}`,
    values: [...idsOf(claims), until, reason],
  });
}

/** Parks them until the destination or site of this name is resumed; if that has already happened, they are due at once. */
export async function parkForPause(db: Database, claims: Claim[], name: string): Promise<void> {
  await db.transaction(async (tx) => {
    // Resuming changes this row first: either it waits for us and then finds these recipients, or we see that it is resumed.
    const [order] = await tx.query<{ paused: boolean }>({
      text: 'SELECT paused_at IS NOT NULL AS paused FROM destination_orders WHERE name = $1 FOR SHARE',
      values: [name],
    });
    if (order?.paused) await park(tx, claims, pausedUntil, pauseOf(name));
    else await release(tx, claims);
  });
}

/** Makes due at once those recipients of these emails that are still parked for this reason. */
export async function unpark(db: Database, emailIds: string[], reason: string): Promise<void> {
  await db.query({
    name: 'recipients-call-back',
    text: `UPDATE recipients SET next_attempt_at = ${dueNow}, waiting_for = NULL
            WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND job_id IS NULL AND waiting_for = $2 AND next_attempt_at > now()`,
    values: [emailIds, reason],
  });
}

/** How far a sweep has come. */
export interface Place {
  accountId: string;
  emailId: string;
  position: number;
}

/**
 * Checks one stretch of the recipients that have a job, in the order of an index, and makes those due again whose job
 * is gone or whose node no longer exists: the rows are the truth, and a lost job loses no mail.
 *
 * @param after where the last stretch ended; null starts over
 * @returns where this one ended; null if it reached the end
 */
export async function sweep(
  db: Database,
  after: Place | null,
  limit: number,
): Promise<{ freed: number; next: Place | null }> {
  const [row] = await db.query<{ freed: number; seen: number; last: [string, string, number] | null }>({
    text: `WITH stretch AS (
             SELECT account_id, email_id, position, job_id, claimed_by FROM recipients
              WHERE job_id IS NOT NULL AND (account_id, email_id, position) > ($1::uuid, $2::uuid, $3::smallint)
              ORDER BY account_id, email_id, position LIMIT $4),
           orphans AS (
             SELECT s.* FROM stretch s
              WHERE (s.claimed_by IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = s.claimed_by))
                 OR (s.claimed_by IS NULL AND NOT ${isWaitingJob('s.job_id')})),
           freed AS (
             UPDATE recipients r SET ${letGo}
               FROM orphans o
              WHERE r.email_id = o.email_id AND r.position = o.position AND r.job_id = o.job_id
                AND r.claimed_by IS NOT DISTINCT FROM o.claimed_by
          RETURNING 1)
           SELECT (SELECT count(*)::int FROM freed) AS freed, (SELECT count(*)::int FROM stretch) AS seen,
                  (SELECT json_build_array(account_id, email_id, position) FROM stretch
                    ORDER BY account_id DESC, email_id DESC, position DESC LIMIT 1) AS last`,
    values: [after?.accountId ?? beforeAllIds, after?.emailId ?? beforeAllIds, after?.position ?? -1, limit],
  });
  if (!row?.last) return { freed: 0, next: null };
  const [accountId, emailId, position] = row.last;
  return { freed: row.freed, next: row.seen < limit ? null : { accountId, emailId, position } };
}
