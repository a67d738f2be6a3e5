import { isAlone } from '../../db/alone.ts';
import type { Database, Sql } from '../../db/client.ts';
import { noLater } from '../../db/clocks.ts';
import {
  detachPartition,
  dropPartition,
  gapsOf,
  listPartitions,
  type Partition,
  type Partitioned,
} from '../../db/partitions.ts';
import { deleteRows } from '../../db/stretches.ts';
import { floorId } from '../../ids.ts';
import { plans } from '../accounts/plans.ts';
import { forgetChanges } from '../log/email-counts.ts';
import { heaviestStretch } from './content-retention.ts';

const dayMs = 24 * 3_600_000;

/** Partitions hold the emails of all accounts: they stay as long as the plan that keeps its log the longest. */
const keptDays = Math.max(...Object.values(plans).map(({ logDays }) => logDays));

/** What ended before this is not kept any more. */
export const keptFrom = (now: Date): Date => new Date(now.getTime() - keptDays * dayMs);

/** The log of an email begins with `emails`: whatever happens in between, it is either there or not found. */
const ofEmails: Partitioned[] = ['emails', 'email_counts', 'recipients', 'attempts', 'email_contents'];
const ofWebhooks: Partitioned[] = ['webhook_deliveries'];

/** Of attachments that are looked at with one statement. */
const stretchSize = 1_000;

/** Of rows that go with one statement, of tables that have no weeks. */
const rowsAtOnce = 5_000;

/** Of rows that are looked at with one statement, for when they were due or done. */
const rowsLookedAtAtOnce = 10_000;

/**
 * Drops the weeks of emails, and those of webhook deliveries, that are over for longer than the log is kept. A week stays
 * while anything in it still waits, or was due or done within that time, as what was scheduled long ahead, or held for long.
 * Safe to call from several nodes at once: one does it, the others go on.
 *
 * @param now where the database's clock is behind it, that one counts: nobody's wrong clock costs mail
 * @param stop ends it after a week, or a stretch of what hung on them
 * @returns the names of the tables that were dropped
 */
export async function dropOld(db: Database, now: Date, stop?: AbortSignal): Promise<string[]> {
  return db.session(async (session) => {
    if (!(await isAlone(session, 'retention'))) return [];
    const until = keptFrom(await noLater(session, now));
    const over = (await listPartitions(session)).filter((one) => one.to <= until);
    const dropped: string[] = [];
    // PostgreSQL lets only one leave a table at a time.
    for (const partition of over.filter(({ state }) => state === 'leaving'))
      if (!stop?.aborted) await drop(session, partition, dropped);
    const rest = over.filter(({ state }) => state !== 'leaving');
    await all([
      async () => {
        for (const week of weeksOf(rest, ofEmails))
          if (!stop?.aborted) await dropWeek(db, week, ofEmails, { until, stop }, dropped);
      },
      async () => {
        for (const week of weeksOf(rest, ofWebhooks))
          if (!stop?.aborted) await dropWeek(db, week, ofWebhooks, { until, stop }, dropped);
      },
    ]);
    if (!stop?.aborted) await forgetWhatHungOnThem(db, until, stop);
    return dropped;
  });
}

/**
 * Drops what its tables have of a week, unless it is kept. The first of them decides: once its rows are seen no more, the
 * rest follows, all at once.
 */
async function dropWeek(
  db: Database,
  week: Partition[],
  tables: Partitioned[],
  limits: Limits,
  dropped: string[],
): Promise<void> {
  const [first] = week;
  if (!first) return;
  // Where its first part has gone there is nothing left to decide: dropping it was interrupted.
  const begun = first.state === 'left' || first.table !== tables[0];
  if (!begun && (await isKept(db, week, limits))) return;
  const removed = await db.session((session) => detachPartition(session, first));
  // Another node may have made one that was missing, which it does not any more.
  const others = (await listPartitions(db)).filter(
    ({ table, from, name }) => tables.includes(table) && from.getTime() === first.from.getTime() && name !== first.name,
  );
  await all(
    [removed, ...others].map((partition) => async () => {
      // None of its emails can change any more.
      if (partition.table === 'email_counts') await forgetChanges(db, partition);
      await db.session((session) => drop(session, partition, dropped));
    }),
  );
}

