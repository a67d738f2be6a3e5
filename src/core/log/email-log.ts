import type { Database } from '../../db/client.ts';
import { gone, notFound } from '../../errors.ts';
import type { Attempt, Email, Recipient, Return } from '../../generated/prisma/client.ts';
import type { ReturnKind } from '../../generated/prisma/enums.ts';
import { isId } from '../../ids.ts';
import { planOf } from '../accounts/plans.ts';
import type { StoredAttachment } from '../emails/draft.ts';
import { heldOf } from '../recipients/held.ts';
import * as returned from '../returns/returns.ts';
import type { Filter, Found, Page } from './email-filter.ts';
import { search } from './email-search.ts';

/** An email in the log, with the kinds of its returns, and whether one of its recipients is held until somebody decides. */
export type Listed = Email & { returned: ReturnKind[]; held: boolean };

/** A page of matching emails, newest first, how many match in all, and where the next page begins (null: there is none). */
export async function list(
  db: Database,
  filter: Filter,
  page: Page,
): Promise<Omit<Found, 'ids'> & { emails: Listed[] }> {
  const { ids, ...found } = await search(db, filter, page);
  const rows = await db.prisma.email.findMany({ where: { id: { in: ids } }, orderBy: { id: 'desc' } });
  const kinds = await returned.kindsOf(db, ids);
  const held = await heldOf(
    db,
    rows.filter(({ status }) => status === 'queued').map(({ id }) => id),
  );
  const emails = rows.map((row) => ({ ...row, returned: kinds.get(row.id) ?? [], held: held.has(row.id) }));
  return { ...found, emails };
}

/** @throws ApiError 404 */
export async function getEmail(db: Database, accountId: string, id: string): Promise<Email> {
  const email = isId(id) ? await db.prisma.email.findFirst({ where: { id, accountId } }) : null;
  if (!email) throw notFound();
  return email;
}

/** @throws ApiError 404 */
export async function get(
  db: Database,
  accountId: string,
  id: string,
): Promise<{ email: Email; recipients: Recipient[]; returns: Return[] }> {
  const email = await getEmail(db, accountId, id);
  const recipients = await db.prisma.recipient.findMany({ where: { emailId: id }, orderBy: { position: 'asc' } });
  const returns = await db.prisma.return.findMany({
    where: { emailId: id, accountId },
    orderBy: [{ receivedAt: 'asc' }, { recipient: 'asc' }, { kind: 'asc' }],
  });
  return { email, recipients, returns };
}

/** The content of an email, as it was accepted. */
export interface Content {
  html: string | null;
  text: string | null;
  headers: { name: string; value: string }[];
  /** With their sizes in bytes. */
  attachments: (StoredAttachment & { size: number })[];
}

/** @throws ApiError 404, or 410 if its content is not kept any more */
export async function content(db: Database, accountId: string, id: string): Promise<Content> {
  const email = await getEmail(db, accountId, id);
  const [row] = await db.query<Omit<Content, 'headers'> & { headers: [name: string, value: string][] }>({
    text: `SELECT c.html, c.text, c.headers,
                  coalesce((SELECT jsonb_agg(used || jsonb_build_object('size', octet_length(a.content)) ORDER BY place)
                              FROM jsonb_array_elements(c.attachments) WITH ORDINALITY AS listed (used, place)
                              JOIN attachments a ON a.account_id = $2 AND a.sha256 = decode(used ->> 'sha256', 'hex')), '[]') AS attachments
             FROM email_contents c WHERE c.email_id = $1`,
    values: [id, accountId],
  });
  if (!row) throw gone(await whyGone(db, email));
  return { ...row, headers: row.headers.map(([name, value]) => ({ name, value })) };
}

/** Why an email has no content, in words. */
async function whyGone(db: Database, { accountId, erasedAt }: Email): Promise<string> {
  if (erasedAt !== null) return 'the content was erased, with the data of its recipient';
  const account = await db.prisma.account.findUnique({ where: { id: accountId }, select: { plan: true } });
  return `the content of an email is kept for ${planOf(account?.plan ?? '').contentDays} days, which are over`;
}

/**
 * Every SMTP attempt of the email, oldest first: one entry for each recipient and each MX host tried.
 *
 * @throws ApiError 404
 */
export async function attempts(db: Database, accountId: string, id: string): Promise<Attempt[]> {
  await getEmail(db, accountId, id);
  const rows = await db.prisma.attempt.findMany({ where: { emailId: id }, orderBy: [{ at: 'asc' }, { id: 'asc' }] });
  // The recipients of a session share its conversation, which is stored with the first of them, whose id comes right before
  // theirs. Sessions for several domains at one provider may have begun at the same moment, with the same host.
  const conversations = new Map<string, Attempt['conversation']>();
  const beginningOf = ({ at, mxHost, remoteAddress }: Attempt) => `${at.getTime()} ${mxHost} ${remoteAddress}`;
  return rows.map((row) => {
    const conversation = row.conversation ?? conversations.get(beginningOf(row)) ?? null;
    conversations.set(beginningOf(row), conversation);
    return { ...row, conversation };
  });
}
