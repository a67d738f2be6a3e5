import type { Database } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { conflict } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { Queue } from '../../queue.ts';
import type { Sender } from '../accounts/keys.ts';
import * as log from '../log/email-log.ts';
import { lockAll, ownClaim, settleAs } from '../recipients/settlement.ts';
import { heldNotes, pausedUntil } from '../recipients/waiting-for.ts';
import { demandOwn } from './scheduling.ts';

/** What to do after an attempt that ended between the final dot and the answer to it. */
export const uncertainPolicies = ['retry', 'hold'] as const;

/** The decisions about a held recipient: try it again, or record it as delivered or failed without another attempt. */
export const releases = ['retry', 'delivered', 'failed'] as const;
export type Release = (typeof releases)[number];

/**
 * Decides about the recipients of an email that are held, because they may have got it or because process after process
 * crashed while delivering to them.
 *
 * @returns the email, and how many recipients were held
 * @throws ApiError 404; 409 if none of them is held (any more); 403 if the key may not send from its domain
 */
export async function release(
  db: Database,
  queue: Queue,
  sender: Sender,
  id: string,
  as: Release,
): Promise<{ email: Email; released: number }> {
  await demandOwn(db, sender, id);
  const { released, webhookDeliveries } = await db.transaction(async (tx) => {
    await lockAll(tx, [id]);
    const claim = ownClaim();
    const held = await tx.query<{ position: number; attempts: number }>({
      text: `UPDATE recipients
                SET next_attempt_at = ${dueFromNow}, waiting_for = NULL, crashes = 0, claimed_by = $4, job_id = $5
              WHERE email_id = $1 AND waiting_for = ANY($2) AND next_attempt_at = $3 AND job_id IS NULL
          RETURNING position, attempts`,
      values: [id, heldNotes, pausedUntil, ...(as === 'retry' ? [null, null] : [claim.nodeId, claim.jobId])],
    });
    // People have to learn that somebody else has decided already, or that there was nothing to decide.
    if (held.length === 0) throw conflict('no recipient of the email is held');
    if (as === 'retry') return { released: held.length, webhookDeliveries: 0 };
    const lastResponse =
      as === 'delivered' ? 'taken for delivered, as was decided' : 'taken for not delivered, as was decided';
    const recipients = held.map((recipient) => ({ ...recipient, emailId: id }));
    const webhookDeliveries = await settleAs(tx, queue, claim, recipients, { status: as, lastResponse });
    return { released: held.length, webhookDeliveries };
  });
  if (webhookDeliveries > 0) queue.webhooks.wake();
  return { email: await log.getEmail(db, sender.accountId, id), released };
}
