import type { Database } from '../../db/client.ts';
import type { TlsReportState } from '../../generated/prisma/enums.ts';
import type { ReportedFailure, ReportedPolicy } from '../../mail/compose/tls-report.ts';
import { dayOf } from '../../smtp/connections/sending-pools.ts';
import { firstKeptDay } from './tls-results.ts';

/** One step for a report: sending it to one place or, with an empty `uri`, looking up where to send it. */
export interface Task {
  /** UTC, as `2026-11-21`. */
  day: string;
  domain: string;
  uri: string;
}

/** A task that belongs to this node for now. */
export interface Claim extends Task {
  /** Including this one; tells a claim from later ones of the same task. */
  tries: number;
  firstTryAt: Date;
  until: Date;
}

/** The result of a task. */
export interface Outcome {
  claim: Claim;
  state: TlsReportState;
  /** For a task that waits. */
  nextTryAt: Date | null;
  error: string | null;
  /** The places that the report goes to, if they were looked up. */
  uris: string[];
}

/** How long a day waits for the results that other nodes have still to record. */
const settledMs = 5 * 60_000;
/** Longer than any attempt takes. */
const claimedMs = 10 * 60_000;

/** The most that a report holds: a server that changes names and policies all day is not told each of them. */
const mostPolicies = 20;
const mostFailures = 200;

/** The last day (UTC) that can be reported. */
export const lastSettledDay = (now: Date): string => dayOf(new Date(now.getTime() - settledMs - 86_400_000));

/**
 * Creates the first task of each report that is due: for all kept days that are over.
 *
 * @param spreadMs the tasks become due at random moments within this time
 */
export async function plan(db: Database, spreadMs: number, now: Date): Promise<void> {
  await db.query({
    text: `INSERT INTO tls_reports (day, domain, uri, next_try_at)
           SELECT day, domain, '', $3::timestamptz + random() * make_interval(secs => $4)
             FROM (SELECT DISTINCT day, domain FROM tls_results WHERE day BETWEEN $1::date AND $2::date) r
            ORDER BY day, domain
           ON CONFLICT DO NOTHING`,
    values: [firstKeptDay(now), lastSettledDay(now), now, spreadMs / 1_000],
  });
}

/** Takes due tasks of one kind, the longest waiting first. No other node gets them until their claims end. */
export async function claim(db: Database, kind: 'look-up' | 'sending', limit: number, now: Date): Promise<Claim[]> {
  const until = new Date(now.getTime() + claimedMs);
  const rows = await db.query<Omit<Claim, 'until'>>({
    text: `WITH due AS MATERIALIZED (
             SELECT day, domain, uri FROM tls_reports
              WHERE state = 'waiting' AND next_try_at <= $1 AND (uri = '') = $2
              ORDER BY next_try_at LIMIT $3 FOR UPDATE SKIP LOCKED)
           UPDATE tls_reports r
              SET tries = r.tries + 1, first_try_at = coalesce(r.first_try_at, $1), next_try_at = $4
             FROM due WHERE r.day = due.day AND r.domain = due.domain AND r.uri = due.uri
           RETURNING r.day::text, r.domain, r.uri, r.tries, r.first_try_at AS "firstTryAt"`,
    values: [now, kind === 'look-up', limit, until],
  });
  return rows.map((row) => ({ ...row, until }));
}

/** Records the outcomes of tasks, and creates the tasks that follow from look-ups. Ignores claims that this node has lost. */
export async function settle(db: Database, outcomes: Outcome[], now: Date): Promise<void> {
  await db.query({
    text: `WITH settled AS (
             UPDATE tls_reports r
                SET state = o.state::tls_report_state, next_try_at = o.next_try_at, last_error = o.error
               FROM json_to_recordset($1::json) AS o (day date, domain text, uri text, tries integer, state text,
                    next_try_at timestamptz, error text, uris json)
              WHERE r.day = o.day AND r.domain = o.domain AND r.uri = o.uri AND r.tries = o.tries AND r.state = 'waiting'
             RETURNING r.day, r.domain, o.uris)
           INSERT INTO tls_reports (day, domain, uri, next_try_at)
           SELECT day, domain, found.uri, $2 FROM settled, json_array_elements_text(uris) AS found (uri)
           ON CONFLICT DO NOTHING`,
    values: [
      JSON.stringify(
        outcomes.map(({ claim: { day, domain, uri, tries }, state, nextTryAt, error, uris }) => ({
          day,
          domain,
          uri,
          tries,
          state,
          next_try_at: nextTryAt,
          error,
          uris,
        })),
      ),
      now,
    ],
  });
}

interface PolicyRow {
  day: string;
  domain: string;
  type: string;
  lines: string[];
  mx: string[];
  successful: number;
  failed: number;
  failures: ReportedFailure[] | null;
}

/** The contents of these reports, with one statement. Policies and failures with the most sessions come first. */
export async function load(
  db: Database,
  tasks: Pick<Task, 'day' | 'domain'>[],
): Promise<(task: Pick<Task, 'day' | 'domain'>) => ReportedPolicy[]> {
  const rows = await db.query<PolicyRow>({
    text: `SELECT w.day::text, w.domain, p.*
             FROM (SELECT DISTINCT * FROM unnest($1::date[], $2::text[]) AS t (day, domain)) w
            CROSS JOIN LATERAL (
              SELECT policy_type AS type, policy AS lines, mx,
                     coalesce(sum(sessions) FILTER (WHERE result = 'success'), 0)::int AS successful,
                     coalesce(sum(sessions) FILTER (WHERE result <> 'success'), 0)::int AS failed,
                     to_json((array_agg(json_build_object('result', result, 'host', host, 'address', address,
                                        'localAddress', local_address, 'reason', reason, 'sessions', sessions)
                                        ORDER BY sessions DESC, kind) FILTER (WHERE result <> 'success'))[1:$4]) AS failures
                FROM tls_results r WHERE r.day = w.day AND r.domain = w.domain
               GROUP BY policy_type, policy, mx
               ORDER BY sum(sessions) DESC, policy_type, policy, mx LIMIT $3) p`,
    values: [tasks.map(({ day }) => day), tasks.map(({ domain }) => domain), mostPolicies, mostFailures],
  });
  const found = Map.groupBy(rows, keyOf);
  return (task) =>
    (found.get(keyOf(task)) ?? []).map(({ day, domain, failures, ...policy }) => ({
      ...policy,
      failures: failures ?? [],
    }));
}

const keyOf = ({ day, domain }: Pick<Task, 'day' | 'domain'>) => `${day} ${domain}`;
