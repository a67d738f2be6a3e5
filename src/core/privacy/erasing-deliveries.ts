import { byWeight } from '../../by-weight.ts';
import type { Sql } from '../../db/client.ts';
import { databaseTime } from '../../db/clocks.ts';
import { type Gap, gapsOf, listPartitions } from '../../db/partitions.ts';
import { givingWay } from '../../give-way.ts';
import { floorId } from '../../ids.ts';
import { keptFrom } from '../retention/retention.ts';
import { type Found, namelessMark, type Redaction, type Work } from '../returns/erased.ts';
import type { Counts } from './erasures.ts';

/** In bytes, of deliveries that are read together: what webhooks were told of one email can have hundreds of megabytes. */
export const deliveriesAtOnce = 2 * 1024 * 1024;

interface DeliveryRow {
  id: string;
  email_id: string;
  /** Of what is read of it. */
  bytes: number;
  claimed: boolean;
}

/** SQL: what is read of a delivery, its id and the like included. */
const bytesOf = 'octet_length(payload) + 200';

/** How many bytes are read of what webhooks were told of each of these emails. @param but without these deliveries */
export async function weighDeliveries(tx: Sql, emailIds: string[], but: string[]): Promise<Map<string, number>> {
  const rows = await tx.query<{ id: string; bytes: number }>({
    text: `SELECT email_id AS id, sum(${bytesOf})::float8 AS bytes
             FROM webhook_deliveries WHERE email_id = ANY($1) AND id <> ALL($2::uuid[]) GROUP BY email_id`,
    values: [emailIds, but],
  });
  return new Map(rows.map(({ id, bytes }) => [id, bytes]));
}

/** What webhooks were told of these emails, or are to be. */
export async function lockDeliveries(tx: Sql, emailIds: string[]): Promise<DeliveryRow[]> {
  return tx.query<DeliveryRow>({
    text: `SELECT id, email_id, ${bytesOf} AS bytes, claimed_by IS NOT NULL AS claimed
             FROM webhook_deliveries WHERE email_id = ANY($1) ORDER BY id FOR UPDATE`,
    values: [emailIds],
  });
}

/** As it is written to `payload`, of what events say of an email. */
interface Payload {
  data: {
    to?: string[];
    subject?: string;
    tags?: string[];
    recipients?: { address: string; status: string; response: string | null }[];
  };
}

/**
 * What an endpoint answered may repeat what it was told. What waits is sent without the address.
 *
 * @param ids of a few megabytes
 * @returns how many had something of it
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

/** Of deliveries, of whatever account, that are looked at with one statement. */
const lookedAtAtOnce = 10_000;

const nil = floorId(new Date(0));

/** A delivery, in the order of the emails that they tell of. */
interface Place {
  emailId: string;
  id: string;
}

/**
 * A delivery that is kept longer than the email it tells of, by which the others are found: what happened to it late was told
 * in a later week, and what waits stays although its email is over.
 */
interface Outliving {
  id: string;
  claimed: boolean;
  named: boolean;
}

/** Where emails may be gone, oldest first: weeks that are not there, and those that are over and kept for others. */
async function whereEmailsAreGone(tx: Sql): Promise<Gap[]> {
  const until = keptFrom(await databaseTime(tx));
  const partitions = await listPartitions(tx);
  return gapsOf(
    partitions.filter(({ to }) => to > until),
    'emails',
  );
}

/**
 * A stretch of those of the account.
 *
 * @param after where the last one ended; null: at the beginning
 * @returns those that may name the address, with whether they do, and where the stretch ended; null: at the end
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
  // Of others' the last alone: it says where to go on.
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

/** Whether there are deliveries that outlive their email and name the address. */
export async function areOutliving(tx: Sql, work: Work): Promise<boolean> {
  for (let after: Place | null = null; ; ) {
    const { rows, next }: Awaited<ReturnType<typeof outliving>> = await outliving(tx, work, after);
    if (rows.some(({ named }) => named)) return true;
    if (next === null) return false;
    after = next;
  }
}

/**
 * Erases from a stretch of those that outlive their email, but from those that are being told now.
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
