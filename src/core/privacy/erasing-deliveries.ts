import { byWeight } from '../../by-weight.ts';
import type { Sql } from '../../db/client.ts';
import { databaseTime } from '../../db/clocks.ts';
import { type Gap, gapsOf, listPartitions } from '../../db/partitions.ts';
import { givingWay } from '../../give-way.ts';
import { floorId } from '../../ids.ts';
import { keptFrom } from '../retention/retention.ts';
import { type Found, namelessMark, type Redaction, type Work } from '../returns/erased.ts';
import type { Counts } from './erasures.ts';

/** Bytes of deliveries that are read together: one email can have hundreds of megabytes of webhook deliveries. */
export const deliveriesAtOnce = 2 * 1024 * 1024;

interface DeliveryRow {
  id: string;
  email_id: string;
  /** As `bytesOf` counts them. */
  bytes: number;
  claimed: boolean;
}

/** SQL: the bytes read for a delivery, including its id and the like. */
const bytesOf = 'octet_length(payload) + 200';

/** The bytes read for the webhook deliveries of each of these emails. @param but leaves out these deliveries */
export async function weighDeliveries(tx: Sql, emailIds: string[], but: string[]): Promise<Map<string, number>> {
  const rows = await tx.query<{ id: string; bytes: number }>({
    text: `SELECT email_id AS id, sum(${bytesOf})::float8 AS bytes
             FROM webhook_deliveries WHERE email_id = ANY($1) AND id <> ALL($2::uuid[]) GROUP BY email_id`,
    values: [emailIds, but],
  });
  return new Map(rows.map(({ id, bytes }) => [id, bytes]));
}

/** Locks the webhook deliveries of these emails, made or still to be made. */
export async function lockDeliveries(tx: Sql, emailIds: string[]): Promise<DeliveryRow[]> {
  return tx.query<DeliveryRow>({
    text: `SELECT id, email_id, ${bytesOf} AS bytes, claimed_by IS NOT NULL AS claimed
             FROM webhook_deliveries WHERE email_id = ANY($1) ORDER BY id FOR UPDATE`,
    values: [emailIds],
  });
}

/** The form of `payload`, as far as it tells of an email. */
interface Payload {
  data: {
    to?: string[];
    subject?: string;
    tags?: string[];
    recipients?: { address: string; status: string; response: string | null }[];
  };
}

/**
 * Erases from deliveries, together with what endpoints answered, which may repeat what they were told. Those that still wait
 * are sent without the address.
 *
 * @param ids of deliveries of a few megabytes
 * @returns how many were changed
 */
export async function eraseDeliveries(tx: Sql, { redaction }: Work, found: Found[], ids: string[]): Promise<number> {
  const by = new Map(found.map((one) => [one.id, one]));
  const rows = await tx.query<{ id: string; email_id: string; payload: string; answered: boolean }>({
    text: `SELECT id, email_id, payload, jsonb_path_exists(attempts, '$[*].response_body ? (@ != null)') AS answered
             FROM webhook_deliveries WHERE id = ANY($1)`,
    values: [ids],
  });
  const cleaned = await givingWay(rows, ({ id, email_id: emailId, payload, answered }) => {
    const clean = withoutAddress(redaction, by.get(emailId), payload);
    return clean !== payload || answered ? [{ id, payload: clean }] : [];
  });
  const changed = cleaned.flat();
  await tx.query({
    text: `UPDATE webhook_deliveries d
              SET payload = c.payload,
                  attempts = coalesce((SELECT jsonb_agg(one || '{"response_body": null}' ORDER BY place)
                                         FROM jsonb_array_elements(d.attempts) WITH ORDINALITY AS a (one, place)), d.attempts)
             FROM unnest($1::uuid[], $2::text[]) AS c (id, payload) WHERE d.id = c.id`,
    values: [changed.map(({ id }) => id), changed.map(({ payload }) => payload)],
  });
  return changed.length;
}

function withoutAddress(redaction: Redaction, found: Found | undefined, payload: string): string {
  const { mark = namelessMark, alone = true } = found ?? {};
  const told = JSON.parse(payload) as Payload;
  const { to = [], subject = '', tags, recipients } = told.data;
  const data = {
    ...told.data,
    to: redaction.redactList(to, mark),
    subject: alone ? '' : subject,
    ...(tags ? { tags: tags.map((tag) => redaction.redactLabel(tag, namelessMark)) } : {}),
    ...(recipients
      ? { recipients: recipients.map((one) => (redaction.isOf(one.address) ? { ...one, response: null } : one)) }
      : {}),
  };
  return JSON.stringify(redaction.redactAll({ ...told, data }, mark));
}

