import { byWeight } from '../by-weight.ts';
import type { Sql } from '../db/client.ts';
import { databaseTime } from '../db/clocks.ts';
import { type Gap, gapsOf, listPartitions } from '../db/partitions.ts';
import { givingWay } from '../give-way.ts';
import { floorId } from '../ids.ts';
import { namelessMark, type Redaction, type Work } from './erased.ts';
import { bytesOf, eraseDeliveries, type Payload } from './erasing-records.ts';
import type { Counts } from './erasures.ts';
import { keptFrom } from './retention.ts';

/**
 * Deliveries that are kept longer than the email they tell of, by which the others are found: what happened to it late was
 * told in a later week, and what waits stays although its email is over.
 */

/** Of deliveries, of whatever account, that are looked at with one statement; and of bytes that are read of the account's. */
const lookedAtAtOnce = 10_000;
const readAtOnce = 2 * 1024 * 1024;

const nil = floorId(new Date(0));

/** A delivery, in the order of the emails that they tell of. */
export interface Place {
  emailId: string;
  id: string;
}

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
  const [some = []] = byWeight(looked, readAtOnce, ({ own, bytes }) => (own ? bytes : 0));
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

/** Whether there are such deliveries that name the address. */
export async function areOutliving(tx: Sql, work: Work): Promise<boolean> {
  for (let after: Place | null = null; ; ) {
    const { rows, next }: Awaited<ReturnType<typeof outliving>> = await outliving(tx, work, after);
    if (rows.some(({ named }) => named)) return true;
    if (next === null) return false;
    after = next;
  }
}

/**
 * Erases from a stretch of them, but from those that are being told now.
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
