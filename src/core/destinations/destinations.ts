import type { Database } from '../../db/client.ts';
import { notFound } from '../../errors.ts';
import { normalizeDomain, partAsStored } from '../../mail/address/address.ts';
import { isDueOrTried, isUnsettled, queryAllWaiting } from '../recipients/waiting.ts';
import { pausedUntil, unansweredNote } from '../recipients/waiting-for.ts';
import { lastDeliveredAt } from './last-deliveries.ts';

/** A site as one node sees it. */
export interface Report {
  site: string;
  /** Some of the domains whose mail it takes. */
  destinations: string[];
  running: number;
  waiting: number;
  /** Connections that the node may have now. */
  connections: number;
  /** The most that it may have when nothing slows it down. */
  mostConnections: number;
  perMinute: number | null;
  backoffUntil: Date | null;
  reason: string | null;
  lastReply: string | null;
  lastSuccessAt: Date | null;
}

/**
 * The state of mail to a site; if several apply, the first of them. A new site, which has few connections without a `reason`,
 * is open.
 */
export const states = ['paused', 'backing_off', 'slowed', 'open'] as const;

export type State = (typeof states)[number];

/** A site as all nodes together see it, and what waits for it. */
export interface Standing extends Omit<Report, 'waiting'> {
  state: State;
  /** Recipients that are due or in the hands of a node. */
  queued: number;
  /** Recipients that wait for another attempt, or for the site. */
  deferred: number;
  nextAttemptAt: Date | null;
  /** What most recipients wait for, except after a failed attempt: a limit, a back-off, a pause or a warm-up. */
  waitingFor: string | null;
  pausedAt: Date | null;
  /** When mail last arrived there, on any node, to within a minute; null: not within 30 days. */
  lastDeliveredAt: Date | null;
}

/** SQL: what is looked up for the sites that are returned only, as there may be tens of thousands. */
const columnsOf = (one: string) => `${one}.*, ${lastDeliveredAt(`${one}.site`)} AS "lastDeliveredAt"`;

/**
 * Stores what this node reports, in place of its earlier reports on the same sites.
 *
 * @param gone sites that it has nothing to report on any more
 */
export async function report(db: Database, nodeId: string, reports: Report[], gone: string[] = []): Promise<void> {
  if (reports.length === 0 && gone.length === 0) return;
  const column = <T>(read: (report: Report) => T) => reports.map(read);
  await db.query({
    name: 'destination-reports',
    text: `WITH said AS (
             INSERT INTO destination_reports (node_id, site, destinations, running, waiting, connections, most_connections, per_minute,
                                              backoff_until, reason, last_reply, last_success_at)
             SELECT n.id, s.site, ARRAY(SELECT json_array_elements_text(s.destinations::json)), s.running, s.waiting, s.connections, s.most_connections,
                    s.per_minute, s.backoff_until, s.reason, s.last_reply, s.last_success_at
               FROM nodes n, unnest($2::text[], $3::text[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[], $9::timestamptz[], $10::text[],
                           $11::text[], $12::timestamptz[])
                    AS s (site, destinations, running, waiting, connections, most_connections, per_minute, backoff_until, reason, last_reply, last_success_at)
              WHERE n.id = $1
             ON CONFLICT (node_id, site) DO UPDATE
                SET destinations = excluded.destinations, running = excluded.running, waiting = excluded.waiting, connections = excluded.connections,
                    most_connections = excluded.most_connections, per_minute = excluded.per_minute, backoff_until = excluded.backoff_until,
                    reason = excluded.reason, last_reply = excluded.last_reply, last_success_at = excluded.last_success_at, reported_at = now())
           DELETE FROM destination_reports WHERE node_id = $1 AND site = ANY ($13)`,
    values: [
      nodeId,
      column(({ site }) => site),
      column(({ destinations }) => JSON.stringify(destinations)),
      column(({ running }) => running),
      column(({ waiting }) => waiting),
      column(({ connections }) => connections),
      column(({ mostConnections }) => mostConnections),
      column(({ perMinute }) => perMinute),
      column(({ backoffUntil }) => backoffUntil),
      column(({ reason }) => reason),
      column(({ lastReply }) => lastReply && withoutAddresses(lastReply)),
      column(({ lastSuccessAt }) => lastSuccessAt),
      gone,
    ],
  });
}

