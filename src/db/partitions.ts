import { floorId } from '../ids.ts';
import { databaseTime } from './clocks.ts';
import type { Sql } from './sql.ts';

/** In the order in which they are made: a transaction that writes to one may also write to those before it. */
const partitioned = [
  'email_counts',
  'email_contents',
  'recipients',
  'attempts',
  'webhook_deliveries',
  'emails',
] as const;

export type Partitioned = (typeof partitioned)[number];

/** How a table is partitioned: on ids, except this one, which has none. */
const boundOf = (table: Partitioned, at: Date) => (table === 'email_counts' ? at.toISOString() : floorId(at));

/** For rows that change after they were written: their new version fits on the same page, and no index has to be updated. */
const withRoom = 'WITH (fillfactor = 50)';

/** Storage settings of the partitions of a table, if not the defaults. */
const storage: Partial<Record<Partitioned, string>> = {
  emails: withRoom,
  recipients: withRoom,
  // A small body stays in its row, at least two to a page: storing it elsewhere and looking it up there costs more than
  // writing it. Rows that are only inserted are neither vacuumed nor sampled for statistics: they are found by their key, and
  // it would read all bodies again.
  email_contents:
    'WITH (toast_tuple_target = 4080, autovacuum_vacuum_insert_threshold = -1, toast.autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 2147483647)',
};

/**
 * Columns that no statement searches or groups by. Gathering their statistics takes longer than for all others, once a minute
 * while a week is young, and the statistics would keep people's words and addresses longer than their emails are kept.
 */
const unsearched: Partial<Record<Partitioned, readonly string[]>> = {
  emails: ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'message_id', 'error'],
  email_contents: ['html', 'text', 'headers'],
  recipients: ['address', 'last_response'],
  attempts: [
    'recipient',
    'mx_host',
    'remote_address',
    'local_address',
    'tls_version',
    'tls_cipher',
    'verification',
    'phase',
    'enhanced_code',
    'reply',
    'reason',
    'conversation',
  ],
  webhook_deliveries: ['error', 'payload'],
};

/** @returns SQL */
function withoutStatistics(table: Partitioned, name: string): string {
  const columns = unsearched[table] ?? [];
  if (columns.length === 0) return '';
  return `ALTER TABLE ${name} ${columns.map((column) => `ALTER COLUMN "${column}" SET STATISTICS 0`).join(', ')};`;
}

const weekMs = 7 * 24 * 3_600_000;

/**
 * How far ahead partitions exist: a node whose clock is a week off, or that could make none for a week, still finds one. There
 * are no more, as each connection reads the definitions of all of them before its first statement.
 */
const weeksAhead = 2;

/**
 * Makes the missing weekly partitions from last week to two weeks ahead, by this time and by the database's. Then makes those
 * of `email_counts` for every older week with emails, because nodes of the previous release made none. A week begins on Monday
 * 00:00 UTC; its bounds are the ids of that moment, or the moment itself. Safe to call from several nodes at once.
 */
export async function ensurePartitions(db: Sql, now: Date): Promise<void> {
  const there = await listPartitions(db);
  // Emails go by the database's time, and calls to webhooks by that of the node.
  const both = [...weeks(now), ...weeks(await databaseTime(db))];
  const wanted = [...new Map(both.map((week) => [week.getTime(), week])).values()];
  const existing = new Set(there.map(({ name }) => name));
  const missing = (table: Partitioned, week: Date) => !existing.has(nameOf(table, week));
  for (const table of partitioned) {
    for (const week of wanted) if (missing(table, week)) await makePartition(db, table, week);
  }
  for (const { table, from, name, state } of there) {
    if (table !== 'emails' || state !== 'attached' || !missing('email_counts', from)) continue;
    // Retention may be dropping that week.
    const attached = `EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass('${name}'))`;
    await makePartition(db, 'email_counts', from, attached);
  }
}

const againMs = 6 * 3_600_000;

/**
 * Makes partitions whenever this clock or the database's is six hours from where it was when they were last made: a machine
 * that slept for weeks, or whose clock was set, can accept nothing until there are partitions for the week it wakes up in; nor
 * can one whose database failed over to a server with another time. To be called often with the current time.
 */
export function keepingPartitions(db: Sql): (now: Date) => Promise<void> {
  let madeAt: Date[] = [];
  return async (now) => {
    const times = [now, await databaseTime(db)];
    const isNear = (time: Date, index: number) => Math.abs(time.getTime() - Number(madeAt[index])) < againMs;
    if (times.every(isNear)) return;
    await ensurePartitions(db, now);
    madeAt = times;
  };
}

