import type { Database } from '../../db/client.ts';
import { databaseCodeOf } from '../../db/errors.ts';
import { floorId } from '../../ids.ts';
import { byHour } from './email-counts.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

export type Interval = 'hour' | 'day';
export type Grouping = 'domain' | 'tag' | 'type' | 'destination' | 'provider';

/** Names who runs the mail servers of a destination, given one of them. */
export type ProviderOf = (destination: string, mxHost: string) => string;

export interface StatsQuery {
  from: Date;
  to: Date;
  interval: Interval;
  /** Null: everything together. */
  groupBy: Grouping | null;
}

export interface Stats {
  buckets: Bucket[];
  /** How many groups there are; null without a grouping. */
  groupCount: number | null;
}

/**
 * What became of the emails that were accepted in one stretch of time. Recipients are counted as they stand now. In a group of
 * recipients, by destination or provider, everything but `accepted` is about these recipients alone.
 */
export interface Bucket {
  /** Where the stretch begins, in UTC. */
  start: Date;
  /** The sender domain, tag, type, recipients' domain, or provider that takes its mail; null without a grouping. */
  group: string | null;
  /** Emails. */
  accepted: number;
  /** Emails with a recipient on the suppression list. */
  suppressed: number;
  /** Emails that a recipient complained about. */
  complaints: number;
  /** Recipients. */
  delivered: number;
  /** Recipients. */
  pending: number;
  /** Recipients. */
  failed: number;
  /** Failed recipients by the class of the failure. */
  failedByClass: Record<string, number>;
  /** Attempts that were deferred. */
  deferrals: number;
  /** From when the email was due until the recipient's server took it; null if nothing was delivered. */
  latencyMs: { p50: number; p95: number; p99: number } | null;
}

/** More groups are not listed: an account may give each email tags of its own. */
export const mostGroups = 1_000;

/** SQL: the provider that takes the mail of a domain; the domain itself, if none of its servers was seen. */
const providerOf = (destination: string) => `coalesce($4::jsonb ->> ${destination}, ${destination})`;

/** SQL: the destination of an attempt. An erased recipient loses its address, but keeps its destination. */
const destinationOfAttempt = `coalesce(substring(a.recipient FROM '@([^@]*)$'),
  (SELECT destination FROM recipients WHERE email_id = a.email_id AND address = a.recipient))`;

/** SQL: the group of a recipient with this destination, if the recipients of an email belong to different groups. */
const recipientGroups: Partial<Record<Grouping, (destination: string) => string>> = {
  destination: (destination) => destination,
  provider: providerOf,
};

/** SQL about an email, or about one of the rows that `joins` gives it. */
interface EmailSql {
  /** Gives an email a row for each group that it belongs to. */
  joins: string;
  /** Empty without a grouping. */
  group: string;
  /** Whether one of its recipients in the group is on the suppression list. */
  isSuppressed: string;
  /** Whether one of them complained. */
  isComplaint: string;
}

function emailSql(groupBy: Grouping | null): EmailSql {
  const groupOf = groupBy && recipientGroups[groupBy];
  if (groupOf)
    return {
      joins: `, LATERAL (
           SELECT ${groupOf('r.destination')} AS "group", bool_or(r.status = 'suppressed') AS is_suppressed,
                  bool_or((r.email_id, r.address) IN (SELECT email_id, recipient FROM complained)) AS is_complaint
             FROM recipients r WHERE r.email_id = emails.id GROUP BY 1) AS reached`,
      group: 'reached."group"',
      isSuppressed: 'reached.is_suppressed',
      isComplaint: 'reached.is_complaint',
    };
  const groups: Partial<Record<Grouping, string>> = { domain: 'from_domain', type: 'type::text', tag: 'tag' };
  return {
    joins: groupBy === 'tag' ? ', LATERAL (SELECT DISTINCT unnest(tags) AS tag) AS tagged' : '',
    group: (groupBy && groups[groupBy]) ?? "''",
    isSuppressed: 'suppressed > 0',
    isComplaint: 'id IN (SELECT email_id FROM complained)',
  };
}

/**
 * SQL: whether an email's id is from `$2` until before `$3`. Said of each table, also where it follows from a join: otherwise the
 * planner may read the whole table, with all weeks of all accounts.
 */
const inRange = (id: string) => `${id} >= $2 AND ${id} < $3`;

interface Row {
  start: Date;
  group: string;
  accepted: number;
  suppressed: number;
  complaints: number;
  delivered: number | null;
  pending: number | null;
  failed: number | null;
  latency: number[] | null;
  classes: Record<string, number> | null;
  deferrals: number | null;
  groups: number;
}

/** Emails that one statement counts: some millions would take longer than a statement may. */
const countedAtOnce = 100_000;

/**
 * Counts over the account's emails accepted from `from` until before `to`, oldest stretch first. Of more than `mostGroups` groups,
 * those with the most emails.
 *
 * @param atOnce how many emails one statement counts, if there are not more of one day
 */