/** All accounts share a site, but a recipient belongs to one of them, and may be erased. */
const withoutAddresses = (reply: string) => reply.replace(/[^\s<>@]{1,64}@[^\s<>@]{1,255}/g, '…');

/** A filter of sites; a field that is not given matches all. */
export interface SiteFilter {
  /** Part of the name of the site, or of a domain whose mail it takes; case-insensitive. */
  part?: string | undefined;
  state?: State | undefined;
  /** Only sites that refuse our mail. */
  refusing?: boolean | undefined;
}

/**
 * SQL: whether a site of `every_site` refuses our mail: it judges some and has accepted none for a while, and what it said last
 * is about the sender, not about one recipient. Nothing waits for such a site, as each email fails at once.
 */
const refusesUs = `"lastReply" ~ '^5\\d\\d 5\\.7\\.' AND "lastSuccessAt" - ${lastDeliveredAt('site')} > interval '15 minutes'`;

/**
 * Every site that mail waits for, that was sent to within the hour, or that is paused; those with most waiting first, or of those
 * that refuse our mail the ones with most connections. If there is none that matches, the one that `part` names in full if mail
 * arrived there within 30 days.
 *
 * @returns one page of them, and how many there are in all
 */
export async function list(
  db: Database,
  { limit, offset = 0, part, state, refusing = false }: SiteFilter & { limit: number; offset?: number },
): Promise<{ destinations: Standing[]; count: number }> {
  const filter = {
    text: `($2::text IS NULL OR strpos(lower(site), $2) > 0 OR EXISTS (SELECT FROM unnest(site || destinations) d WHERE strpos(lower(d), $4) > 0))
       AND ($3::text IS NULL OR state = $3) ${refusing ? `AND ${refusesUs}` : ''}`,
    values: [part?.toLowerCase() ?? null, state ?? null, part === undefined ? null : partAsStored(part)],
  };
  // Nothing waits for those that refuse. A small one often refuses a single email; one that gets much has more connections.
  const order = refusing ? 'connections DESC, site' : 'queued + deferred DESC, site';
  // If the page is beyond the last one, there is one row that has only the count.
  const rows = await querySites<(Standing | { site: null }) & { count: number }>(db, filter, {
    text: `SELECT ${columnsOf('one')}, total.count FROM (SELECT count(*)::int FROM found) total
             LEFT JOIN (SELECT * FROM found ORDER BY ${order} LIMIT $5 OFFSET $6) one ON true
            ORDER BY ${order}`,
    values: [limit, offset],
  });
  const count = rows[0]?.count ?? 0;
  if (count > 0 || part === undefined || (state ?? 'open') !== 'open' || refusing)
    return { destinations: rows.filter((row) => row.site !== null), count };
  const idle = await findIdle(db, part);
  return idle.lastDeliveredAt === null
    ? { destinations: [], count: 0 }
    : { destinations: [idle].slice(offset, offset + limit), count: 1 };
}

/**
 * Finds a site by its own name or by a domain whose mail it takes. A domain without recent mail is a site that is open.
 *
 * @throws ApiError 404 if nothing can have this name
 */
export async function find(db: Database, name: string): Promise<Standing> {
  const asked = nameOf(name);
  const [found] = await querySites<Standing>(
    db,
    { text: 'site = $2 OR $2 = ANY (destinations)', values: [asked] },
    {
      text: `SELECT ${columnsOf('found')} FROM found ORDER BY site = $2 DESC, queued + deferred DESC, site LIMIT 1`,
      values: [],
    },
  );
  return found ?? findIdle(db, asked);
}

/** The standing of a site or domain that has no recent mail and that nothing waits for. */
async function findIdle(db: Database, name: string): Promise<Standing> {
  const site = domainOf(name) ?? name;
  const [known] = await db.query<Pick<Standing, 'lastDeliveredAt'>>({
    text: `SELECT ${lastDeliveredAt('$1')} AS "lastDeliveredAt"`,
    values: [site],
  });
  return { ...quiet, lastDeliveredAt: known?.lastDeliveredAt ?? null, site, destinations: [site] };
}

