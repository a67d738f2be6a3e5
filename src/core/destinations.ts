import type { Database } from '../db/client.ts';
import { notFound } from '../errors.ts';
import { normalizeDomain } from '../mail/address.ts';

/** What operators said about a destination or a site. */
export interface Order {
  name: string;
  pausedAt: Date | null;
  flushedAt: Date | null;
}

/** How one node stands with one site. */
export interface Report {
  site: string;
  /** Some of the domains whose mail it takes. */
  destinations: string[];
  running: number;
  waiting: number;
  /** Connections that the node may have now, and at the most. */
  connections: number;
  mostConnections: number;
  perMinute: number | null;
  backoffUntil: Date | null;
  reason: string | null;
  lastReply: string | null;
  lastSuccessAt: Date | null;
}

/** A site as all nodes together see it, and what waits for it. */
export interface Standing extends Omit<Report, 'waiting'> {
  /** Recipients that are due or in the hands of a node. */
  queued: number;
  /** Recipients that wait for another attempt, or for the site. */
  deferred: number;
  nextAttemptAt: Date | null;
  /** What most of those wait for that have not failed an attempt just now: a limit, a back-off, a pause or a warm-up. */
  waitingFor: string | null;
  pausedAt: Date | null;
}

/** What waits until somebody says otherwise, as while a destination is paused, waits until then. */
export const pausedUntil = new Date('9999-01-01T00:00:00Z');

/** What `recipients.waiting_for` says while this name is paused: resuming finds them by it. */
export const waitingForPause = (name: string) => `paused: ${name}`;

export async function orders(db: Database): Promise<Order[]> {
  return db.query<Order>({
    name: 'destination-orders',
    text: `SELECT name, paused_at AS "pausedAt", flushed_at AS "flushedAt" FROM destination_orders`,
  });
}

