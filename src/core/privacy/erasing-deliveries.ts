import type { Sql } from '../../db/client.ts';
import { databaseTime } from '../../db/clocks.ts';
import { type Gap, gapsOf, listPartitions } from '../../db/partitions.ts';
import { beforeAllIds } from '../../ids.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { givingWay } from '../../pace/give-way.ts';
import { keptFrom } from '../retention/retention.ts';
import { namelessMark } from '../returns/erased.ts';
import type { AffectedEmail } from './affected-emails.ts';
import type { Counts, Work } from './erasures.ts';
import { mayName, type Redaction } from './redaction.ts';

/** Bytes of deliveries that are read together: one email can have hundreds of megabytes of webhook deliveries. */
export const deliveriesAtOnce = 2 * 1024 * 1024;

export interface DeliveryRow {
  id: string;
  email_id: string;
  /** As `bytesOf` counts them. */
  bytes: number;
  claimed: boolean;
}

/** SQL: the bytes read for a delivery, including its id and the like. */
const bytesOf = 'octet_length(payload) + 200';

/** The bytes read for the webhook deliveries of each of these emails. @param except leaves out these deliveries */
export async function weighDeliveries(tx: Sql, emailIds: string[], except: string[]): Promise<Map<string, number>> {
  const rows = await tx.query<{ id: string; bytes: number }>({
    text: `SELECT email_id AS id, sum(${bytesOf})::float8 AS bytes
             FROM webhook_deliveries WHERE email_id = ANY($1) AND id <> ALL($2::uuid[]) GROUP BY email_id`,
    values: [emailIds, except],
  });
  return new Map(rows.map(({ id, bytes }) => [id, bytes]));
}

/** Locks all webhook deliveries of these emails. */
export async function lockDeliveries(tx: Sql, emailIds: string[]): Promise<DeliveryRow[]> {
  return tx.query<DeliveryRow>({
    text: `SELECT id, email_id, ${bytesOf} AS bytes, claimed_by IS NOT NULL AS claimed
             FROM webhook_deliveries WHERE email_id = ANY($1) ORDER BY id FOR UPDATE`,
    values: [emailIds],
  });
}

/** The fields of `payload` that an email puts there. */
interface Payload {
  data: {
    from?: string;
    to?: string[];
    subject?: string;
    tags?: string[];
    recipients?: { address: string; status: string; response: string | null }[];
  };
}

/**
 * Erases from deliveries, and deletes the answers of endpoints, which may repeat the payload. Those that still wait are sent
 * without the address.
 *
 * @param emails those of the deliveries; empty: all of them are gone
 * @param ids of deliveries of a few megabytes
 * @returns how many were changed
 */
export async function eraseDeliveries(
  tx: Sql,
  { redaction }: Work,
  emails: AffectedEmail[],
  ids: string[],
): Promise<number> {
  const byId = new Map(emails.map((email) => [email.id, email]));
  const rows = await tx.query<{ id: string; email_id: string; payload: string; answered: boolean }>({
    text: `SELECT id, email_id, payload, jsonb_path_exists(attempts, '$[*].response_body ? (@ != null)') AS answered
             FROM webhook_deliveries WHERE id = ANY($1)`,
    values: [ids],
  });
  const cleaned = await givingWay(rows, ({ id, email_id: emailId, payload, answered }) => {
    const clean = redactPayload(redaction, byId.get(emailId), payload);
    return clean !== payload || answered ? [{ id, payload: clean }] : [];
  });
  const changed = cleaned.flat();
  await tx.query({
    text: `UPDATE webhook_deliveries d
              SET payload = c.payload,
                  attempts = coalesce((SELECT jsonb_agg(attempt || '{"response_body": null}' ORDER BY place)
                                         FROM jsonb_array_elements(d.attempts) WITH ORDINALITY AS a (attempt, place)), d.attempts)
             FROM unnest($1::uuid[], $2::text[]) AS c (id, payload) WHERE d.id = c.id`,
    values: [changed.map(({ id }) => id), changed.map(({ payload }) => payload)],
  });
  return changed.length;
}

/** The payload of an event without the address. @param email the one that it is about; undefined: it is gone */
export function redactPayload(redaction: Redaction, email: AffectedEmail | undefined, payload: string): string {
  const { mark = namelessMark, alone = true } = email ?? {};
  const event = JSON.parse(payload) as Payload;
  const { to = [], subject = '', tags, recipients } = event.data;
  const data = {
    ...event.data,
    to: redaction.redactList(to, mark),
    subject: alone ? '' : subject,
    ...(tags ? { tags: tags.map((tag) => redaction.redactLabel(tag, namelessMark)) } : {}),
    ...(recipients
      ? { recipients: recipients.map((one) => (redaction.isOf(one.address) ? { ...one, response: null } : one)) }
      : {}),
  };
  return JSON.stringify(redactEvent(redaction, { ...event, data }, mark));
}

/** Redacts every string in an event, except the addresses of other mailboxes. */
function redactEvent(redaction: Redaction, event: Payload, mark: string): Payload {
  const redacted = redaction.redactAll(event, mark) as Payload;
  const { from, to, recipients } = event.data;
  const addresses = recipients?.map(({ address }) => redaction.redactMailbox(address, mark)) ?? [];
  return {
    ...redacted,
    data: {
      ...redacted.data,
      ...(from && !redaction.isOf(from) ? { from: redaction.redactName(from, mark) } : {}),
      ...(to ? { to: to.map((mailbox) => redaction.redactMailbox(mailbox, mark)) } : {}),
      ...(redacted.data.recipients
        ? { recipients: redacted.data.recipients.map((one, at) => ({ ...one, address: addresses[at] ?? one.address })) }
        : {}),
    },
  };
}