/** Deliveries, of any account, that one statement looks at. */
const lookedAtAtOnce = 10_000;

const nil = floorId(new Date(0));

/** A position in the deliveries, which are ordered by the emails that they tell of. */
interface Place {
  emailId: string;
  id: string;
}

/**
 * A delivery that is kept longer than its email, by which the others are found: it tells of something late, in a later week,
 * or still waits although its email is over.
 */
interface Outliving {
  id: string;
  claimed: boolean;
  named: boolean;
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
 * Finds deliveries of the account that outlive their email, in one stretch.
 *
 * @param after where the last stretch ended; null: at the beginning
 * @returns those that may name the address, and whether they do; and where the stretch ended, null at the end
 */
async function outliving(
  tx: Sql,
  { accountId, redaction }: Work,
  after: Place | null,
): Promise<{ rows: Outliving[]; next: Place | null }> {
  const gaps = await whereEmailsAreGone(tx);
  const [gap, following] = gaps.filter(({ next }) => after === null || next > after.emailId);
  if (!gap) return { rows: [], next: null };
  const from = after && after.emailId >= gap.first ? after : { emailId: gap.first, id: nil };
  // Of other accounts only the last row: it says where to continue.
  const looked = await tx.query<Place & { own: boolean; bytes: number; number: number }>({
    text: `SELECT * FROM (
             SELECT *, row_number() OVER (ORDER BY "emailId", id)::int AS number
               FROM (SELECT id, email_id AS "emailId", account_id = $1 AS own, ${bytesOf} AS bytes FROM webhook_deliveries
                      WHERE email_id >= $2 AND email_id < $3 AND (email_id > $2 OR id > $4) ORDER BY email_id, id LIMIT $5) stretch) numbered
            WHERE own OR number = $5 ORDER BY number`,
    values: [accountId, from.emailId, gap.next, from.id, lookedAtAtOnce],
  });
  const [some = []] = byWeight(looked, deliveriesAtOnce, ({ own, bytes }) => (own ? bytes : 0));
  const rows = await tx.query<Omit<Outliving, 'named'> & { payload: string; attempts: Heard[] }>({
    text: `SELECT d.id, d.payload, d.attempts, d.claimed_by IS NOT NULL AS claimed
             FROM webhook_deliveries d
            WHERE d.id = ANY($1) AND NOT EXISTS (SELECT FROM emails e WHERE e.id = d.email_id)
              AND strpos(lower(d.payload || d.attempts::text), $2) > 0
            ORDER BY d.id FOR UPDATE OF d`,
    values: [some.flatMap(({ own, id }) => (own ? [id] : [])), redaction.part],
  });
  const isEnd = some.length === looked.length && looked.at(-1)?.number !== lookedAtAtOnce;
  const last = isEnd ? null : some.at(-1);
  return {
    rows: await givingWay(rows, ({ id, claimed, payload, attempts }) => {
      const isHeard = attempts.some((one) => redaction.isIn(one.response_body ?? null));
      return { id, claimed, named: isHeard || isNamed(redaction, payload) };
    }),
    next: last ? { emailId: last.emailId, id: last.id } : following ? { emailId: following.first, id: nil } : null,
  };
}

interface Heard {
  response_body?: string | null;
}

function isNamed(redaction: Redaction, payload: string): boolean {
  const told = JSON.parse(payload) as Payload;
  const { to = [], tags = [] } = told.data;
  return (
    to.some((mailbox) => redaction.isOf(mailbox)) ||
    tags.some((tag) => redaction.isInLabel(tag)) ||
    JSON.stringify(redaction.redactAll(told, namelessMark)) !== JSON.stringify(told)
  );
}

/** Whether any delivery that outlives its email names the address. */
export async function areOutliving(tx: Sql, work: Work): Promise<boolean> {
  for (let after: Place | null = null; ; ) {
    const { rows, next }: Awaited<ReturnType<typeof outliving>> = await outliving(tx, work, after);
    if (rows.some(({ named }) => named)) return true;
    if (next === null) return false;
    after = next;
  }
}

/**
 * Erases from a stretch of the deliveries that outlive their email, except those that are being sent now.
 *
 * @param after where the last call ended; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function eraseOutliving(tx: Sql, work: Work, counts: Counts, after: Place | null): Promise<Place | null> {
  const { rows, next } = await outliving(tx, work, after);
  const ids = rows.filter(({ named, claimed }) => named && !claimed).map(({ id }) => id);
  counts.webhook_deliveries += await eraseDeliveries(tx, work, [], ids);
  return next;
}
