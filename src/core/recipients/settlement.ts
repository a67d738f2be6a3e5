import type { Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import { newId } from '../../ids.ts';
import { letGo, type Queue } from '../../queue.ts';
import * as suppressions from '../returns/suppressions.ts';
import { type AttemptRow, insertAttempts } from './attempts.ts';
import { type Ended, emitEvents, type Settled, type SettledStatus } from './settlement-events.ts';
import type { Key } from './waiting.ts';

const stopped = 'stopped before it was delivered, as';

/** The last response of a recipient that was given up because somebody asked for it. */
export const stoppedNote = `${stopped} was asked for`;

/**
 * The last response of a recipient that an operator gave up with all others at its domain.
 *
 * @param reason in the operator's words, for the owner of the email
 * @param isTyped whether that was on the command line, where nobody logs in
 */
export const stoppedForAll = (domain: string, reason: string | null, isTyped: boolean): string =>
  `${stopped} an operator decided${isTyped ? ' on the command line' : ''} for all mail to ${domain}${reason === null ? '' : `: ${reason}`}`;

/**
 * The last response of a recipient that an operator gave up on the command line with other mail of its account.
 *
 * @param reason as for `stoppedForAll`
 */
export const stoppedByOperator = (reason: string | null): string =>
  `${stopped} an operator decided on the command line${reason === null ? '' : `: ${reason}`}`;

/** Whether the last response of a recipient says that it was given up because somebody asked for it. */
export const wasStopped = (lastResponse: string | null): boolean => lastResponse?.startsWith(stopped) === true;

/** What becomes of a recipient: it is due again at a time by the database's clock, or it is settled for good. */
export type Decision =
  | { status: 'deferred'; nextAttemptAt: Date }
  | { status: Exclude<SettledStatus, 'deferred'>; nextAttemptAt: null };

/** The outcome of one attempt for one recipient. */
export type Settlement = Decision & {
  nodeId: string;
  emailId: string;
  position: number;
  jobId: string;
  attempts: number;
  /** `attempts` does not count the attempt: this server ended it. */
  undone?: boolean;
  /** Why it waits, if not because an attempt did not succeed. */
  waitingFor: string | null;
  /** The attempt ended between the final dot and the answer to it. */
  uncertain: boolean;
  lastResponse: string;
  /** Set if the recipient or its domain does not exist: the address, and the account onto whose suppression list it goes. */
  suppress: { accountId: string; address: string } | null;
};

/** Sorts recipients into the order in which every node settles them, so that no two deadlock over the same emails. */
export function inOneOrder<Recipient extends { emailId: string; position: number }>(
  recipients: Recipient[],
): Recipient[] {
  return recipients.toSorted((a, b) =>
    a.emailId < b.emailId ? -1 : a.emailId > b.emailId ? 1 : a.position - b.position,
  );
}

/**
 * Records what became of recipients, the attempts that led to it and what follows for their emails, all in the caller's
 * transaction. A recipient that another node has taken over in the meantime is left to it, except that "delivered" is true
 * whoever says it.
 *
 * @param selectNew selects the attempts that are not logged yet, if some may be, as when the answer to a commit was lost. It
 *   is called after waiting for any transaction that settles the same recipients and is still being committed
 * @returns how many webhook deliveries follow; if there are any, call `queue.webhooks.wake()` after the commit
 */
export async function settle(
  tx: Sql,
  queue: Queue,
  settlements: Settlement[],
  attempts: AttemptRow[],
  selectNew: (tx: Sql, attempts: AttemptRow[]) => Promise<AttemptRow[]> = async () => attempts,
): Promise<number> {
  const { settled, ended } = await writeOutcomes(tx, inOneOrder(settlements));
  await lockOthers(tx, settled, [...settlements, ...attempts]);
  const newAttempts = await selectNew(tx, attempts);
  // If all recipients of an email were settled by this very update, it has seen that none of them was erased.
  const whole = new Set(ended.filter(({ more }) => !more).map(({ email_id }) => email_id));
  const others = [...settlements, ...newAttempts].filter(({ emailId }) => !whole.has(emailId));
  const isErased = await findErased(tx, others);
  await insertAttempts(tx, withoutErased(newAttempts, isErased));
  const bounced = settlements.flatMap(({ suppress, emailId }) =>
    suppress && !isErased(emailId, suppress.address) ? [{ ...suppress, reason: 'bounce' as const, emailId }] : [],
  );
  await suppressions.addAll(tx, bounced);
  return emitEvents(tx, queue, settled, ended);
}

/** Updates the recipients, and the counters and the status of their emails. */
async function writeOutcomes(tx: Sql, settlements: Settlement[]): Promise<{ settled: Settled[]; ended: Ended[] }> {
  const rows = await tx.query<Settled | (Ended & { address: null })>({
    name: 'recipients-settle',
    text: `WITH settled AS (
             UPDATE recipients r
                SET status = s.status, attempts = s.attempts, next_attempt_at = s.next_attempt_at, last_response = s.response, waiting_for = s.waiting_for,
                    ${letGo}, crashes = 0,
                    settled_at = CASE WHEN s.next_attempt_at IS NULL THEN now() END
               FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::uuid[], $5::recipient_status[], $6::smallint[], $7::timestamptz[], $8::text[], $9::text[], $10::boolean[], $11::boolean[])
                    AS s (node_id, email_id, position, job_id, status, attempts, next_attempt_at, response, waiting_for, uncertain, undone)
              WHERE r.email_id = s.email_id AND r.position = s.position AND r.next_attempt_at IS NOT NULL
                AND ((r.claimed_by = s.node_id AND r.job_id = s.job_id) OR s.status = 'delivered')
          RETURNING r.account_id, r.email_id, r.address, r.status, r.attempts, r.last_response, s.uncertain, s.undone),
           totals AS (
             SELECT email_id, count(*) AS done, count(*) FILTER (WHERE status = 'failed') AS failed,
                    count(*) FILTER (WHERE status = 'suppressed') AS suppressed,
                    min(last_response) FILTER (WHERE status <> 'delivered') AS error
               FROM settled WHERE status <> 'deferred' GROUP BY email_id),
           updated AS (
           UPDATE emails e
              SET pending = e.pending - t.done, failed = e.failed + t.failed, suppressed = e.suppressed + t.suppressed, error = coalesce(e.error, t.error),
                  status = CASE WHEN e.pending > t.done THEN e.status
                                WHEN e.failed + t.failed > 0 THEN 'failed'::email_status
                                WHEN e.suppressed + t.suppressed > 0 THEN 'suppressed'::email_status
                                ELSE 'sent'::email_status END,
                  sent_at = CASE WHEN e.pending = t.done AND e.failed + t.failed + e.suppressed + t.suppressed = 0 THEN now() END
             FROM totals t WHERE e.id = t.email_id
        RETURNING e.id, e.status, e.pending, cardinality(e.recipient_addresses) > t.done OR coalesce(e.erased_at > 'epoch', false) AS more)
           -- Not a join: PostgreSQL has no statistics of rows that it has just written, and would compare each with each.
           SELECT account_id, email_id, address, status::text AS status, attempts, last_response, uncertain, undone, NULL AS more FROM settled
           UNION ALL
           SELECT NULL, id, NULL, status::text, NULL, NULL, NULL, NULL, more FROM updated WHERE pending = 0`,
    values: [
      settlements.map((row) => row.nodeId),
      settlements.map((row) => row.emailId),
      settlements.map((row) => row.position),
      settlements.map((row) => row.jobId),
      settlements.map((row) => row.status),
      settlements.map((row) => row.attempts),
      settlements.map((row) => row.nextAttemptAt),
      settlements.map((row) => row.lastResponse),
      settlements.map((row) => row.waitingFor),
      settlements.map((row) => row.uncertain),
      settlements.map((row) => row.undone ?? false),
    ],
  });
  return {
    settled: rows.filter((row) => row.address !== null),
    ended: rows.filter((row) => row.address === null),
  };
}

/**
 * Locks the recipients of emails of which nothing was settled, for example because another node has taken them over; the
 * other emails are locked already. No erasure (which locks all recipients of an email first) and no other record of these
 * attempts may come between looking up which recipients are left and recording the attempts.
 */
async function lockOthers(tx: Sql, settled: Settled[], concerned: { emailId: string }[]): Promise<void> {
  const locked = new Set(settled.map((row) => row.email_id));
  const others = new Set(concerned.map(({ emailId }) => emailId).filter((id) => !locked.has(id)));
  if (others.size > 0) await lockAll(tx, [...others]);
}

/** Locks all recipients of these emails, in the order in which every node settles them, so that no two deadlock. */
export async function lockAll(tx: Sql, emailIds: string[]): Promise<void> {
  await tx.query({
    name: 'settlement-hold-still',
    text: `SELECT FROM recipients WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[])
            ORDER BY email_id, position FOR NO KEY UPDATE`,
    values: [emailIds],
  });
}

/** Whether this recipient of the email was erased. */
type IsErased = (emailId: string, address: string) => boolean;

/**
 * A recipient may be erased while a node is frozen, or dead with a journal left behind: the record of that node must not bring
 * the address back.
 */
async function findErased(tx: Sql, concerned: { emailId: string }[]): Promise<IsErased> {
  if (concerned.length === 0) return () => false;
  const rows = await tx.query<{ id: string; addresses: string[] }>({
    name: 'settlement-erased',
    // Not IS NOT NULL: the planner would take the index of erased emails, which its statistics show as empty.
    text: `SELECT id, ARRAY(SELECT address FROM recipients r WHERE r.email_id = e.id) AS addresses
             FROM emails e WHERE id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND coalesce(erased_at > 'epoch', false)`,
    values: [[...new Set(concerned.map(({ emailId }) => emailId))]],
  });
  const left = new Map(rows.map(({ id, addresses }) => [id, addresses]));
  return (emailId, address) => left.get(emailId)?.includes(address) === false;
}

/** Drops the attempts of erased recipients, and the conversations that name them. */
function withoutErased(attempts: AttemptRow[], isErased: IsErased): AttemptRow[] {
  const touched = new Set(
    attempts.filter(({ emailId, recipient }) => isErased(emailId, recipient)).map(({ emailId }) => emailId),
  );
  return attempts
    .filter(({ emailId, recipient }) => !isErased(emailId, recipient))
    .map((row) => (touched.has(row.emailId) ? { ...row, conversation: null } : row));
}

/** A recipient that somebody decides about without an attempt. */
interface Undecided extends Key {
  attempts: number;
}

/**
 * A claim as if by a node, because `settle` records the outcome of claimed recipients only. Jobs that woke them find nothing.
 */
export const ownClaim = (): { nodeId: string; jobId: string } => ({ nodeId: newId(), jobId: newId() });

/**
 * Settles recipients for good because somebody decided so, without an attempt.
 *
 * @param claim an `ownClaim`, with which the same transaction has claimed them
 * @returns as `settle` does
 */
export async function settleAs(
  tx: Sql,
  queue: Queue,
  claim: { nodeId: string; jobId: string },
  recipients: Undecided[],
  { status, lastResponse }: Pick<Settlement, 'lastResponse'> & { status: 'delivered' | 'failed' },
): Promise<number> {
  if (recipients.length === 0) return 0;
  const settlements = recipients.map(
    (recipient): Settlement => ({
      ...claim,
      ...recipient,
      status,
      nextAttemptAt: null,
      waitingFor: null,
      uncertain: false,
      lastResponse,
      suppress: null,
    }),
  );
  return settle(tx, queue, settlements, []);
}

/**
 * Fails those of these recipients that are still to be decided about, without an attempt. It waits for locked rows, such as
 * those that get a job just now.
 *
 * @param condition SQL: which of them, as recipients `r`, by `values`, which come first
 * @returns how many failed, and how many webhook deliveries follow, as `settle` does
 */
export async function failThose(
  tx: Sql,
  queue: Queue,
  keys: Key[],
  { condition, values, lastResponse }: { condition: string; values: unknown[]; lastResponse: string },
): Promise<{ failed: number; webhookDeliveries: number }> {
  const claim = ownClaim();
  const ordered = inOneOrder(keys);
  const next = values.length + 1;
  const waiting = await tx.query<Undecided>({
    text: `UPDATE recipients r SET claimed_by = $${next}, job_id = $${next + 1}
             FROM unnest(${unseen(`$${next + 2}::uuid[]`)}, ${unseen(`$${next + 3}::smallint[]`)}) AS k (email_id, position)
            WHERE r.email_id = k.email_id AND r.position = k.position AND r.next_attempt_at IS NOT NULL AND (${condition})
        RETURNING r.email_id AS "emailId", r.position, r.attempts`,
    values: [
      ...values,
      claim.nodeId,
      claim.jobId,
      ordered.map(({ emailId }) => emailId),
      ordered.map(({ position }) => position),
    ],
  });
  const webhookDeliveries = await settleAs(tx, queue, claim, waiting, { status: 'failed', lastResponse });
  return { failed: waiting.length, webhookDeliveries };
}
