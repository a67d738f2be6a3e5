import type { Database } from '../../db/client.ts';
import { floorId } from '../../ids.ts';

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

/** What became of the emails that were accepted in one stretch of time. Recipients are counted as they stand now. */
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

/** SQL: the group of an email, or of one of the rows that `severalGroups` gives it. */
const groups: Record<Grouping, string> = {
  domain: 'from_domain',
  type: 'type::text',
  tag: 'tag',
  destination: 'destination',
  provider: 'provider',
};

/** SQL: the provider that takes the mail of a domain; the domain itself, if none of its servers was seen. */
const providerOf = (destination: string) =>
  `coalesce((SELECT name FROM providers WHERE providers.destination = ${destination}), ${destination})`;

/** SQL: the destination of an attempt. An erased recipient loses its address, but keeps its destination. */
const destinationOfAttempt = `coalesce(substring(a.recipient FROM '@([^@]*)$'),
  (SELECT destination FROM recipients WHERE email_id = a.email_id AND address = a.recipient))`;

/** SQL: joins that give an email a row for each group that it belongs to. */
const severalGroups: Partial<Record<Grouping, string>> = {
  tag: ', LATERAL (SELECT DISTINCT unnest(tags) AS tag) AS tagged',
  destination: ', LATERAL (SELECT DISTINCT destination FROM recipients WHERE email_id = emails.id) AS reached',
  provider: `, LATERAL (SELECT DISTINCT ${providerOf('r.destination')} AS provider FROM recipients r WHERE r.email_id = emails.id) AS reached`,
};

/** SQL: the group of a recipient with this destination, if the recipients of an email belong to different groups. */
const recipientGroups: Partial<Record<Grouping, (destination: string) => string>> = {
  destination: (destination) => destination,
  provider: providerOf,
};

interface Row {
  start: Date;
  group: string | null;
  accepted: number;
  suppressed: number;
  complaints: number;
  delivered: number | null;
  pending: number | null;
  failed: number | null;
  latency: number[] | null;
  classes: Record<string, number> | null;
  deferrals: number | null;
}

/** Counts over the account's emails accepted from `from` until before `to`, oldest stretch first. */
export async function collect(
  db: Database,
  accountId: string,
  query: StatsQuery,
  nameOf: ProviderOf,
): Promise<Bucket[]> {
  const range = [accountId, floorId(query.from), floorId(query.to)];
  const providers = query.groupBy === 'provider' ? await findProviders(db, range, nameOf) : [];
  const rows = await db.query<Row>({
    text: selectBuckets(query),
    values: [...range, providers.map(({ destination }) => destination), providers.map(({ name }) => name)],
  });
  return rows.map((row) => ({
    start: row.start,
    group: row.group,
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
}

/** SQL: the emails of the account `$1` with ids from `$2` until before `$3`; `$4` and `$5` are destinations and their providers. */
function selectBuckets({ interval, groupBy }: StatsQuery): string {
  const group = groupBy ? groups[groupBy] : 'NULL::text';
  const joins = (groupBy && severalGroups[groupBy]) ?? '';
  const groupOf = groupBy && recipientGroups[groupBy];
  const within = (destination: string) => (groupOf ? ` AND ${groupOf(destination)} = c."group"` : '');
  return `WITH providers AS (SELECT * FROM unnest($4::text[], $5::text[]) AS n (destination, name)),
  complained AS (SELECT email_id FROM returns WHERE account_id = $1 AND kind = 'complaint'),
  chosen AS (
    SELECT id, date_trunc('${interval}', created_at, 'UTC') AS start, ${group} AS "group", suppressed,
           coalesce(scheduled_at, created_at) AS due, id IN (SELECT email_id FROM complained) AS complaint
      FROM emails${joins} WHERE account_id = $1 AND id >= $2 AND id < $3),
  accepted AS (
    SELECT start, "group", count(*)::int AS accepted, count(*) FILTER (WHERE suppressed > 0)::int AS suppressed,
           count(*) FILTER (WHERE complaint)::int AS complaints
      FROM chosen GROUP BY 1, 2),
  reached AS (
    SELECT c.start, c."group", count(*) FILTER (WHERE r.status = 'delivered')::int AS delivered,
           count(*) FILTER (WHERE r.status IN ('queued', 'deferred'))::int AS pending,
           count(*) FILTER (WHERE r.status = 'failed')::int AS failed,
           percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM r.settled_at - c.due) * 1000)
             FILTER (WHERE r.status = 'delivered') AS latency
      FROM chosen c JOIN recipients r ON r.email_id = c.id${within('r.destination')} GROUP BY 1, 2),
  deferred AS (
    SELECT c.start, c."group", count(*)::int AS deferrals
      FROM chosen c JOIN attempts a ON a.email_id = c.id WHERE a.outcome = 'deferred'${within(destinationOfAttempt)} GROUP BY 1, 2),
  -- The class of the last attempt counts, also if the recipient was given up or somebody decided about it.
  failed AS (
    SELECT c.start, c."group", coalesce(a.classification, 'other') AS classification, count(*)::int AS recipients
      FROM chosen c JOIN recipients r ON r.email_id = c.id AND r.status = 'failed'${within('r.destination')}
      LEFT JOIN LATERAL (SELECT classification FROM attempts
                          WHERE email_id = r.email_id AND recipient = r.address ORDER BY number DESC, at DESC LIMIT 1) a ON true
     GROUP BY 1, 2, 3),
  classified AS (SELECT start, "group", jsonb_object_agg(classification, recipients) AS classes FROM failed GROUP BY 1, 2)
  SELECT accepted.*, reached.delivered, reached.pending, reached.failed, reached.latency, deferred.deferrals, classified.classes
    FROM accepted
    LEFT JOIN reached ON reached.start = accepted.start AND reached."group" IS NOT DISTINCT FROM accepted."group"
    LEFT JOIN deferred ON deferred.start = accepted.start AND deferred."group" IS NOT DISTINCT FROM accepted."group"
    LEFT JOIN classified ON classified.start = accepted.start AND classified."group" IS NOT DISTINCT FROM accepted."group"
   ORDER BY accepted.start, accepted."group"`;
}

/** The provider of each destination that a server was seen of. */
async function findProviders(db: Database, range: string[], nameOf: ProviderOf) {
  const rows = await db.query<{ destination: string; host: string }>({
    text: `SELECT ${destinationOfAttempt} AS destination, max(a.mx_host) AS host
             FROM emails e JOIN attempts a ON a.email_id = e.id
            WHERE e.account_id = $1 AND e.id >= $2 AND e.id < $3 AND a.mx_host IS NOT NULL
            GROUP BY 1`,
    values: range,
  });
  return rows.map(({ destination, host }) => ({ destination, name: nameOf(destination, host) }));
}

function latencyOf(latency: number[] | null): Bucket['latencyMs'] {
  const [p50, p95, p99] = (latency ?? []).map((ms) => Math.max(0, Math.round(ms)));
  return p50 === undefined || p95 === undefined || p99 === undefined ? null : { p50, p95, p99 };
}
