import type { Sql } from '../../db/client.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { namelessMark } from '../returns/erased.ts';
import {
  type AffectedEmail,
  affectedEmail,
  type FoundEmails,
  findFree,
  lockRecipients,
  type RecipientRow,
  stillNaming,
} from './affected-emails.ts';
import { cancel } from './canceling.ts';
import {
  type DeliveryRow,
  deliveriesAtOnce,
  eraseDeliveries,
  lockDeliveries,
  weighDeliveries,
} from './erasing-deliveries.ts';
import { eraseAttempts, eraseContents, eraseReturns } from './erasing-records.ts';
import type { Counts, Work } from './erasures.ts';
import type { Redaction } from './redaction.ts';

const emailsAtOnce = 20;

/** How far an erasure of emails has got. */
interface Progress {
  /** Emails that were found, without those that were reached. */
  ahead: FoundEmails;
  cleaned: Cleaned;
}

/**
 * Deliveries that were erased before their email, by id, and whether the email was for nobody else at that time. If that has
 * changed since, they are erased again.
 */
type Cleaned = ReadonlyMap<string, boolean>;

/**
 * Erases from some emails, with all that belongs to them at once. If an email has large webhook deliveries, each call erases
 * only a stretch of these until the rest is small. Emails that a node is sending now, or reporting to a webhook, are
 * left for later: the records of that must be written first. So are those accepted after the search began: it would never end
 * for a recipient who gets mail faster than it is looked for.
 *
 * @param place where the last call ended; null: at the beginning
 * @returns where this one ended; null: nothing was left
 */
export async function eraseFromEmails(
  tx: Sql,
  work: Work,
  counts: Counts,
  place: Progress | null,
  limit = emailsAtOnce,
): Promise<Progress | null> {
  const ahead = place && place.ahead.ids.length > 0 ? place.ahead : await findFree(tx, work, place?.ahead.next ?? null);
  const cleaned = place?.cleaned ?? new Map<string, boolean>();
  const { batch, rest } = await takeBatch(tx, work, ahead.ids, cleaned, limit);
  const isLast = rest.length === 0 && ahead.next === null;
  const next = { ahead: { ...ahead, ids: rest }, cleaned };
  const { emails, recipients, deliveries } = await lockBatch(tx, work, batch);
  // All of the batch are held by a node now, or gone.
  if (emails.length === 0) return isLast ? null : next;
  const stretch = nextStretch(emails, deliveries, cleaned);
  counts.webhook_deliveries += await eraseDeliveries(tx, work, emails, [...stretch.ids.keys()]);
  if (!stretch.isLast) return { ahead, cleaned: new Map([...cleaned, ...stretch.ids]) };
  await eraseOtherRows(tx, work, emails, recipients, counts);
  if (isLast) return null;
  const done = new Set(deliveries.map(({ id }) => id));
  return { ...next, cleaned: new Map([...cleaned].filter(([id]) => !done.has(id))) };
}

/** The same for one email, if several together are too much. */
export const eraseFromOneEmail = (
  tx: Sql,
  work: Work,
  counts: Counts,
  place: Progress | null,
): Promise<Progress | null> => eraseFromEmails(tx, work, counts, place, 1);

/** Divides these emails into the first ones, which one transaction can erase from, and the rest. */
async function takeBatch(
  tx: Sql,
  work: Work,
  ahead: readonly string[],
  cleaned: Cleaned,
  limit: number,
): Promise<{ batch: string[]; rest: string[] }> {
  const first = ahead.slice(0, limit);
  const ids = await stillNaming(tx, work, first);
  const bytes = await weighDeliveries(tx, ids, [...cleaned.keys()]);
  const [batch = []] = byWeight(ids, deliveriesAtOnce, (id) => bytes.get(id) ?? 0);
  const next = ids[batch.length];
  return { batch, rest: ahead.slice(next === undefined ? first.length : ahead.indexOf(next)) };
}

interface LockedBatch {
  /** The emails that no node holds, and all of their recipients. */
  emails: AffectedEmail[];
  recipients: RecipientRow[];
  /** The deliveries of the whole batch. */
  deliveries: DeliveryRow[];
}

async function lockBatch(tx: Sql, { redaction }: Work, ids: string[]): Promise<LockedBatch> {
  const recipients = await lockRecipients(tx, ids);
  const deliveries = await lockDeliveries(tx, ids);
  const busy = new Set([...recipients, ...deliveries].flatMap((row) => (row.claimed ? [row.email_id] : [])));
  const free = recipients.filter((row) => !busy.has(row.email_id));
  const emails = [...Map.groupBy(free, (row) => row.email_id)].map(([id, rows]) => affectedEmail(redaction, id, rows));
  return { emails, recipients: free, deliveries };
}

/** The next deliveries of these emails to erase from, as many as can be read together. */
function nextStretch(
  emails: AffectedEmail[],
  deliveries: DeliveryRow[],
  cleaned: Cleaned,
): { ids: Cleaned; isLast: boolean } {
  const alone = new Map(emails.map((email) => [email.id, email.alone]));
  // Includes deliveries that were made since the last stretch, whatever their ids.
  const left = deliveries.flatMap(({ id, email_id: emailId, bytes }) => {
    const isAlone = alone.get(emailId);
    return isAlone === undefined || cleaned.get(id) === isAlone ? [] : [{ id, isAlone, bytes }];
  });
  const [stretch = [], ...later] = byWeight(left, deliveriesAtOnce, ({ bytes }) => bytes);
  return { ids: new Map(stretch.map(({ id, isAlone }) => [id, isAlone])), isLast: later.length === 0 };
}

