import { isAlone } from '../../db/alone.ts';
import type { Database, Sql } from '../../db/client.ts';
import { noLater } from '../../db/clocks.ts';
import { beforeAllIds, floorId } from '../../ids.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { planOf, plans } from '../accounts/plans.ts';
import { dropUnneeded } from '../emails/attachments.ts';

const dayMs = 24 * 3_600_000;

/** Emails, or files, that one statement looks at. */
const stretchSize = 500;

/** Bytes that one statement deletes, unless one row alone is larger: after a standstill, everything it looks at is due. */
export const heaviestStretch = 64 * 1024 * 1024;

export interface PruningOptions {
  /** How many days each plan keeps content, by its name; for a plan that is missing, and for an account that is gone, those of `free`. */
  contentDays?: Record<string, number>;
  /** Ends it after a stretch. */
  stop?: AbortSignal;
}

/** How many were removed. */
export interface Pruned {
  contents: number;
  attachments: number;
}

/**
 * Removes the content of emails that were due longer ago than their account's plan keeps it: bodies, custom header fields,
 * and files that no email needs any more. An email that ended before its time is due when it ends. The log stays as long as
 * its week. Emails that still wait keep their content, even if they are older. Skips everything younger than the shortest time
 * of any plan. Only one node at a time does this.
 *
 * @param now if the database's clock is behind it, the database's counts: a wrong clock must not cost mail
 */
export async function pruneContents(db: Database, now: Date, options: PruningOptions = {}): Promise<Pruned> {
  const { contentDays = daysOfPlans(), stop } = options;
  const pruned: Pruned = { contents: 0, attachments: 0 };
  await db.session(async (session) => {
    if (!(await isAlone(session, 'old contents'))) return;
    const today = await noLater(session, now);
    const shortest = Math.min(...Object.values(contentDays));
    const until = floorId(new Date(today.getTime() - shortest * dayMs));
    const keeps = { days: JSON.stringify(contentDays), otherwise: contentDays.free ?? planOf('').contentDays };
    for (let place: string | null = beforeAllIds; place !== null && !stop?.aborted; )
      place = await pruneStretch(session, { after: place, until, now: today, ...keeps }, pruned);
    for (let place: FilePlace | null = firstFile; place !== null && !stop?.aborted; )
      place = await pruneFiles(db, place, { now: today, ...keeps }, pruned);
  });
  return pruned;
}

const daysOfPlans = () =>
  Object.fromEntries(Object.entries(plans).map(([name, { contentDays }]) => [name, contentDays]));

interface Keeps {
  now: Date;
  /** JSON, by the name of the plan. */
  days: string;
  otherwise: number;
}

/** SQL: whether this time is longer ago than the account's plan keeps content; $1 to $3 are those of `Keeps`. */
const isOver = (at: string, account: string) =>
  `${at} < $1::timestamptz - make_interval(days => coalesce(($2::json ->> ${account}.plan)::int, $3::int))`;

/** SQL: when an email ended that was not sent. If it was suppressed when it was accepted, no recipient has a time. */
const endedAt = 'coalesce((SELECT max(r.settled_at) FROM recipients r WHERE r.email_id = e.id), e.created_at)';

/** @returns where to continue; null at the end */
async function pruneStretch(
  session: Sql,
  { after, until, now, days, otherwise }: Keeps & { after: string; until: string },
  pruned: Pruned,
): Promise<string | null> {
  const [row] = await session.query<{ gone: number; last: string | null }>({
    // The length of a text is in its row, so the text itself, stored elsewhere, is not read.
    text: `WITH looked AS MATERIALIZED (
             SELECT email_id, sum(bytes) OVER (ORDER BY email_id) - bytes AS before
               FROM (SELECT email_id, coalesce(octet_length(html), 0) + coalesce(octet_length(text), 0) AS bytes
                       FROM email_contents WHERE email_id > $4 AND email_id < $5 ORDER BY email_id LIMIT $6) one),
           stretch AS MATERIALIZED (SELECT email_id FROM looked WHERE before < ${heaviestStretch}),
           old AS (
             SELECT e.id FROM stretch s JOIN emails e ON e.id = s.email_id LEFT JOIN accounts a ON a.id = e.account_id
              WHERE e.pending = 0 AND (${isOver('coalesce(e.scheduled_at, e.created_at)', 'a')}
                 OR e.scheduled_at IS NOT NULL AND e.status IN ('canceled', 'suppressed') AND ${isOver(endedAt, 'a')})),
           gone AS (DELETE FROM email_contents c USING old WHERE c.email_id = old.id RETURNING 1)
           SELECT (SELECT count(*)::int FROM gone) AS gone,
                  (SELECT email_id FROM stretch WHERE (SELECT count(*) FROM looked) = $6 OR EXISTS (SELECT FROM looked WHERE before >= ${heaviestStretch})
                    ORDER BY email_id DESC LIMIT 1) AS last`,
    values: [now, days, otherwise, after, until, stretchSize],
  });
  pruned.contents += row?.gone ?? 0;
  return row?.last ?? null;
}

interface FilePlace {
  account_id: string;
  sha256: Buffer;
}

const firstFile: FilePlace = { account_id: beforeAllIds, sha256: Buffer.alloc(0) };

/** Removes files whose last email was accepted and due before the plan's time. @returns where to continue; null at the end */
async function pruneFiles(
  db: Database,
  after: FilePlace,
  { now, days, otherwise }: Keeps,
  pruned: Pruned,
): Promise<FilePlace | null> {
  const looked = await db.query<FilePlace & { over: boolean; bytes: number }>({
    text: `SELECT f.account_id, f.sha256, f.bytes, ${isOver('f.last_used_at', 'a')} AS over
             FROM (SELECT account_id, sha256, last_used_at, octet_length(content) AS bytes FROM attachments WHERE (account_id, sha256) > ($4, $5)
                    ORDER BY account_id, sha256 LIMIT $6) f LEFT JOIN accounts a ON a.id = f.account_id
            ORDER BY f.account_id, f.sha256`,
    values: [now, days, otherwise, after.account_id, after.sha256, stretchSize],
  });
  const [rows = []] = byWeight(looked, heaviestStretch, ({ over, bytes }) => (over ? bytes : 0));
  const byAccount = Map.groupBy(
    rows.filter(({ over }) => over),
    (row) => row.account_id,
  );
  for (const [accountId, files] of byAccount) {
    const hashes = files.map(({ sha256 }) => sha256.toString('hex'));
    pruned.attachments += await db.transaction((tx) => dropUnneeded(tx, accountId, hashes));
  }
  return rows.length === looked.length && looked.length < stretchSize ? null : (rows.at(-1) ?? null);
}