/** @param condition SQL, evaluated while nobody else makes partitions */
async function makePartition(db: Sql, table: Partitioned, week: Date, condition = 'true'): Promise<void> {
  const name = nameOf(table, week);
  // Attaching takes a lock that lets reads and writes go on; that of CREATE TABLE … PARTITION OF does not.
  await db.query({
    text: `DO $$ BEGIN
      PERFORM pg_advisory_xact_lock(hashtext('sendwright partitions'));
      IF to_regclass('${name}') IS NULL AND ${condition} THEN
        CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) ${storage[table] ?? ''};
        ${withoutStatistics(table, name)}
        ALTER TABLE ${table} ATTACH PARTITION ${name}
          FOR VALUES FROM ('${boundOf(table, week)}') TO ('${boundOf(table, new Date(week.getTime() + weekMs))}');
      END IF;
    END $$`,
  });
}

/**
 * Gathers statistics of this week's partitions if there are none, or if they still call a partition empty: somebody ran VACUUM
 * or ANALYZE on all tables before this week began. Statements planned for an empty table scan it, and are planned again after
 * this.
 */
export async function analyzeFresh(db: Sql, now: Date): Promise<void> {
  const thisWeek = weeks(now)[1] ?? now;
  const rows = await db.query<{ name: string }>({
    text: `SELECT relname AS name FROM pg_class
            WHERE relname = ANY($1) AND relnamespace = current_schema()::regnamespace AND reltuples <= 0 AND pg_relation_size(oid) > 0`,
    values: [partitioned.map((table) => nameOf(table, thisWeek))],
  });
  // If another node is doing it, there is nothing to wait for.
  for (const { name } of rows) await db.query({ text: `ANALYZE (SKIP_LOCKED) ${name}` });
}

/** One week of one table. */
export interface Partition {
  table: Partitioned;
  name: string;
  from: Date;
  to: Date;
  /** Dropping may stop at any point: `leaving`: new statements no longer see its rows; `left`: it is a table of its own. */
  state: 'attached' | 'leaving' | 'left';
}

/** All partitions, oldest first. */
export async function listPartitions(db: Sql): Promise<Partition[]> {
  const rows = await db.query<{ name: string; state: Partition['state'] }>({
    text: `SELECT c.relname AS name, CASE WHEN i.inhrelid IS NULL THEN 'left' WHEN i.inhdetachpending THEN 'leaving' ELSE 'attached' END AS state
             FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname ~ $1`,
    values: [`^(${partitioned.join('|')})_\\d{8}$`],
  });
  return rows
    .map(({ name, state }) => {
      const at = name.lastIndexOf('_');
      const from = new Date(name.slice(at + 1).replace(/^(\d{4})(\d\d)(\d\d)$/, '$1-$2-$3T00:00:00Z'));
      return { table: name.slice(0, at) as Partitioned, name, from, to: new Date(from.getTime() + weekMs), state };
    })
    .toSorted((a, b) => a.from.getTime() - b.from.getTime());
}

/** A stretch of time as a range of ids: from `first`, and before `next`. */
export interface Gap {
  first: string;
  next: string;
}

/**
 * The gaps before the table's newest week, oldest first: those weeks were dropped, or nothing ran then. A week that is kept for
 * long can have a gap after it.
 */
export function gapsOf(partitions: Partition[], table: Partitioned): Gap[] {
  let end = new Date(0);
  return partitions
    .filter((one) => one.table === table && one.state === 'attached')
    .flatMap(({ from, to }) => {
      const gap = { first: floorId(end), next: floorId(from) };
      end = to;
      return gap.first < gap.next ? [gap] : [];
    });
}

/**
 * Turns a partition into a table of its own: its rows are gone for all other statements, and none of them waits for that. (A
 * plain DROP would lock the whole table, and all mail would queue up behind that while one transaction is open.)
 *
 * @param session outside a transaction; it waits for transactions that are reading the table
 * @returns the partition, to be dropped
 */
export async function detachPartition(session: Sql, partition: Partition): Promise<Partition> {
  const { table, name, state } = partition;
  if (state === 'attached') await session.query({ text: `ALTER TABLE ${table} DETACH PARTITION ${name} CONCURRENTLY` });
  if (state === 'leaving') await session.query({ text: `ALTER TABLE ${table} DETACH PARTITION ${name} FINALIZE` });
  return { ...partition, state: 'left' };
}

/** Detaches a partition unless that is done, and removes it with all its rows. */
export async function dropPartition(session: Sql, partition: Partition): Promise<void> {
  const { name } = await detachPartition(session, partition);
  await session.query({ text: `DROP TABLE ${name}` });
}

function weeks(now: Date): Date[] {
  const midnight = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate());
  const monday = midnight - ((now.getUTCDay() + 6) % 7) * 24 * 3_600_000;
  return Array.from({ length: weeksAhead + 2 }, (_, index) => new Date(monday + (index - 1) * weekMs));
}

function nameOf(table: Partitioned, week: Date): string {
  return `${table}_${week.toISOString().slice(0, 10).replaceAll('-', '')}`;
}

/** SQL: whether the table has a partition for the moment given by this expression. */
export const hasPartition = (table: Partitioned, moment: string) =>
  `to_regclass('${table}_' || to_char(date_trunc('week', ${moment}, 'UTC') AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL`;