/** The figures of such a site. */
const quiet: Omit<Standing, 'site' | 'destinations' | 'lastDeliveredAt'> = {
  state: 'open',
  running: 0,
  connections: 0,
  mostConnections: 0,
  queued: 0,
  deferred: 0,
  perMinute: null,
  backoffUntil: null,
  reason: null,
  lastReply: null,
  lastSuccessAt: null,
  nextAttemptAt: null,
  waitingFor: null,
  pausedAt: null,
};

/**
 * The domains that a name stands for: those of the site of this name, or of the site that takes its mail, as nodes report
 * it; otherwise the name itself. The cost does not depend on how much mail waits.
 *
 * @throws ApiError 404 if the name is neither a domain nor the name of a site
 */
export async function domainsOf(db: Database, name: string): Promise<string[]> {
  const asked = nameOf(name);
  const rows = await db.query<{ domain: string }>({
    text: `WITH one AS (SELECT site FROM destination_reports WHERE site = $1 OR $1 = ANY (destinations) ORDER BY site = $1 DESC, site LIMIT 1)
           SELECT coalesce(d, site) AS domain FROM destination_reports JOIN one USING (site) LEFT JOIN LATERAL unnest(destinations) d ON true
            UNION SELECT name FROM destination_orders WHERE name = $1 AND paused_at IS NOT NULL AND NOT EXISTS (SELECT FROM one)`,
    values: [asked],
  });
  if (rows.length > 0) return rows.map(({ domain }) => domain);
  if (domainOf(name) === null) throw notFound();
  return [asked];
}

/**
 * Whether any mail is known that goes to this domain or site: a node reports it, or a recipient there waits, scheduled ones
 * too. Nodes report the last hour; older mail is in the log, which has no index for this.
 */
export async function hasMail(db: Database, name: string): Promise<boolean> {
  const rows = await queryAllWaiting<{ known: boolean }>(db, {
    text: `SELECT EXISTS (SELECT FROM destination_reports WHERE site = $1 OR $1 = ANY (destinations))
               OR EXISTS (SELECT FROM recipients r WHERE ${isUnsettled} AND r.destination = $1) AS known`,
    values: [nameOf(name)],
  });
  return rows[0]?.known === true;
}

/** The name in the form that it is stored in. @throws ApiError 404 if nothing can have this name */
function nameOf(name: string): string {
  const asked = domainOf(name) ?? name;
  if (/[\0\p{Surrogate}]/u.test(asked)) throw notFound();
  return asked;
}

/** The name as a destination's domain; null if it cannot be one. */
export function domainOf(name: string): string | null {
  try {
    const domain = normalizeDomain(name);
    return domain.includes('.') ? domain : null;
  } catch {
    return null;
  }
}

/**
 * SQL: `reported`, the sites that nodes report, each once, with the figures of all nodes put together. A destination that is paused
 * by its own name is not listed with the others of its site, as it stands differently.
 */
const reported = `paused AS (SELECT name, paused_at FROM destination_orders WHERE paused_at IS NOT NULL),
reported AS (
  SELECT site, array_agg(DISTINCT d) FILTER (WHERE d IS NOT NULL) AS destinations, running, connections, most_connections, per_minute, backoff_until,
         reason, last_reply, last_success_at
    FROM (SELECT site, sum(running)::int AS running, sum(connections)::int AS connections, sum(most_connections)::int AS most_connections,
                 max(per_minute) AS per_minute, max(backoff_until) AS backoff_until, max(reason) AS reason,
                 (array_agg(last_reply ORDER BY reported_at DESC) FILTER (WHERE last_reply IS NOT NULL))[1] AS last_reply,
                 max(last_success_at) AS last_success_at
            FROM destination_reports GROUP BY site) sums
    LEFT JOIN LATERAL (SELECT unnest(r.destinations) AS d FROM destination_reports r WHERE r.site = sums.site) each_one
           ON d = site OR d NOT IN (SELECT name FROM paused)
   GROUP BY site, running, connections, most_connections, per_minute, backoff_until, reason, last_reply, last_success_at)`;