/** Deliveries, of any account, that one statement looks at. */
const lookedAtAtOnce = 10_000;

/** A position in the deliveries, which are ordered by their emails. */
interface Place {
  emailId: string;
  id: string;
}

const startOf = (gap: Gap): Place => ({ emailId: gap.first, id: beforeAllIds });

/**
 * A delivery that is kept longer than its email, and so cannot be found by it. It was made in a later week than the email, or
 * still waits although the email is done.
 */
interface Outliving {
  id: string;
  claimed: boolean;
  namesAddress: boolean;
}

/** Where emails may be gone, oldest first: weeks that do not exist, and weeks that are over and kept for other emails. */
async function whereEmailsAreGone(tx: Sql): Promise<Gap[]> {
  const until = keptFrom(await databaseTime(tx));
  const partitions = await listPartitions(tx);
  return gapsOf(
    partitions.filter(({ to }) => to > until),
    'emails',
  );
}

/**
 * Finds the account's deliveries in the next stretch of those whose emails may be gone.
 *
 * @param after where the last stretch ended; null: at the beginning
 * @returns their ids; and where the stretch ended, null at the end
 */
async function nextStretch(
  tx: Sql,
  accountId: string,
  after: Place | null,
): Promise<{ ids: string[]; next: Place | null }> {
  const gaps = await whereEmailsAreGone(tx);
  const [gap, nextGap] = gaps.filter(({ next }) => after === null || next > after.emailId);
  if (!gap) return { ids: [], next: null };
  const from = after && after.emailId >= gap.first ? after : startOf(gap);
  // Of other accounts only the last row: it says where to continue.
  const rows = await tx.query<Place & { own: boolean; bytes: number; number: number }>({
    text: `SELECT * FROM (
             SELECT *, row_number() OVER (ORDER BY "emailId", id)::int AS number
               FROM (SELECT id, email_id AS "emailId", account_id = $1 AS own, ${bytesOf} AS bytes FROM webhook_deliveries
                      WHERE email_id >= $2 AND email_id < $3 AND (email_id > $2 OR id > $4) ORDER BY email_id, id LIMIT $5) stretch) numbered
            WHERE own OR number = $5 ORDER BY number`,
    values: [accountId, from.emailId, gap.next, from.id, lookedAtAtOnce],
  });
  const [stretch = []] = byWeight(rows, deliveriesAtOnce, ({ own, bytes }) => (own ? bytes : 0));
  const ids = stretch.flatMap(({ own, id }) => (own ? [id] : []));
  const isEndOfGap = stretch.length === rows.length && rows.at(-1)?.number !== lookedAtAtOnce;
  const last = stretch.at(-1);
  if (!isEndOfGap && last) return { ids, next: { emailId: last.emailId, id: last.id } };
  return { ids, next: nextGap ? startOf(nextGap) : null };
}

/**
 * Locks the deliveries in the next stretch that outlive their email and may name the address.
 *
 * @param after where the last stretch ended; null: at the beginning
 * @returns the deliveries; and where the stretch ended, null at the end
 */
async function lockOutliving(
  tx: Sql,
  { accountId, redaction }: Work,
  after: Place | null,
): Promise<{ deliveries: Outliving[]; next: Place | null }> {
  const { ids, next } = await nextStretch(tx, accountId, after);
  if (ids.length === 0) return { deliveries: [], next };
  const rows = await tx.query<OutlivingRow>({
    text: `SELECT d.id, d.payload, d.attempts, d.claimed_by IS NOT NULL AS claimed
             FROM webhook_deliveries d
            WHERE d.id = ANY($1) AND NOT EXISTS (SELECT FROM emails e WHERE e.id = d.email_id)
              AND ${mayName('d.payload || d.attempts::text', '$2')}
            ORDER BY d.id FOR UPDATE OF d`,
    values: [ids, redaction.part],
  });
  const deliveries = await givingWay(rows, ({ id, claimed, payload, attempts }) => {
    const isInAnswers = attempts.some((attempt) => redaction.isIn(attempt.response_body ?? null));
    return { id, claimed, namesAddress: isInAnswers || isInPayload(redaction, payload) };
  });
  return { deliveries, next };
}

interface OutlivingRow {
  id: string;
  claimed: boolean;
  payload: string;
  attempts: { response_body?: string | null }[];
}

function isInPayload(redaction: Redaction, payload: string): boolean {
  const event = JSON.parse(payload) as Payload;
  const { to = [], tags = [] } = event.data;
  return (
    to.some((mailbox) => redaction.isOf(mailbox)) ||
    tags.some((tag) => redaction.isInLabel(tag)) ||
    JSON.stringify(redactEvent(redaction, event, namelessMark)) !== JSON.stringify(event)
  );
}

/** Whether any delivery that outlives its email names the address. */
export async function isOutlivingLeft(tx: Sql, work: Work): Promise<boolean> {
  for (let after: Place | null = null; ; ) {
    const { deliveries, next }: Awaited<ReturnType<typeof lockOutliving>> = await lockOutliving(tx, work, after);
    if (deliveries.some(({ namesAddress }) => namesAddress)) return true;
    if (next === null) return false;
    after = next;
  }
}

/**
 * Erases from the next stretch of the deliveries that outlive their email, except those that are being sent now.
 *
 * @param after where the last call ended; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function eraseOutliving(tx: Sql, work: Work, counts: Counts, after: Place | null): Promise<Place | null> {
  const { deliveries, next } = await lockOutliving(tx, work, after);
  const ids = deliveries.filter(({ namesAddress, claimed }) => namesAddress && !claimed).map(({ id }) => id);
  counts.webhook_deliveries += await eraseDeliveries(tx, work, [], ids);
  return next;
}
