import type { Database, Sql } from '../../db/client.ts';
import { conflict, notFound } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { EmailStatus } from '../../generated/prisma/enums.ts';
import { isId } from '../../ids.ts';
import { parseMailbox } from '../../mail/address/address.ts';
import type { Sender } from '../accounts/keys.ts';
import { demandSendFrom } from '../domains/sender-domains.ts';
import * as log from '../log/email-log.ts';
import { heldNotes } from '../recipients/waiting-for.ts';

/**
 * Cancels an email that waits for its scheduled time.
 *
 * @throws ApiError 404, 403 when the key may not send from its domain, or 409 when it is not waiting any more
 */
export async function cancel(db: Database, sender: Sender, id: string): Promise<Email> {
  await demandOwn(db, sender, id);
  await db.transaction(async (tx) => {
    await changeWaiting(tx, id, `status = 'canceled', next_attempt_at = NULL, settled_at = now()`, []);
    await tx.query({ text: `UPDATE emails SET status = 'canceled', pending = 0 WHERE id = $1`, values: [id] });
    // If another email has such a file, retention sees that.
    await changeLastUse(tx, id, 'least(a.last_used_at, now())', []);
  });
  return log.getEmail(db, sender.accountId, id);
}

/**
 * Moves an email that waits for its scheduled time to another time.
 *
 * @throws ApiError 404, 403 when the key may not send from its domain, or 409 when it is not waiting any more
 */
export async function move(db: Database, sender: Sender, id: string, scheduledAt: Date): Promise<Email> {
  await demandOwn(db, sender, id);
  await db.transaction(async (tx) => {
    await changeWaiting(tx, id, 'next_attempt_at = $2', [scheduledAt]);
    await tx.query({ text: 'UPDATE emails SET scheduled_at = $2 WHERE id = $1', values: [id, scheduledAt] });
    await changeLastUse(tx, id, 'greatest(a.last_used_at, $2)', [scheduledAt]);
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

/**
 * Changes the recipients of an email that waits for its scheduled time.
 *
 * @param change SQL: what is set in each; its values start at `$2`
 * @throws ApiError 409 if it does not wait for it any more
 */
async function changeWaiting(tx: Sql, id: string, change: string, values: unknown[]): Promise<void> {
  const waiting = await tx.query({
    text: `UPDATE recipients SET ${change}
            WHERE email_id = $1 AND status = 'queued' AND job_id IS NULL AND attempts = 0 AND next_attempt_at > now()
        RETURNING position`,
    values: [id, ...values],
  });
  const [email] = await tx.query<{ pending: number }>({
    // After its time an email may have been with a node that died, or wait for something else.
    text: `SELECT pending FROM emails WHERE id = $1 AND status = 'queued' AND scheduled_at > now() FOR UPDATE`,
    values: [id],
  });
  if (!email || email.pending === 0 || waiting.length < email.pending) throw conflict(await whyNot(tx, id));
}

/**
 * Changes when the files of an email are needed last.
 *
 * @param change SQL: the new time of each; its values start at `$2`
 */
async function changeLastUse(tx: Sql, id: string, change: string, values: unknown[]): Promise<void> {
  await tx.query({
    text: `UPDATE attachments a SET last_used_at = ${change}
             FROM emails e JOIN email_contents c ON c.email_id = e.id, jsonb_array_elements(c.attachments) used
            WHERE e.id = $1 AND a.account_id = e.account_id AND a.sha256 = decode(used ->> 'sha256', 'hex')`,
    values: [id, ...values],
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