export async function collect(
  db: Database,
  accountId: string,
  query: StatsQuery,
  nameOf: ProviderOf,
  atOnce = countedAtOnce,
): Promise<Stats> {
  const parts = await partsOf(db, accountId, query, atOnce);
  const ranges = parts.map(({ from, to }) => [accountId, floorId(from), floorId(to)]);
  const providers = query.groupBy === 'provider' ? [JSON.stringify(await findProviders(db, ranges, nameOf))] : [];
  const values = ranges.map((range) => [...range, ...providers]);
  const count = (range: string[]) => db.query<Row>({ text: selectBuckets(query), values: range });
  const rows: Row[] = [];
  const groups = new Set<string>();
  for (const range of values) {
    const some = await count(range);
    for (const { group } of some) groups.add(group);
    // Which groups are the largest of all does not show in a part.
    if (values.length > 1 && ((some[0]?.groups ?? 0) > mostGroups || groups.size > mostGroups))
      return (
        (await collectLargest(db, query, values)) ??
        statsOf(query, await count([accountId, floorId(query.from), floorId(query.to), ...providers]))
      );
    rows.push(...some);
  }
  return statsOf(query, rows, values.length > 1 ? groups.size : rows[0]?.groups);
}

/** PostgreSQL gives the right to make temporary tables to all, and an operator may take it away. */
const insufficientPrivilege = '42501';

/**
 * @param ranges the values of each part, for `selectBuckets`
 * @returns null if our role may not make the table that this takes
 */
async function collectLargest(db: Database, query: StatsQuery, ranges: string[][]): Promise<Stats | null> {
  const largest = await findLargest(db, query, ranges).catch((error: unknown) => {
    if (databaseCodeOf(error) === insufficientPrivilege) return null;
    throw error;
  });
  if (largest === null) return null;
  const names = largest.map(({ group }) => group);
  const rows: Row[] = [];
  for (const range of ranges) {
    const among = `$${range.length + 1}::text[]`;
    rows.push(...(await db.query<Row>({ text: selectBuckets(query, among), values: [...range, names] })));
  }
  return statsOf(query, rows, largest[0]?.groups);
}

/**
 * The groups with the most emails in all parts together, and how many groups there are. They are added up in a table of the
 * session, since there may be as many as emails.
 */
async function findLargest(
  db: Database,
  { groupBy }: StatsQuery,
  ranges: string[][],
): Promise<{ group: string; groups: number }[]> {
  const { joins, group } = emailSql(groupBy);
  return db.session(async (session) => {
    await session.query({ text: 'CREATE TEMP TABLE stats_groups ("group" text NOT NULL, accepted int NOT NULL)' });
    for (const values of ranges)
      await session.query({
        text: `WITH ${complained}
               INSERT INTO stats_groups SELECT ${group}, count(*) FROM emails${joins} WHERE account_id = $1 AND ${inRange('id')} GROUP BY 1`,
        values,
      });
    const largest = await session.query<{ group: string; groups: number }>({
      text: `SELECT "group", (count(*) OVER ())::int AS groups FROM stats_groups
              GROUP BY 1 ORDER BY sum(accepted) DESC, 1 LIMIT ${mostGroups}`,
    });
    // After an error its connection is closed, and the table is gone with it.
    await session.query({ text: 'DROP TABLE stats_groups' });
    return largest;
  });
}

/** @param groupCount how many groups there are, if the rows do not say it */
function statsOf({ groupBy }: StatsQuery, rows: Row[], groupCount = rows[0]?.groups): Stats {
  const buckets = rows.map((row) => ({
    start: row.start,
    group: groupBy && row.group,
    accepted: row.accepted,
    suppressed: row.suppressed,
    complaints: row.complaints,
    delivered: row.delivered ?? 0,
    pending: row.pending ?? 0,
    failed: row.failed ?? 0,
    failedByClass: row.classes ?? {},
    deferrals: row.deferrals ?? 0,
    latencyMs: latencyOf(row.latency),
  }));
  return { buckets, groupCount: groupBy && (groupCount ?? 0) };
}

/** Cuts the range at midnights, between days that have `atOnce` emails together. Oldest part first. */
async function partsOf(
  db: Database,
  accountId: string,
  { from, to }: StatsQuery,
  atOnce: number,
): Promise<{ from: Date; to: Date }[]> {
  const all = { accountId, status: null, type: null };
  const hours = await byHour(db, '', all, { from: new Date(from.getTime() - hourMs), to });
  const cuts: Date[] = [];
  let emails = 0;
  for (const hour of hours.toReversed()) {
    const midnight = new Date(Math.floor(hour.from.getTime() / dayMs) * dayMs);
    if (emails >= atOnce && midnight > (cuts.at(-1) ?? from)) {
      cuts.push(midnight);
      emails = 0;
    }
    emails += hour.emails;
  }
  const ends = [...cuts, to];
  return ends.map((end, index) => ({ from: index === 0 ? from : (ends[index - 1] ?? from), to: end }));
}