/**
 * SQL: `sites`, the site of each destination. A destination that one node treats as a site of its own counts as such, although
 * others still report it with its provider.
 */
const sites = `sites AS (SELECT DISTINCT ON (d) d AS destination, site FROM reported, unnest(destinations) d ORDER BY d, site <> d, site)`;

/**
 * SQL: `groups`, how many recipients of each destination wait, by what they wait for. Grouping them first leaves few rows to
 * sort: sorting all recipients would take longer than a statement may. `$1` is the `next_attempt_at` of paused recipients,
 * which is no time of an attempt.
 */
const groups = `groups AS MATERIALIZED (
  SELECT r.destination, r.waiting_for, count(*) FILTER (WHERE r.next_attempt_at <= now()) AS queued,
         count(*) FILTER (WHERE r.next_attempt_at > now()) AS deferred,
         min(r.next_attempt_at) FILTER (WHERE r.next_attempt_at > now() AND r.next_attempt_at < $1) AS next_attempt_at
    FROM recipients r
   WHERE ${isUnsettled} AND ${isDueOrTried}
   GROUP BY 1, 2)`;

/** SQL: `waiting`, how many recipients wait for each site, and `reasons`, what most of them wait for. */
const waiting = `by_site AS (SELECT coalesce(s.site, g.destination) AS site, g.* FROM groups g LEFT JOIN sites s USING (destination)),
reasons AS (
  SELECT DISTINCT ON (site) site, waiting_for FROM by_site WHERE waiting_for <> '${unansweredNote}'
   GROUP BY site, waiting_for ORDER BY site, sum(queued + deferred) DESC, waiting_for),
waiting AS (
  SELECT site, sum(queued)::int AS queued, sum(deferred)::int AS deferred, min(next_attempt_at) AS next_attempt_at,
         (array_agg(DISTINCT destination))[1:50] AS destinations
    FROM by_site GROUP BY site)`;

/** SQL: `every_site`, all sites that are reported, that mail waits for, or that are paused, with the columns of a `Standing`. */
const everySite = `every_site AS (
  SELECT site, coalesce(reported.destinations, waiting.destinations, ARRAY[site]) AS destinations, coalesce(reported.running, 0) AS running,
         coalesce(reported.connections, 0) AS connections, coalesce(reported.most_connections, 0) AS "mostConnections",
         reported.per_minute AS "perMinute", CASE WHEN reported.backoff_until > now() THEN reported.backoff_until END AS "backoffUntil",
         reported.reason, reported.last_reply AS "lastReply", reported.last_success_at AS "lastSuccessAt",
         coalesce(waiting.queued, 0) AS queued, coalesce(waiting.deferred, 0) AS deferred, waiting.next_attempt_at AS "nextAttemptAt",
         reasons.waiting_for AS "waitingFor", o.paused_at AS "pausedAt",
         CASE WHEN o.paused_at IS NOT NULL THEN 'paused' WHEN reported.backoff_until > now() THEN 'backing_off'
              WHEN reported.reason IS NOT NULL AND reported.connections < reported.most_connections THEN 'slowed' ELSE 'open' END AS state
    FROM reported FULL JOIN waiting USING (site)
    FULL JOIN (SELECT name AS site, paused_at FROM paused) o USING (site)
    LEFT JOIN reasons USING (site))`;

/**
 * Queries the standing of sites.
 *
 * @param filter SQL: which sites are `found`, by the columns of a `Standing`; its values start at `$2`
 * @param query SQL: what to return of `found`; its values follow those of the filter
 */
async function querySites<Row>(
  db: Database,
  filter: { text: string; values: unknown[] },
  query: { text: string; values: unknown[] },
): Promise<Row[]> {
  const found = `found AS (SELECT * FROM every_site WHERE ${filter.text})`;
  return queryAllWaiting<Row>(db, {
    text: `WITH ${[reported, sites, groups, waiting, everySite, found].join(',\n')} ${query.text}`,
    values: [pausedUntil, ...filter.values, ...query.values],
  });
}
