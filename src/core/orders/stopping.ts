import type { Database, Sql } from '../../db/client.ts';
import { conflict } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { Queue } from '../../queue.ts';
import type { Sender } from '../accounts/keys.ts';
import * as log from '../log/email-log.ts';
import { ownClaim, settleAs, stoppedNote } from '../recipients/settlement.ts';
import { heldNotes } from '../recipients/waiting-for.ts';
import { demandOwn } from './scheduling.ts';

/**
 * Gives up the recipients of an email that wait, in the queue or for another attempt: they fail for good. Those that a node
 * has in hand are left alone, because the message may be on its way.
 *
 * @returns the email, how many were given up, and how many were in hand
 * @throws ApiError 404; 403 if the key may not send from its domain; 409 if there is nothing to stop, or another call does it
 */
export async function stop(
  db: Database,
  queue: Queue,
  sender: Sender,
  id: string,
): Promise<{ email: Email; stopped: number; inHand: number }> {
  await demandOwn(db, sender, id);
  const { stopped, inHand, webhookDeliveries } = await db.transaction(async (tx) => {
    const standing = await standingOf(tx, id);
    if (standing.scheduled)
      throw conflict('the email waits for its scheduled time: DELETE /api/v1/emails/:id cancels it');
    if (standing.waiting.length === 0) throw conflict(whyNot(standing));
    const claim = ownClaim();
    const waiting = await tx.query<{ position: number; attempts: number }>({
      text: `UPDATE recipients SET claimed_by = $3, job_id = $4
              WHERE email_id = $1 AND position = ANY($2) RETURNING position, attempts`,
      values: [id, standing.waiting, claim.nodeId, claim.jobId],
    });
    const recipients = waiting.map((recipient) => ({ ...recipient, emailId: id }));
    const webhookDeliveries = await settleAs(tx, queue, claim, recipients, {
      status: 'failed',
      lastResponse: stoppedNote,
    });
    return { stopped: waiting.length, inHand: standing.inHand, webhookDeliveries };
  });
  if (webhookDeliveries > 0) queue.webhooks.wake();
  return { email: await log.getEmail(db, sender.accountId, id), stopped, inHand };
}

/** How many recipients of an email are in which state. */
interface Standing {
  /** The email waits for its scheduled time. */
  scheduled: boolean;
  /** The positions of those that can be given up. */
  waiting: number[];
  held: number;
  inHand: number;
}

/** The state of the email's recipients, which stays the same until the transaction ends. */
async function standingOf(tx: Sql, id: string): Promise<Standing> {
  // Locked, because a node may be claiming some at this moment; in the order in which everybody settles them.
  const recipients = await tx.query<{ position: number; in_hand: boolean; held: boolean }>({
    text: `SELECT position, claimed_by IS NOT NULL AS in_hand, coalesce(waiting_for = ANY($2), false) AS held FROM recipients
            WHERE email_id = $1 AND next_attempt_at IS NOT NULL ORDER BY position FOR NO KEY UPDATE`,
    values: [id, heldNotes],
  });
  // A separate statement, so that it sees a scheduled time that was changed while the locks were awaited.
  const [email] = await tx.query<{ scheduled: boolean }>({
    text: 'SELECT coalesce(scheduled_at > now(), false) AS scheduled FROM emails WHERE id = $1',
    values: [id],
  });
  const inHand = recipients.filter(({ in_hand }) => in_hand);
  const free = recipients.filter(({ in_hand }) => !in_hand);
  return {
    scheduled: recipients.length > 0 && email?.scheduled === true,
    waiting: free.flatMap(({ held, position }) => (held ? [] : [position])),
    held: free.filter(({ held }) => held).length,
    inHand: inHand.length,
  };
}

function whyNot({ held, inHand }: Standing): string {
  if (held > 0) return 'the email is held until somebody decides about it with POST /api/v1/emails/:id/release';
  if (inHand > 0) return 'the email is being delivered at this moment: try again in a while';
  return 'no recipient of the email is waiting any more';
}