/** Erases from all rows besides deliveries. The email's own row is the last: after that the email is not found any more. */
async function eraseOtherRows(
  tx: Sql,
  work: Work,
  emails: AffectedEmail[],
  recipients: RecipientRow[],
  counts: Counts,
): Promise<void> {
  await cancel(tx, work, recipients, counts);
  await eraseRecipients(tx, work, emails, recipients);
  await eraseContents(tx, work, emails, counts);
  counts.attempts += await eraseAttempts(tx, work, emails);
  counts.returns += await eraseReturns(tx, work, emails);
  // No source can be cleaned with certainty, and a sandbox message is only a test.
  const messages = await tx.query({
    text: 'DELETE FROM sandbox_messages WHERE email_id = ANY($1) RETURNING 1',
    values: [emails.map(({ id }) => id)],
  });
  counts.sandbox_messages += messages.length;
  await eraseEmails(tx, work, emails);
  counts.emails += emails.length;
  counts.recipients += emails.length;
}

async function eraseRecipients(
  tx: Sql,
  { redaction }: Work,
  emails: AffectedEmail[],
  recipients: RecipientRow[],
): Promise<void> {
  await tx.query({
    text: `UPDATE recipients r SET address = e.mark, last_response = NULL, waiting_for = NULL
             FROM unnest($1::uuid[], $2::smallint[], $3::text[]) AS e (id, position, mark)
            WHERE r.email_id = e.id AND r.position = e.position`,
    values: [emails.map(({ id }) => id), emails.map(({ position }) => position), emails.map(({ mark }) => mark)],
  });
  // A server's reply about other recipients may name this one too.
  const named = recipients.filter((row) => redaction.isIn(row.last_response));
  await tx.query({
    text: `UPDATE recipients r SET last_response = n.reply FROM unnest($1::uuid[], $2::smallint[], $3::text[]) AS n (id, position, reply)
            WHERE r.email_id = n.id AND r.position = n.position AND r.last_response IS NOT NULL`,
    values: [
      named.map((row) => row.email_id),
      named.map((row) => row.position),
      named.map((row) => redaction.redact(row.last_response ?? '', namelessMark)),
    ],
  });
}

interface EmailRow {
  id: string;
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  recipient_addresses: string[];
  subject: string;
  tags: string[];
  error: string | null;
}

async function eraseEmails(tx: Sql, { redaction }: Work, emails: AffectedEmail[]): Promise<void> {
  const rows = await tx.query<EmailRow>({
    text: `SELECT id, "from", "to", cc, bcc, reply_to, recipient_addresses, subject, tags, error FROM emails WHERE id = ANY($1) FOR UPDATE`,
    values: [emails.map(({ id }) => id)],
  });
  const byId = new Map(emails.map((email) => [email.id, email]));
  const changes = rows.map((row) => ({ before: row, after: withoutAddress(redaction, byId.get(row.id), row) }));
  const retagged = changes.filter(({ before, after }) => before.tags.join('\n') !== after.tags.join('\n'));
  await moveCounts(
    tx,
    retagged.map(({ after: { id, tags } }) => ({ id, tags })),
  );
  await tx.query({
    text: `UPDATE emails e SET "from" = c."from", "to" = c."to", cc = c.cc, bcc = c.bcc, reply_to = c.reply_to, recipient_addresses = c.recipient_addresses,
                  subject = c.subject, tags = c.tags, error = c.error, erased_at = now()
             FROM json_to_recordset($1::json) AS c (id uuid, "from" text, "to" text[], cc text[], bcc text[], reply_to text[], recipient_addresses text[],
                  subject text, tags text[], error text)
            WHERE e.id = c.id`,
    values: [JSON.stringify(changes.map(({ after }) => after))],
  });
}

function withoutAddress(redaction: Redaction, email: AffectedEmail | undefined, row: EmailRow): EmailRow {
  const { mark = namelessMark, alone = true, ownReply = null } = email ?? {};
  // Other mailboxes may have the address as their display name.
  const list = (mailboxes: string[]) =>
    redaction.redactList(mailboxes, mark).map((mailbox) => redaction.redactName(mailbox, mark));
  return {
    id: row.id,
    from: redaction.isOf(row.from) ? row.from : redaction.redactName(row.from, mark),
    to: list(row.to),
    cc: list(row.cc),
    bcc: list(row.bcc),
    reply_to: list(row.reply_to),
    recipient_addresses: row.recipient_addresses.filter((address) => address !== redaction.address),
    subject: alone ? '' : redaction.redact(row.subject, mark),
    tags: row.tags.map((tag) => redaction.redactLabel(tag, namelessMark)),
    error: alone || row.error === ownReply || redaction.isIn(row.error) ? null : row.error,
  };
}

/** Emails are counted by each of their tags, so the counts move to the new tags. The triggers only watch the status. */
async function moveCounts(tx: Sql, emails: Pick<EmailRow, 'id' | 'tags'>[]): Promise<void> {
  if (emails.length === 0) return;
  await tx.query({
    text: `INSERT INTO email_count_changes (facet, account_id, hour, status, type, emails)
           SELECT facet, e.account_id, date_trunc('hour', e.created_at, 'UTC'), e.status, e.type, change
             FROM json_to_recordset($1::json) AS m (id uuid, tags text[]) JOIN emails e ON e.id = m.id,
                  LATERAL (SELECT DISTINCT 'tag:' || tag, -1 FROM unnest(e.tags) tag
                           UNION ALL SELECT DISTINCT 'tag:' || tag, 1 FROM unnest(m.tags) tag) AS f (facet, change)`,
    values: [JSON.stringify(emails)],
  });
}