/** Does all of these at the same time, and is over when the last of them is; throws what the first that failed did. */
export async function all(work: (() => Promise<void>)[]): Promise<void> {
  const ends = await Promise.allSettled(work.map((one) => one()));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function drop(session: Sql, partition: Partition, dropped: string[]): Promise<void> {
  await dropPartition(session, partition);
  dropped.push(partition.name);
}

/** What these tables have of each week, in their order, oldest week first. */
export function weeksOf(partitions: Partition[], tables: Partitioned[]): Partition[][] {
  const weeks = Map.groupBy(
    partitions.filter(({ table }) => tables.includes(table)),
    ({ from }) => from.getTime(),
  );
  return [...weeks.values()].map((week) => week.toSorted((a, b) => tables.indexOf(a.table) - tables.indexOf(b.table)));
}

export interface Limits {
  /** What was over before this goes. */
  until: Date;
  stop: AbortSignal | undefined;
}

/** Whether anything of the week still waits, or was due or done since. A stop leaves all as it is. */
export async function isKept(db: Sql, week: Partition[], limits: Limits): Promise<boolean> {
  const find = (table: Partitioned) => week.find((one) => one.table === table && one.state === 'attached');
  const [emails, recipients, deliveries] = [find('emails'), find('recipients'), find('webhook_deliveries')];
  const waiting = ['job_id IS NOT NULL', 'job_id IS NULL AND next_attempt_at IS NOT NULL'];
  if (await isAny(db, [recipients, deliveries], waiting)) return true;
  const isSomeScheduled = emails && (await isAny(db, [emails], ['scheduled_at IS NOT NULL']));
  if (isSomeScheduled && (await isAnySince(db, emails, ['id', 'scheduled_at'], limits))) return true;
  return recipients !== undefined && isAnySince(db, recipients, ['email_id', 'settled_at'], limits);
}

/** @param conditions SQL; an index has all that fulfil one, and nothing else */
async function isAny(db: Sql, partitions: (Partition | undefined)[], conditions: string[]): Promise<boolean> {
  const each = partitions.flatMap((one) =>
    one ? conditions.map((condition) => `EXISTS (SELECT FROM ${one.name} WHERE ${condition})`) : [],
  );
  const [row] = await db.query<{ any: boolean }>({ text: `SELECT ${['false', ...each].join(' OR ')} AS any` });
  return row?.any ?? true;
}

/** No index leads to them, and a week is looked through once, piece by piece: then it goes, or ends up with those alone. */
async function isAnySince(
  db: Sql,
  { name, from }: Partition,
  [id, moment]: ['id', 'scheduled_at'] | ['email_id', 'settled_at'],
  { until, stop }: Limits,
): Promise<boolean> {
  for (let next: string | null = floorId(from); next !== null; ) {
    if (stop?.aborted) return true;
    const [row]: { late: boolean; next: string | null }[] = await db.query({
      text: `WITH stretch AS MATERIALIZED (
               SELECT ${id}, ${moment} FROM ${name} WHERE ${id} >= $1 ORDER BY ${id} LIMIT $3 + 1)
             SELECT coalesce(bool_or(${moment} > $2), false) AS late, (SELECT ${id} FROM stretch OFFSET $3) AS next FROM stretch`,
      values: [next, until, rowsLookedAtAtOnce],
    });
    if (row?.late) return true;
    next = row?.next ?? null;
  }
  return false;
}

/** Forgets what belongs to emails that are gone. What an interruption left over goes with the next round. */
async function forgetWhatHungOnThem(db: Database, until: Date, stop?: AbortSignal): Promise<void> {
  const partitions = await listPartitions(db);
  const oldest = partitions.find(({ table, state }) => table === 'emails' && state === 'attached');
  if (!oldest) return;
  for (const { first, next } of gapsOf(partitions, 'emails'))
    for (const table of ['returns', 'sandbox_messages'])
      await deleteRows(
        db,
        {
          table,
          where: 'email_id >= $1 AND email_id < least($2, $3::uuid)',
          values: [first, next, floorId(until)],
          atOnce: rowsAtOnce,
        },
        stop,
      );
  // What the sandbox got that is from nobody here.
  await db.query({ text: 'DELETE FROM sandbox_messages WHERE id < $1', values: [floorId(oldest.from)] });
  // Those of a week that had no partition of the numbers.
  await forgetChanges(db, { from: null, to: oldest.from });
  await forgetAttachments(db, new Date(oldest.from.getTime() - dayMs), stop);
}

/** Those that no email was accepted with, or due with, since then. A time asked for may be a little before the email itself. */
async function forgetAttachments(db: Database, before: Date, stop?: AbortSignal): Promise<void> {
  let after: { account_id: string; sha256: Buffer } | undefined = {
    account_id: floorId(new Date(0)),
    sha256: Buffer.alloc(0),
  };
  while (after && !stop?.aborted) {
    const [last]: (typeof after)[] = await db.query({
      text: `WITH looked AS MATERIALIZED (
               SELECT account_id, sha256, sum(bytes) OVER (ORDER BY account_id, sha256) - bytes AS before
                 FROM (SELECT account_id, sha256, CASE WHEN last_used_at < $4 THEN octet_length(content) ELSE 0 END AS bytes
                         FROM attachments WHERE (account_id, sha256) > ($1, $2) ORDER BY 1, 2 LIMIT $3) one),
             stretch AS MATERIALIZED (SELECT account_id, sha256 FROM looked WHERE before < ${heaviestStretch}),
             gone AS (
               DELETE FROM attachments a USING stretch s
                WHERE a.account_id = s.account_id AND a.sha256 = s.sha256 AND a.last_used_at < $4)
             SELECT account_id, sha256 FROM stretch
              WHERE (SELECT count(*) FROM looked) = $3 OR EXISTS (SELECT FROM looked WHERE before >= ${heaviestStretch})
              ORDER BY 1 DESC, 2 DESC LIMIT 1`,
      values: [after.account_id, after.sha256, stretchSize, before],
    });
    after = last;
  }
}
