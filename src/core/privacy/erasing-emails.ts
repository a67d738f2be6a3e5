import { byWeight } from '../../by-weight.ts';
import type { Sql } from '../../db/client.ts';
import { comparable } from '../../mail/address.ts';
import { type Found, isErased, markOf, namelessMark, type Work } from '../returns/erased.ts';
import { deliveriesAtOnce, eraseDeliveries, lockDeliveries, weighDeliveries } from './erasing-deliveries.ts';
import { eraseAttempts, eraseContents, eraseReturns } from './erasing-records.ts';
import type { Counts } from './erasures.ts';

interface RecipientRow {
  email_id: string;
  position: number;
  address: string;
  last_response: string | null;
  claimed: boolean;
  waits: boolean;
}

/** Emails looked for together. A recipient of alarms may have 100,000, all of which the search for the first one reads. */
const mostLookedFor = 10_000;
const canceledAtOnce = 200;
const emailsAtOnce = 20;

interface FoundEmail extends Found {
  /** A server's reply about this recipient alone: it may identify somebody without an address. */
  ownWords: string | null;
}

/** How far an erasure of emails has got. */
interface Progress {
  /** Emails that were found and not reached yet. */
  ahead: readonly string[];
  /** Whether any was erased since they were found. */
  any: boolean;
  /** By id: deliveries already erased of emails that are not yet, and whether the email was for nobody else by then. */
  cleaned: ReadonlyMap<string, boolean>;
}

const beginning: Progress = { ahead: [], any: false, cleaned: new Map() };

/** The account's emails that name the address among their recipients, oldest first. */
async function emailsOf(
  tx: Sql,
  { accountId, redaction }: Work,
  only: string,
  after: string | null,
  limit: number,
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>({
    // Materialized, or the planner walks over all of the account's emails to get them in order.
    text: `WITH found AS MATERIALIZED (
             SELECT id FROM emails WHERE account_id = $1 AND recipient_addresses @> ARRAY[$2::text] AND ${only})
           SELECT id FROM found WHERE $3::uuid IS NULL OR id > $3 ORDER BY id LIMIT $4`,
    values: [accountId, redaction.address, after, limit],
  });
  return rows.map(({ id }) => id);
}

/** The next emails that no node holds. */
async function findFree(tx: Sql, work: Work): Promise<string[]> {
  const all = await emailsOf(tx, work, 'true', null, mostLookedFor);
  const busy = await busyOf(tx, all);
  return all.filter((id) => !busy.has(id));
}

/** Those of these emails that still name the address: another node may have erased it, or the email may be gone. */
async function naming(tx: Sql, { redaction }: Work, ids: string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>({
    text: 'SELECT id FROM emails WHERE id = ANY($1) AND $2 = ANY(recipient_addresses) ORDER BY id',
    values: [ids, redaction.address],
  });
  return rows.map(({ id }) => id);
}

/**
 * Whether any email is left to erase from. Emails accepted after the request do not count, or an erasure would never end for
 * a recipient who gets one every second; the minute covers a node whose clock is ahead.
 */
export async function isLeft(tx: Sql, { id, accountId, redaction }: Work): Promise<boolean> {
  const rows = await tx.query({
    // Materialized as in `emailsOf`: with the limit alone the planner walks over all of the account's emails to find none.
    text: `WITH found AS MATERIALIZED (
             SELECT created_at FROM emails WHERE account_id = $1 AND recipient_addresses @> ARRAY[$2::text])
           SELECT FROM found WHERE created_at <= (SELECT asked_at + interval '1 minute' FROM erasures WHERE id = $3) LIMIT 1`,
    values: [accountId, redaction.address, id],
  });
  return rows.length > 0;
}

/** How far canceling has got. */
interface Waiting {
  /** Emails that were found and not reached yet. */
  ahead: readonly string[];
  /** The last email reached; it may still wait for other recipients. */
  after: string;
}