/** Replaces what this node said before. */
export async function report(db: Database, nodeId: string, reports: Report[]): Promise<void> {
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
           DELETE FROM destination_reports WHERE node_id = $1 AND site <> ALL ($2)`,
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
    ],
  });
}

/** A site is everybody's, a recipient is some account's, and may be erased. */
const withoutAddresses = (reply: string) => reply.replace(/[^\s<>@]{1,64}@[^\s<>@]{1,255}/g, '…');

/** Every site that mail waits for, was sent to within the hour, or that is paused; those with most waiting first. */
export async function list(db: Database, page: { limit: number; offset?: number }): Promise<Standing[]> {
  return stand(db, page, null);
}

/**
 * One, by its own name or by that of a domain whose mail it takes; a domain that nothing was sent to yet has nothing to tell.
 *
 * @throws ApiError 404 when the name is neither a domain nor that of a site
 */
export async function find(db: Database, name: string): Promise<Standing> {
  const asked = domainOf(name) ?? name;
  const [found] = /[\0\p{Surrogate}]/u.test(asked) ? [] : await stand(db, { limit: 1 }, asked);
  if (found) return found;
  if (domainOf(name) === null) throw notFound();
  const nothing = { running: 0, connections: 0, mostConnections: 0, queued: 0, deferred: 0 };
  const unknown = { perMinute: null, backoffUntil: null, reason: null, lastReply: null, lastSuccessAt: null };
  return {
    site: asked,
    destinations: [asked],
    ...nothing,
    ...unknown,
    nextAttemptAt: null,
    waitingFor: null,
    pausedAt: null,
  };
}

/** The name as a destination's domain; null when it cannot be one. */
export function domainOf(name: string): string | null {
  try {
    const domain = normalizeDomain(name);
    return domain.includes('.') ? domain : null;
  } catch {
    return null;
  }
}

async function stand(
  db: Database,
  { limit, offset = 0 }: { limit: number; offset?: number },
  name: string | null,
): Promise<Standing[]> {
  return db.query<Standing>({
    text: `WITH reported AS (
             SELECT site, array_agg(DISTINCT d) FILTER (WHERE d IS NOT NULL) AS destinations, running, connections, most_connections, per_minute, backoff_until,
                    reason, last_reply, last_success_at
               FROM (SELECT site, sum(running)::int AS running, sum(connections)::int AS connections, sum(most_connections)::int AS most_connections,
                            max(per_minute) AS per_minute, max(backoff_until) AS backoff_until, max(reason) AS reason,
                            (array_agg(last_reply ORDER BY reported_at DESC) FILTER (WHERE last_reply IS NOT NULL))[1] AS last_reply,
                            max(last_success_at) AS last_success_at
                       FROM destination_reports GROUP BY site) sums
               LEFT JOIN LATERAL (SELECT unnest(r.destinations) AS d FROM destination_reports r WHERE r.site = sums.site) each_one ON true
              GROUP BY site, running, connections, most_connections, per_minute, backoff_until, reason, last_reply, last_success_at),
           sites AS (SELECT DISTINCT ON (d) d AS destination, site FROM reported, unnest(destinations) d ORDER BY d, site),
           waiting AS (
             SELECT coalesce(s.site, r.destination) AS site, count(*) FILTER (WHERE r.next_attempt_at <= now())::int AS queued,
                    count(*) FILTER (WHERE r.next_attempt_at > now())::int AS deferred,
                    min(r.next_attempt_at) FILTER (WHERE r.next_attempt_at > now() AND r.next_attempt_at < $2) AS next_attempt_at,
                    mode() WITHIN GROUP (ORDER BY r.waiting_for) AS waiting_for, (array_agg(DISTINCT r.destination))[1:50] AS destinations
               FROM recipients r LEFT JOIN sites s ON s.destination = r.destination
              WHERE r.next_attempt_at IS NOT NULL AND (r.job_id IS NOT NULL OR r.next_attempt_at <= now() OR r.attempts > 0 OR r.waiting_for IS NOT NULL)
              GROUP BY 1)
           SELECT site, coalesce(reported.destinations, waiting.destinations, ARRAY[site]) AS destinations, coalesce(reported.running, 0) AS running,
                  coalesce(reported.connections, 0) AS connections, coalesce(reported.most_connections, 0) AS "mostConnections",
                  reported.per_minute AS "perMinute", CASE WHEN reported.backoff_until > now() THEN reported.backoff_until END AS "backoffUntil",
                  reported.reason, reported.last_reply AS "lastReply", reported.last_success_at AS "lastSuccessAt",
                  coalesce(waiting.queued, 0) AS queued, coalesce(waiting.deferred, 0) AS deferred, waiting.next_attempt_at AS "nextAttemptAt",
                  waiting.waiting_for AS "waitingFor",
                  o.paused_at AS "pausedAt"
             FROM reported FULL JOIN waiting USING (site) FULL JOIN (SELECT name AS site, paused_at FROM destination_orders WHERE paused_at IS NOT NULL) o USING (site)
            WHERE $3::text IS NULL OR site = $3 OR $3 = ANY (coalesce(reported.destinations, waiting.destinations))
            ORDER BY site = $3 DESC, coalesce(waiting.queued, 0) + coalesce(waiting.deferred, 0) DESC, site LIMIT $1 OFFSET $4`,
    values: [limit, pausedUntil, name, offset],
  });
}

/** Nothing more is tried at this domain or site until it is resumed; what is under way ends by itself. */
export async function pause(db: Database, name: string): Promise<void> {
  await db.query({
    text: `INSERT INTO destination_orders (name, paused_at) VALUES ($1, now())
           ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(destination_orders.paused_at, now())`,
    values: [name],
  });
}

/** SQL: now; while the service is on hold since it began, as what an order makes due then was there before and is decided with the rest. */
const dueNow = 'coalesce((SELECT least(since, now()) FROM service_hold), now())';

/** Lets what waits for this name go on at once, in the order that it became due. */
export async function resume(db: Database, name: string): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query({ text: 'UPDATE destination_orders SET paused_at = NULL WHERE name = $1', values: [name] });
    await tx.query({
      text: `UPDATE recipients SET next_attempt_at = ${dueNow}, waiting_for = NULL
              WHERE job_id IS NULL AND next_attempt_at = $2 AND waiting_for = $1`,
      values: [waitingForPause(name), pausedUntil],
    });
  });
}

/**
 * Tries everything that waits for this domain or site now, whatever was seen of it; what is scheduled for later, or paused,
 * is left.
 *
 * @param destinations the domains that the name stands for
 * @returns how many recipients are due now that were not
 */
export async function flush(db: Database, name: string, destinations: string[]): Promise<number> {
  return db.transaction(async (tx) => {
    await tx.query({
      text: `INSERT INTO destination_orders (name, flushed_at) VALUES ($1, clock_timestamp())
             ON CONFLICT (name) DO UPDATE SET flushed_at = excluded.flushed_at`,
      values: [name],
    });
    const [row] = await tx.query<{ flushed: number }>({
      text: `WITH flushed AS (
               UPDATE recipients SET next_attempt_at = ${dueNow}, waiting_for = NULL
                WHERE destination = ANY ($1) AND job_id IS NULL AND next_attempt_at > now() AND next_attempt_at < $2
                  AND (attempts > 0 OR waiting_for IS NOT NULL) RETURNING 1)
             SELECT count(*)::int AS flushed FROM flushed`,
      values: [destinations, pausedUntil],
    });
    return row?.flushed ?? 0;
  });
}

/** Makes due what nodes have put aside for these domains: after a flush, for what was put aside before they heard of it. */
export async function wakeHeld(db: Database, destinations: string[]): Promise<void> {
  await db.query({
    text: `UPDATE recipients SET next_attempt_at = ${dueNow}, waiting_for = NULL
            WHERE destination = ANY ($1) AND job_id IS NULL AND waiting_for IS NOT NULL AND next_attempt_at > now() AND next_attempt_at < $2`,
    values: [destinations, pausedUntil],
  });
}

export const orderNames = ['pause', 'resume', 'flush'] as const;
export type OrderName = (typeof orderNames)[number];

/**
 * Does what an operator says about a destination.
 *
 * @returns how it stands now; `flushed`: how many recipients are due that were not, null for the other orders
 * @throws ApiError 404 when the name is neither a domain nor that of a site
 */
export async function give(
  db: Database,
  given: string,
  order: OrderName,
): Promise<{ standing: Standing; flushed: number | null }> {
  const known = await find(db, given);
  const name = domainOf(given) ?? given;
  const flushed = order === 'flush' ? await flush(db, name, known.destinations) : null;
  if (order === 'pause') await pause(db, name);
  if (order === 'resume') await resume(db, name);
  return { standing: await find(db, name), flushed };
}
