import type { Sql } from '../../db/client.ts';
import type { EmailStatus } from '../../generated/prisma/enums.ts';
import { finalEventsOf } from '../recipients/settlement-events.ts';
import { emitAbout } from '../webhooks/webhooks.ts';
import {
  affectedEmail,
  type FoundEmails,
  findNaming,
  hasAddress,
  lockRecipients,
  type RecipientRow,
} from './affected-emails.ts';
import { redactPayload } from './erasing-deliveries.ts';
import type { Counts, Work } from './erasures.ts';

const emailsAtOnce = 200;

/** How far canceling has got. */
interface Progress {
  /** Emails that the last search has found, without those that were reached. */
  ahead: FoundEmails;
  /** The last email reached; it may still wait for other recipients. */
  after: string;
}

/**
 * Cancels what waits to be sent to the address, except what a node holds at this moment, and what is accepted after the last
 * search: it would never end for a recipient who gets mail faster than it is looked for.
 *
 * @param place where the last call ended; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function cancelWaiting(
  tx: Sql,
  work: Work,
  counts: Counts,
  place: Progress | null,
): Promise<Progress | null> {
  const ahead = place?.ahead.ids.length ? place.ahead : await findNaming(tx, work, 'pending > 0', place?.after ?? null);
  const ids = ahead.ids.slice(0, emailsAtOnce);
  const after = ids.at(-1);
  if (after === undefined) return null;
  const rows = await lockRecipients(tx, ids);
  await cancel(tx, work, rows, counts);
  const rest = ahead.ids.slice(ids.length);
  return rest.length > 0 || !ahead.areAll ? { ahead: { ...ahead, ids: rest }, after } : null;
}

/**
 * Cancels the recipients who have the address and whom no node holds. If no other recipient of the email waits, the email ends:
 * its status follows from what became of the others, and the event of that status is emitted. One that is canceled counts as
 * erased from now on: nobody sends it again, and the log finds it.
 *
 * @param recipients all of their emails, locked
 */
export async function cancel(tx: Sql, work: Work, recipients: RecipientRow[], counts: Counts): Promise<void> {
  const waiting = recipients.filter(hasAddress(work.redaction)).filter(({ waits, claimed }) => waits && !claimed);
  if (waiting.length === 0) return;
  const emails = await tx.query<{ id: string }>({
    text: `WITH canceled AS (
             UPDATE recipients r SET status = 'canceled', next_attempt_at = NULL, job_id = NULL, waiting_for = NULL, settled_at = now()
               FROM unnest($1::uuid[], $2::smallint[]) AS c (email_id, position)
              WHERE r.email_id = c.email_id AND r.position = c.position RETURNING r.email_id)
           UPDATE emails e SET pending = e.pending - 1 FROM canceled c WHERE e.id = c.email_id
        RETURNING e.id`,
    values: [waiting.map((row) => row.email_id), waiting.map((row) => row.position)],
  });
  // A separate statement, so that it sees what became of the others meanwhile.
  const ended = await tx.query<{ email_id: string; status: EmailStatus }>({
    text: `UPDATE emails e SET status = s.status, sent_at = CASE WHEN s.status = 'sent' THEN now() END,
                  erased_at = CASE WHEN s.status = 'canceled' THEN now() ELSE e.erased_at END
             FROM (SELECT id, CASE WHEN failed > 0 THEN 'failed'::email_status WHEN suppressed > 0 THEN 'suppressed'
                                   WHEN EXISTS (SELECT FROM recipients r WHERE r.email_id = emails.id AND r.status = 'delivered') THEN 'sent'
                                   ELSE 'canceled' END AS status
                     FROM emails WHERE id = ANY($1) AND pending = 0) s
            WHERE e.id = s.id RETURNING e.id AS email_id, e.status`,
    values: [emails.map(({ id }) => id)],
  });
  counts.canceled += waiting.length;
  await emitEnds(tx, work, recipients, ended);
}

/** Without the address, as the erasure may have passed the deliveries of these emails. */
async function emitEnds(
  tx: Sql,
  { accountId, redaction }: Work,
  recipients: RecipientRow[],
  ended: { email_id: string; status: EmailStatus }[],
): Promise<void> {
  const recipientsOf = Map.groupBy(recipients, (row) => row.email_id);
  const redact = (payload: string, emailId: string) =>
    redactPayload(redaction, affectedEmail(redaction, emailId, recipientsOf.get(emailId) ?? []), payload);
  await emitAbout(tx, null, await finalEventsOf(tx, accountId, ended), redact);
}