/**
 * Cancels what waits to be sent to the address, except what a node holds at this moment.
 *
 * @param place where the last call ended; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function cancelWaiting(
  tx: Sql,
  work: Work,
  counts: Counts,
  place: Waiting | null,
): Promise<Waiting | null> {
  const found = place?.ahead.length
    ? place.ahead
    : await emailsOf(tx, work, 'pending > 0', place?.after ?? null, mostLookedFor);
  const ids = found.slice(0, canceledAtOnce);
  const after = ids.at(-1);
  if (after === undefined) return null;
  const rows = await lockRecipients(tx, ids);
  await cancel(
    tx,
    rows.filter(({ address }) => comparable(address) === work.redaction.address),
    counts,
  );
  return { ahead: found.slice(ids.length), after };
}

async function lockRecipients(tx: Sql, ids: string[]): Promise<RecipientRow[]> {
  return tx.query<RecipientRow>({
    text: `SELECT email_id, position, address, last_response, claimed_by IS NOT NULL AS claimed, next_attempt_at IS NOT NULL AS waits
             FROM recipients WHERE email_id = ANY($1) ORDER BY email_id, position FOR UPDATE`,
    values: [ids],
  });
}

/** Cancels recipients that no node holds. An email whose last one this was ends with the status that the others give it. */
async function cancel(tx: Sql, rows: RecipientRow[], counts: Counts): Promise<void> {
  const waiting = rows.filter(({ waits, claimed }) => waits && !claimed);
  if (waiting.length === 0) return;
  const ended = await tx.query<{ id: string }>({
    text: `WITH canceled AS (
             UPDATE recipients r SET status = 'canceled', next_attempt_at = NULL, job_id = NULL, waiting_for = NULL, settled_at = now()
               FROM unnest($1::uuid[], $2::smallint[]) AS c (email_id, position)
              WHERE r.email_id = c.email_id AND r.position = c.position RETURNING r.email_id)
           UPDATE emails e SET pending = e.pending - 1 FROM canceled c WHERE e.id = c.email_id
        RETURNING e.id, e.pending = 0 AS ended`,
    values: [waiting.map((row) => row.email_id), waiting.map((row) => row.position)],
  });
  // A separate statement, so that it sees what became of the others meanwhile.
  await tx.query({
    text: `UPDATE emails e SET status = s.status, sent_at = CASE WHEN s.status = 'sent' THEN now() END
             FROM (SELECT id, CASE WHEN failed > 0 THEN 'failed'::email_status WHEN suppressed > 0 THEN 'suppressed'
                                   WHEN EXISTS (SELECT FROM recipients r WHERE r.email_id = emails.id AND r.status = 'delivered') THEN 'sent'
                                   ELSE 'canceled' END AS status
                     FROM emails WHERE id = ANY($1) AND pending = 0) s
            WHERE e.id = s.id`,
    values: [ended.map(({ id }) => id)],
  });
  counts.canceled += waiting.length;
}

