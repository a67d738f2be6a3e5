import { isAlone } from '../../db/alone.ts';
import type { Database, Sql } from '../../db/client.ts';
import { noLater } from '../../db/clocks.ts';
import { deleteRows } from '../../db/delete-rows.ts';
import {
  detachPartition,
  dropPartition,
  gapsOf,
  listPartitions,
  type Partition,
  type Partitioned,
} from '../../db/partitions.ts';
import { beforeAllIds, floorId } from '../../ids.ts';
import { plans } from '../accounts/plans.ts';
import { forgetChanges } from '../log/email-counts.ts';
import { heaviestStretch } from './content-retention.ts';

const dayMs = 24 * 3_600_000;

/** Partitions hold the emails of all accounts, so they stay for the longest time that any plan keeps its log. */
const keptDays = Math.max(...Object.values(plans).map(({ logDays }) => logDays));

/** What ended before this is no longer kept. */
export const keptFrom = (now: Date): Date => new Date(now.getTime() - keptDays * dayMs);

/** `emails` comes first: if dropping is interrupted at any point, the log of an email is either there or not found. */
const tablesOfEmails: Partitioned[] = ['emails', 'email_counts', 'recipients', 'attempts', 'email_contents'];
const tablesOfWebhooks: Partitioned[] = ['webhook_deliveries'];

/** Attachments that one statement looks at. */
const stretchSize = 1_000;

/** Rows that one statement deletes, of tables that are not partitioned by week. */
const rowsAtOnce = 5_000;

/** Rows that one statement looks at to see when they were due or done. */
const rowsLookedAtAtOnce = 10_000;

/**
 * Drops the weeks of emails and of webhook deliveries that ended longer ago than the log is kept. A week stays while
 * anything in it still waits, or was due or done within that time, such as an email scheduled far ahead or held for long.
 * Safe to call from several nodes at once: one does it, the others return at once.
 *
 * @param now if the database's clock is behind it, the database's counts: a wrong clock must not cost mail
 * @param stop ends it after a week, or after a stretch of the rows that belonged to dropped emails
 * @returns the names of the tables that were dropped
 */
export async function dropOld(db: Database, now: Date, stop?: AbortSignal): Promise<string[]> {
  return db.session(async (session) => {
    if (!(await isAlone(session, 'retention'))) return [];
    const until = keptFrom(await noLater(session, now));
    const over = (await listPartitions(session)).filter((one) => one.to <= until);
    const dropped: string[] = [];
    // PostgreSQL detaches only one partition of a table at a time.
    for (const partition of over.filter(({ state }) => state === 'leaving'))
      if (!stop?.aborted) await drop(session, partition, dropped);
    const rest = over.filter(({ state }) => state !== 'leaving');
    const dropWeeks = (tables: Partitioned[]) => async () => {
      for (const week of weeksOf(rest, tables))
        if (!stop?.aborted) await dropWeek(db, week, tables, { until, stop }, dropped);
    };
    await runAll([dropWeeks(tablesOfEmails), dropWeeks(tablesOfWebhooks)]);
    if (!stop?.aborted) await deleteRowsOfDroppedEmails(db, until, stop);
    return dropped;
  });
}

/**
 * Drops the partitions of one week, unless it is kept. The first one decides: once it is detached, the others follow, all
 * at the same time.
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
  // If the first partition is detached or gone, the decision was made and dropping was interrupted.
  const isDecided = first.state === 'left' || first.table !== tables[0];
  if (!isDecided && (await isKept(db, week, limits))) return;
  const detached = await db.session((session) => detachPartition(session, first));
  // Another node may have made a missing partition since; now that the first one is detached, it no longer does.
  const others = (await listPartitions(db)).filter(
    ({ table, from, name }) => tables.includes(table) && from.getTime() === first.from.getTime() && name !== first.name,
  );
  await runAll(
    [detached, ...others].map((partition) => async () => {
      // None of its emails can change any more.
      if (partition.table === 'email_counts') await forgetChanges(db, partition);
      await db.session((session) => drop(session, partition, dropped));
    }),
  );
}

/** Runs these tasks concurrently, all of them to their end. Throws the first error in their order. */
export async function runAll(tasks: (() => Promise<void>)[]): Promise<void> {
  const results = await Promise.allSettled(tasks.map((task) => task()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

async function drop(session: Sql, partition: Partition, dropped: string[]): Promise<void> {
  await dropPartition(session, partition);
  dropped.push(partition.name);
}

/** The partitions of each week in the order of the tables, oldest week first. */
export function weeksOf(partitions: Partition[], tables: Partitioned[]): Partition[][] {
  const weeks = Map.groupBy(
    partitions.filter(({ table }) => tables.includes(table)),
    ({ from }) => from.getTime(),
  );
  return [...weeks.values()].map((week) => week.toSorted((a, b) => tables.indexOf(a.table) - tables.indexOf(b.table)));
}

export interface Limits {
  /** What was over before this is removed. */
  until: Date;
  stop: AbortSignal | undefined;
}

/** Whether anything in the week still waits, or was due or done since. After a stop it is true, so nothing is removed. */
export async function isKept(db: Sql, week: Partition[], limits: Limits): Promise<boolean> {
  const find = (table: Partitioned) => week.find((one) => one.table === table && one.state === 'attached');
  const [emails, recipients, deliveries] = [find('emails'), find('recipients'), find('webhook_deliveries')];
  const waits = ['job_id IS NOT NULL', 'job_id IS NULL AND next_attempt_at IS NOT NULL'];
  if (await hasRows(db, [recipients, deliveries], waits)) return true;
  const isAnyScheduled = emails && (await hasRows(db, [emails], ['scheduled_at IS NOT NULL']));
  if (isAnyScheduled && (await hasRowsSince(db, emails, ['id', 'scheduled_at'], limits))) return true;
  return recipients !== undefined && hasRowsSince(db, recipients, ['email_id', 'settled_at'], limits);
}

/**
 * Whether any of the partitions has a row that meets one of the conditions.
 *
 * @param conditions SQL; for each there is an index of exactly the rows that meet it
 */
async function hasRows(db: Sql, partitions: (Partition | undefined)[], conditions: string[]): Promise<boolean> {
  const each = partitions.flatMap((one) =>
    one ? conditions.map((condition) => `EXISTS (SELECT FROM ${one.name} WHERE ${condition})`) : [],
  );
  const [row] = await db.query<{ any: boolean }>({ text: `SELECT ${['false', ...each].join(' OR ')} AS any` });
  return row?.any ?? true;
}

/**
 * Whether the partition has a row whose moment is later than `until`. No index serves this, so it reads the whole week: once,
 * because after that the week is dropped, or only such rows are left in it.
 */
async function hasRowsSince(
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

/** Deletes what belonged to emails of dropped weeks. What an interruption leaves over goes in the next round. */
async function deleteRowsOfDroppedEmails(db: Database, until: Date, stop?: AbortSignal): Promise<void> {
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
  // Sandbox messages from elsewhere, which belong to no email.
  await db.query({ text: 'DELETE FROM sandbox_messages WHERE id < $1', values: [floorId(oldest.from)] });
  // Changes of weeks without a partition of the counts.
  await forgetChanges(db, { from: null, to: oldest.from });
  await forgetAttachments(db, new Date(oldest.from.getTime() - dayMs), stop);
}

/** Deletes files whose last email was accepted and due before then. A scheduled time may be slightly before its email. */
async function forgetAttachments(db: Database, before: Date, stop?: AbortSignal): Promise<void> {
  let after: { account_id: string; sha256: Buffer } | undefined = {
    account_id: beforeAllIds,
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