/** SQL: `complained`, the recipients who complained about emails in the range. */
const complained = `complained AS (
    SELECT email_id, recipient FROM returns WHERE account_id = $1 AND kind = 'complaint' AND ${inRange('email_id')})`;

/**
 * SQL: the emails of the account `$1` with ids from `$2` until before `$3`; `$4` is an object with the provider of each destination.
 *
 * @param among SQL: the groups that are counted, an array; null: all
 */
function selectBuckets({ interval, groupBy }: StatsQuery, among: string | null = null): string {
  const { joins, group, isSuppressed, isComplaint } = emailSql(groupBy);
  const groupOf = groupBy && recipientGroups[groupBy];
  const within = (destination: string) => (groupOf ? ` AND ${groupOf(destination)} = c."group"` : '');
  return `WITH ${complained},
  chosen AS (
    SELECT id, date_trunc('${interval}', created_at, 'UTC') AS start, ${group} AS "group", coalesce(scheduled_at, created_at) AS due,
           ${isSuppressed} AS is_suppressed, ${isComplaint} AS is_complaint
      FROM emails${joins} WHERE account_id = $1 AND ${inRange('id')}${among ? ` AND ${group} = ANY (${among})` : ''}),
  accepted AS (
    SELECT start, "group", count(*)::int AS accepted, count(*) FILTER (WHERE is_suppressed)::int AS suppressed,
           count(*) FILTER (WHERE is_complaint)::int AS complaints
      FROM chosen GROUP BY 1, 2),
  reached AS (
    SELECT c.start, c."group", count(*) FILTER (WHERE r.status = 'delivered')::int AS delivered,
           count(*) FILTER (WHERE r.status IN ('queued', 'deferred'))::int AS pending,
           count(*) FILTER (WHERE r.status = 'failed')::int AS failed,
           percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM r.settled_at - c.due) * 1000)
             FILTER (WHERE r.status = 'delivered') AS latency
      FROM chosen c JOIN recipients r ON r.email_id = c.id AND ${inRange('r.email_id')}${within('r.destination')} GROUP BY 1, 2),
  deferred AS (
    SELECT c.start, c."group", count(*)::int AS deferrals
      FROM chosen c JOIN attempts a ON a.email_id = c.id AND ${inRange('a.email_id')}
     WHERE a.outcome = 'deferred'${within(destinationOfAttempt)} GROUP BY 1, 2),
  -- The class of the last attempt counts, also if the recipient was given up or somebody decided about it.
  failed AS (
    SELECT c.start, c."group", coalesce(a.classification, 'other') AS classification, count(*)::int AS recipients
      FROM chosen c JOIN recipients r ON r.email_id = c.id AND ${inRange('r.email_id')} AND r.status = 'failed'${within('r.destination')}
      LEFT JOIN LATERAL (SELECT classification FROM attempts
                          WHERE email_id = r.email_id AND recipient = r.address ORDER BY number DESC, at DESC LIMIT 1) a ON true
     GROUP BY 1, 2, 3),
  classified AS (SELECT start, "group", jsonb_object_agg(classification, recipients) AS classes FROM failed GROUP BY 1, 2)
  -- With equality, which can be looked up by hash or in order: else each group would be compared with each.
  SELECT start, "group", accepted, suppressed, complaints, delivered, pending, failed, latency, deferrals, classes,
         (SELECT count(DISTINCT "group")::int FROM accepted) AS groups
    FROM accepted
    LEFT JOIN reached USING (start, "group")
    LEFT JOIN deferred USING (start, "group")
    LEFT JOIN classified USING (start, "group")
   WHERE "group" IN (SELECT "group" FROM accepted GROUP BY 1 ORDER BY sum(accepted) DESC, 1 LIMIT ${mostGroups})
   ORDER BY start, "group"`;
}

/** The provider of each destination that a server was seen of. */
async function findProviders(db: Database, ranges: string[][], nameOf: ProviderOf): Promise<Record<string, string>> {
  const hosts = new Map<string, string>();
  for (const values of ranges) {
    const rows = await db.query<{ destination: string; host: string }>({
      text: `SELECT ${destinationOfAttempt} AS destination, max(a.mx_host) AS host
               FROM emails e JOIN attempts a ON a.email_id = e.id AND ${inRange('a.email_id')}
              WHERE e.account_id = $1 AND ${inRange('e.id')} AND a.mx_host IS NOT NULL
              GROUP BY 1`,
      values,
    });
    for (const { destination, host } of rows) {
      const known = hosts.get(destination);
      if (known === undefined || host > known) hosts.set(destination, host);
    }
  }
  return Object.fromEntries([...hosts].map(([destination, host]) => [destination, nameOf(destination, host)]));
}

function latencyOf(latency: number[] | null): Bucket['latencyMs'] {
  const [p50, p95, p99] = (latency ?? []).map((ms) => Math.max(0, Math.round(ms)));
  return p50 === undefined || p95 === undefined || p99 === undefined ? null : { p50, p95, p99 };
}
