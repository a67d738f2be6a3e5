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

/**
 * Cancels what waits to be sent to the address, except what a node holds at this moment, and what is accepted after the search
 * began: it would never end for a recipient who gets mail faster than it is looked for.
 *
 * @param place emails that were found, without those that were reached; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function cancelWaiting(
  tx: Sql,
  work: Work,
  counts: Counts,
  place: FoundEmails | null,
): Promise<FoundEmails | null> {
  const { ids: ahead, next } =
    place && place.ids.length > 0 ? place : await findNaming(tx, work, 'pending > 0', place?.next ?? null);
  const ids = ahead.slice(0, emailsAtOnce);
  await cancel(tx, work, await lockRecipients(tx, ids), counts);
  const rest = ahead.slice(ids.length);
  return rest.length > 0 || next ? { ids: rest, next } : null;
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