/**
 * Erases from some emails, with all that belongs to them at once. If an email has large webhook deliveries, each call erases
 * only a stretch of these until the rest is small. Emails that a node is sending now, or reporting to a webhook, are
 * left for later: the records of that must be written first.
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
  const { ahead, any, cleaned } = place ?? beginning;
  const isFirst = ahead.length === 0;
  const known = isFirst ? await findFree(tx, work) : ahead;
  const free = await naming(tx, work, known.slice(0, limit));
  const weights = await weighDeliveries(tx, free, [...cleaned.keys()]);
  const [chosen = []] = byWeight(free, deliveriesAtOnce, (id) => weights.get(id) ?? 0);
  const last = chosen.length === free.length ? known.slice(0, limit).at(-1) : chosen.at(-1);
  const rest = last === undefined ? [] : known.slice(known.indexOf(last) + 1);
  const rows = await lockRecipients(tx, chosen);
  const deliveries = await lockDeliveries(tx, chosen);
  const claimed = new Set([...rows, ...deliveries].flatMap((row) => (row.claimed ? [row.email_id] : [])));
  const byEmail = Map.groupBy(
    rows.filter((row) => !claimed.has(row.email_id)),
    (row) => row.email_id,
  );
  const isOwn = ({ address }: RecipientRow) => comparable(address) === work.redaction.address;
  const found = [...byEmail].map(([id, recipients]): FoundEmail => {
    const own = recipients.find(isOwn);
    if (!own) throw new Error(`email ${id} names a recipient that it has not`);
    const others = recipients.filter((one) => one !== own);
    const isSaidOfOthers = others.some((one) => one.last_response === own.last_response);
    return {
      id,
      address: own.address,
      position: own.position,
      mark: markOf(own.position),
      alone: others.every((one) => isErased(one.address)),
      ownWords: isSaidOfOthers ? null : own.last_response,
    };
  });
  // These are held by a node now, or gone. Those after them may be free; after that, a new search finds who is left.
  if (found.length === 0)
    return rest.length > 0 || (any && !isFirst) ? { ahead: rest, any: any && !isFirst, cleaned } : null;
  const alone = new Map(found.map((one) => [one.id, one.alone]));
  // A delivery that was made meanwhile is included, whatever its id.
  const theirs = deliveries.filter((row) => alone.has(row.email_id) && cleaned.get(row.id) !== alone.get(row.email_id));
  const [stretch = [], ...others] = byWeight(theirs, deliveriesAtOnce, ({ bytes }) => bytes);
  counts.webhook_deliveries += await eraseDeliveries(
    tx,
    work,
    found,
    stretch.map(({ id }) => id),
  );
  if (others.length > 0) {
    const erased = stretch.map((row) => [row.id, alone.get(row.email_id) === true] as const);
    return { ahead: known, any: true, cleaned: new Map([...cleaned, ...erased]) };
  }
  const recipients = [...byEmail.values()].flat();
  await cancel(tx, recipients.filter(isOwn), counts);
  await eraseRecipients(tx, work, found, recipients);
  await eraseContents(tx, work, found, counts);
  counts.attempts += await eraseAttempts(tx, work, found);
  counts.returns += await eraseReturns(tx, work, found);
  const ids = found.map(({ id }) => id);
  // No source can be cleaned with certainty, and a sandbox message is only a test.
  const messages = await tx.query({
    text: 'DELETE FROM sandbox_messages WHERE email_id = ANY($1) RETURNING 1',
    values: [ids],
  });
  counts.sandbox_messages += messages.length;
  await eraseEmails(tx, work, found);
  counts.emails += found.length;
  counts.recipients += found.length;
  const gone = new Set(deliveries.map(({ id }) => id));
  return { ahead: rest, any: true, cleaned: new Map([...cleaned].filter(([id]) => !gone.has(id))) };
}

/** The same for one email, if several together are too much. */
export const eraseFromOneEmail = (
  tx: Sql,
  work: Work,
  counts: Counts,
  place: Progress | null,
): Promise<Progress | null> => eraseFromEmails(tx, work, counts, place, 1);

/** Emails that a node holds, for a recipient or a webhook delivery. */
async function busyOf(tx: Sql, ids: string[]): Promise<Set<string>> {
  const rows = await tx.query<{ email_id: string }>({
    text: `SELECT email_id FROM recipients WHERE email_id = ANY($1) AND claimed_by IS NOT NULL
           UNION SELECT email_id FROM webhook_deliveries WHERE email_id = ANY($1) AND claimed_by IS NOT NULL`,
    values: [ids],
  });
  return new Set(rows.map((row) => row.email_id));
}

