import type { Database, Sql } from '../../db/client.ts';
import { conflict, notFound } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { EmailStatus } from '../../generated/prisma/enums.ts';
import { isId } from '../../ids.ts';
import { parseMailbox } from '../../mail/address/address.ts';
import type { Sender } from '../accounts/keys.ts';
import { demandSendFrom } from '../domains/sender-domains.ts';
import * as log from '../log/email-log.ts';
import { lockAll } from '../recipients/settlement.ts';
import { heldNotes } from '../recipients/waiting-for.ts';

/**
 * Cancels an email that waits for its scheduled time.
 *
 * @throws ApiError 404, 403 when the key may not send from its domain, or 409 when it is not waiting any more
 */
export async function cancel(db: Database, sender: Sender, id: string): Promise<Email> {
  await demandOwn(db, sender, id);
  await db.transaction(async (tx) => {
    const canceled = await cancelThose(tx, [id]);
    if (canceled === 0) throw conflict(await whyNot(tx, id));
  });
  return log.getEmail(db, sender.accountId, id);
}

/**
 * Cancels those of these emails that wait for their scheduled time.
 *
 * @returns how many
 */
export async function cancelThose(tx: Sql, ids: string[]): Promise<number> {
  await lockAll(tx, ids);
  const canceled = await tx.query<{ id: string }>({
    // A separate statement, so that it sees what was changed while the locks were awaited.
    text: `WITH canceled AS (
             UPDATE emails e SET status = 'canceled', pending = 0
              WHERE e.id = ANY($1) AND ${waitsForItsTime}
                AND e.pending BETWEEN 1 AND (SELECT count(*) FROM recipients r WHERE r.email_id = e.id AND ${isUntried})
          RETURNING e.id),
           settled AS (
             UPDATE recipients r SET status = 'canceled', next_attempt_at = NULL, settled_at = now()
               FROM canceled WHERE r.email_id = canceled.id AND ${isUntried})
           SELECT id FROM canceled`,
    values: [ids],
  });
  const canceledIds = canceled.map(({ id }) => id);
  // If another email has such a file, retention sees that.
  if (canceledIds.length > 0) await changeLastUse(tx, canceledIds, 'least(a.last_used_at, now())', []);
  return canceledIds.length;
}

/**
 * Moves an email that waits for its scheduled time to another time.
 *
 * @throws ApiError 404, 403 when the key may not send from its domain, or 409 when it is not waiting any more
 */
export async function move(db: Database, sender: Sender, id: string, scheduledAt: Date): Promise<Email> {
  await demandOwn(db, sender, id);
  await db.transaction(async (tx) => {
    await lockAll(tx, [id]);
    await moveRecipients(tx, id, scheduledAt);
    await tx.query({ text: 'UPDATE emails SET scheduled_at = $2 WHERE id = $1', values: [id, scheduledAt] });
    await changeLastUse(tx, [id], 'greatest(a.last_used_at, $2)', [scheduledAt]);
  });
  return log.getEmail(db, sender.accountId, id);
}

/** @throws ApiError 404, or 403 when the key may not send from the email's domain */
export async function demandOwn(db: Database, sender: Sender, id: string): Promise<void> {
  const where = { id, accountId: sender.accountId };
  const email = isId(id) && (await db.prisma.email.findFirst({ where, select: { from: true } }));
  if (!email) throw notFound();
  demandSendFrom(sender, parseMailbox(email.from).domain);
}

/** SQL: an email `e` that waits for its scheduled time. After that it may have been with a node that died, or wait for something else. */
export const waitsForItsTime = `e.status = 'queued' AND e.scheduled_at > now()`;

/** SQL: a recipient `r` of such an email that nobody has tried, and whose time has not come. */
const isUntried = `r.status = 'queued' AND r.job_id IS NULL AND r.attempts = 0 AND r.next_attempt_at > now()`;

/**
 * Moves all recipients of an email that waits for its scheduled time.
 *
 * @throws ApiError 409 if it does not wait for it any more
 */
async function moveRecipients(tx: Sql, id: string, scheduledAt: Date): Promise<void> {
  const moved = await tx.query({
    text: `UPDATE recipients r SET next_attempt_at = $2 WHERE r.email_id = $1 AND ${isUntried} RETURNING r.position`,
    values: [id, scheduledAt],
  });
  const [email] = await tx.query<{ pending: number }>({
    text: `SELECT pending FROM emails e WHERE e.id = $1 AND ${waitsForItsTime} FOR UPDATE`,
    values: [id],
  });
  if (!email || email.pending === 0 || moved.length < email.pending) throw conflict(await whyNot(tx, id));
}

/**
 * Changes when the files of these emails are needed last.
 *
 * @param change SQL: the new time of each; its values start at `$2`
 */
async function changeLastUse(tx: Sql, ids: string[], change: string, values: unknown[]): Promise<void> {
  await tx.query({
    text: `UPDATE attachments a SET last_used_at = ${change}
             FROM emails e JOIN email_contents c ON c.email_id = e.id, jsonb_array_elements(c.attachments) used
            WHERE e.id = ANY($1) AND a.account_id = e.account_id AND a.sha256 = decode(used ->> 'sha256', 'hex')`,
    values: [ids, ...values],
  });
}

/**
 * Why an email cannot be canceled or moved, in words.
 *
 * @throws ApiError 404 if it no longer exists
 */
async function whyNot(tx: Sql, id: string): Promise<string> {
  const [email] = await tx.query<{ status: EmailStatus; scheduled_at: Date | null; held: boolean }>({
    text: `SELECT status, scheduled_at, EXISTS (SELECT FROM recipients WHERE email_id = $1 AND waiting_for = ANY($2)) AS held
             FROM emails WHERE id = $1`,
    values: [id, heldNotes],
  });
  if (!email) throw notFound();
  const { status, scheduled_at, held } = email;
  if (status === 'canceled') return 'the email is canceled already';
  if (held) return 'the email is held until somebody decides about it with POST /api/v1/emails/:id/release';
  const special: Partial<Record<EmailStatus, string>> = { queued: 'is on its way', failed: 'failed already' };
  const now = special[status] ?? `is ${status} already`;
  return scheduled_at === null
    ? `the email was never scheduled, and ${now}`
    : `the email is not waiting for a scheduled time any more: it ${now}`;
}
