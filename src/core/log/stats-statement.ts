export type Interval = 'hour' | 'day';
export type Grouping = 'domain' | 'tag' | 'type' | 'destination' | 'provider';

/** More groups are not listed: an account may give each email tags of its own. */
export const mostGroups = 1_000;

/** What a statement counts for one stretch of time and group. */
export interface Counted {
  start: Date;
  group: string;
  accepted: number;
  suppressed: number;
  complaints: number;
  delivered: number | null;
  pending: number | null;
  failed: number | null;
  /** How many recipients were reached after so many ms, which are rounded to three digits. */
  latencies: Record<string, number> | null;
  classes: Record<string, number> | null;
  deferrals: number | null;
  /** How many groups there are in all stretches of the statement together. */
  groups: number;
}

/** SQL: the provider that takes the mail of a domain; the domain itself, if none of its servers was seen. */
const providerOf = (destination: string) => `coalesce($4::jsonb ->> ${destination}, ${destination})`;

/** SQL: the destination of an attempt. An erased recipient loses its address, but keeps its destination. */
export const destinationOfAttempt = `coalesce(substring(a.recipient FROM '@([^@]*)$'),
  (SELECT destination FROM recipients WHERE email_id = a.email_id AND address = a.recipient))`;

/** SQL: a whole number, from 1,000 on rounded to three digits. Rounding decimals takes PostgreSQL far longer. */
const inThreeDigits = (number: string) => {
  const steps = Array.from({ length: 9 }, (_, index) => 10 ** (index + 1));
  const cases = steps.map(
    (step) => `WHEN ${number} < ${step * 1_000} THEN (${number} + ${step / 2}) / ${step} * ${step}`,
  );
  return `CASE WHEN ${number} < 1000 THEN ${number} ${cases.join(' ')} ELSE ${number} END`;
};

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

export function emailSql(groupBy: Grouping | null): EmailSql {
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
export const inRange = (id: string) => `${id} >= $2 AND ${id} < $3`;

/** SQL: `complained`, the recipients who complained about emails in the range. */
export const complained = `complained AS (
    SELECT email_id, recipient FROM returns WHERE account_id = $1 AND kind = 'complaint' AND ${inRange('email_id')})`;

/**
 * SQL: the emails of the account `$1` with ids from `$2` until before `$3`; `$4` is an object with the provider of each destination.
 *
 * @param among SQL: the groups that are counted, an array; null: all
 */
export function selectBuckets(interval: Interval, groupBy: Grouping | null, among: string | null = null): string {
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
  standing AS (
    SELECT c.start, c."group", r.status,
           CASE WHEN r.status = 'delivered' THEN greatest(0, date_part('epoch', r.settled_at - c.due) * 1000)::int8 END AS ms
      FROM chosen c JOIN recipients r ON r.email_id = c.id AND ${inRange('r.email_id')}${within('r.destination')}),
  reached AS (
    SELECT start, "group", coalesce(sum(recipients) FILTER (WHERE status = 'delivered'), 0)::int AS delivered,
           coalesce(sum(recipients) FILTER (WHERE status IN ('queued', 'deferred')), 0)::int AS pending,
           coalesce(sum(recipients) FILTER (WHERE status = 'failed'), 0)::int AS failed,
           json_object_agg(ms, recipients) FILTER (WHERE ms IS NOT NULL) AS latencies
      FROM (SELECT start, "group", status, ${inThreeDigits('ms')} AS ms, count(*)::int AS recipients
              FROM standing GROUP BY 1, 2, 3, 4) AS together
     GROUP BY 1, 2),
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
  SELECT start, "group", accepted, suppressed, complaints, delivered, pending, failed, latencies, deferrals, classes,
         (SELECT count(DISTINCT "group")::int FROM accepted) AS groups
    FROM accepted
    LEFT JOIN reached USING (start, "group")
    LEFT JOIN deferred USING (start, "group")
    LEFT JOIN classified USING (start, "group")
   WHERE "group" IN (SELECT "group" FROM accepted GROUP BY 1 ORDER BY sum(accepted) DESC, 1 LIMIT ${mostGroups})
   ORDER BY start, "group"`;
}