async function eraseRecipients(tx: Sql, { redaction }: Work, found: Found[], rows: RecipientRow[]): Promise<void> {
  await tx.query({
    text: `UPDATE recipients r SET address = f.mark, last_response = NULL, waiting_for = NULL
             FROM unnest($1::uuid[], $2::smallint[], $3::text[]) AS f (id, position, mark)
            WHERE r.email_id = f.id AND r.position = f.position`,
    values: [found.map(({ id }) => id), found.map(({ position }) => position), found.map(({ mark }) => mark)],
  });
  // A server's reply about other recipients may name this one too.
  const naming = rows.filter((row) => redaction.isIn(row.last_response));
  await tx.query({
    text: `UPDATE recipients r SET last_response = n.said FROM unnest($1::uuid[], $2::smallint[], $3::text[]) AS n (id, position, said)
            WHERE r.email_id = n.id AND r.position = n.position AND r.last_response IS NOT NULL`,
    values: [
      naming.map((row) => row.email_id),
      naming.map((row) => row.position),
      naming.map((row) => redaction.redact(row.last_response ?? '', namelessMark)),
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

/** The email's own row, last: after that the email is not found any more. */
async function eraseEmails(tx: Sql, { redaction }: Work, found: FoundEmail[]): Promise<void> {
  const rows = await tx.query<EmailRow>({
    text: `SELECT id, "from", "to", cc, bcc, reply_to, recipient_addresses, subject, tags, error FROM emails WHERE id = ANY($1) FOR UPDATE`,
    values: [found.map(({ id }) => id)],
  });
  const by = new Map(found.map((one) => [one.id, one]));
  const cleaned = rows.map((row) => {
    const { mark = namelessMark, alone = true, ownWords = null } = by.get(row.id) ?? {};
    // Other mailboxes may have the address as their display name.
    const list = (mailboxes: string[]) =>
      redaction.redactList(mailboxes, mark).map((mailbox) => redaction.redact(mailbox, mark));
    return {
      id: row.id,
      from: redaction.isOf(row.from) ? row.from : redaction.redact(row.from, mark),
      to: list(row.to),
      cc: list(row.cc),
      bcc: list(row.bcc),
      reply_to: list(row.reply_to),
      recipient_addresses: row.recipient_addresses.filter((address) => address !== redaction.address),
      subject: alone ? '' : redaction.redact(row.subject, mark),
      tags: row.tags.map((tag) => redaction.redactLabel(tag, namelessMark)),
      error: alone || row.error === ownWords || redaction.isIn(row.error) ? null : row.error,
    };
  });
  await moveCounts(
    tx,
    rows.flatMap((row, index) => {
      const tags = cleaned[index]?.tags ?? [];
      return tags.join('\n') === row.tags.join('\n') ? [] : [{ id: row.id, tags }];
    }),
  );
  await tx.query({
    text: `UPDATE emails e SET "from" = c."from", "to" = c."to", cc = c.cc, bcc = c.bcc, reply_to = c.reply_to, recipient_addresses = c.recipient_addresses,
                  subject = c.subject, tags = c.tags, error = c.error, erased_at = now()
             FROM json_to_recordset($1::json) AS c (id uuid, "from" text, "to" text[], cc text[], bcc text[], reply_to text[], recipient_addresses text[],
                  subject text, tags text[], error text)
            WHERE e.id = c.id`,
    values: [JSON.stringify(cleaned)],
  });
}

/** Emails are counted by each of their tags, so moves the counts to the new tags. The triggers only watch the status. */
async function moveCounts(tx: Sql, moved: { id: string; tags: string[] }[]): Promise<void> {
  if (moved.length === 0) return;
  await tx.query({
    text: `INSERT INTO email_count_changes (facet, account_id, hour, status, type, emails)
           SELECT facet, e.account_id, date_trunc('hour', e.created_at, 'UTC'), e.status, e.type, change
             FROM json_to_recordset($1::json) AS m (id uuid, tags text[]) JOIN emails e ON e.id = m.id,
                  LATERAL (SELECT DISTINCT 'tag:' || tag, -1 FROM unnest(e.tags) tag
                           UNION ALL SELECT DISTINCT 'tag:' || tag, 1 FROM unnest(m.tags) tag) AS f (facet, change)`,
    values: [JSON.stringify(moved)],
  });
}
