import type { Database, Sql } from '../../db/client.ts';
import { rowOf, unseen } from '../../db/prepared.ts';
import { isSame, letGo, type WebhookJob } from '../../queue.ts';
import { answerNotedEvery, callsAtOnce, endingOf, isAnswering, isFailing } from './webhook-lines.ts';

/** A delivery that this node now holds. */
export interface Claim {
  nodeId: string;
  jobId: string;
  deliveryId: string;
  webhookId: string;
  accountId: string;
  /** The endpoint has only failed for a while. */
  failing: boolean;
}

/** All that is needed to make one call. */
export interface Call {
  event: string;
  payload: string;
  /** Attempts before this one, since the delivery was created or last asked for again. */
  attemptCount: number;
  url: string;
  /** How often the owner had enabled the endpoint again when the call was loaded. */
  timesEnabled: number;
  sealedSecret: Buffer;
  /** The secret before a rotation, while it signs too. */
  sealedPreviousSecret: Buffer | null;
}

/** One attempt as the log keeps it. Text from the endpoint is cleaned and cut before it comes here. */
export interface CallAttempt {
  at: Date;
  responseStatus: number | null;
  responseBody: string | null;
  error: string | null;
  durationMs: number;
}

/** A call that was made and counts. */
export interface MadeCall {
  attempt: CallAttempt;
  /** Attempts so far, as in `Call`, and this one. */
  attemptCount: number;
  /** What it says about the endpoint: nothing, that it works, that it fails, or that it wants no more calls. */
  endpoint: 'unknown' | 'works' | 'fails' | 'gone';
  /** The URL that was called. The verdict is about it alone, as the endpoint may have a new one. */
  url: string;
  /** As in `Call`: an outcome from before the owner enabled the endpoint again says nothing about it either. */
  timesEnabled: number;
}

/** What became of a claimed delivery: it is tried again, or it is over, perhaps with an error that says why. */
export type CallOutcome = {
  claim: Claim;
  /** Null when none was made, or it does not count. */
  made: MadeCall | null;
} & (
  | { status: 'pending'; nextAttemptAt: Date; error: null }
  | { status: 'succeeded' | 'failed'; nextAttemptAt: null; error: string | null }
);

/** How many attempts of one delivery the log keeps. */
const attemptsKept = 20;

/**
 * An endpoint that has only failed for this many days is disabled when a delivery older than `notNewFor` is given up: after a
 * time without calls, as on hold, its first failure proves nothing.
 */
const disableAfterDays = 5;
const notNewFor = '24 hours';

/**
 * Or if calls were made all that time, none of them this long after the one before: with more events than calls, deliveries
 * get their attempts so late that for weeks none is given up.
 */
const steadyPause = '1 hour';

/** SQL: whether the last failure of this endpoint is so short a time ago that the next one continues it. */
const isSteady = (w: string) =>
  `(${w}.failing_since IS NOT NULL AND ${w}.failed_at > now() - interval '${steadyPause}')`;

/** SQL: whether this moment is longer ago than an endpoint may fail. */
const isTooLongAgo = (moment: string) => `${moment} < now() - interval '${disableAfterDays} days'`;

/** Longer than any call takes. If a call began earlier, this machine was suspended meanwhile, or its clock jumped ahead. */
const longestCall = '1 minute';

/** The endpoints of these accounts. */
export async function endpointsOf(tx: Sql, accountIds: string[]): Promise<string[]> {
  if (accountIds.length === 0) return [];
  const rows = await tx.query<{ id: string }>({
    text: `SELECT id FROM webhooks WHERE account_id = ANY(${unseen('$1::uuid[]')}::uuid[])`,
    values: [accountIds],
  });
  return rows.map(({ id }) => id);
}

/**
 * Claims for this node the deliveries that these jobs woke, in order. Ends those whose endpoint is deleted or disabled. If
 * an endpoint fails, deliveries beyond its limit become due again.
 */
export async function claim(tx: Sql, nodeId: string, jobs: WebhookJob[]): Promise<Claim[]> {
  const rows = await tx.query<Omit<Claim, 'nodeId' | 'jobId'> & { jobId: string | null }>({
    name: 'webhook-deliveries-claim',
    text: `WITH woken AS (
             SELECT d.id, d.job_id, ${endingOf('w')} AS ending, ${isFailing('w')} AS failing,
                    row_number() OVER (PARTITION BY d.webhook_id ORDER BY job.place) AS place
               FROM unnest(${unseen('$2::uuid[]')}, ${unseen('$3::uuid[]')}) WITH ORDINALITY AS job (delivery_id, id, place)
               JOIN webhook_deliveries d ON d.id = job.delivery_id AND d.job_id ${isSame} job.id
                AND d.next_attempt_at IS NOT NULL AND d.claimed_by IS NULL
               LEFT JOIN webhooks w ON w.id = d.webhook_id),
           decided AS (
             SELECT *, ending IS NULL AND (place <= $4 OR NOT failing) AS claimed FROM woken)
           UPDATE webhook_deliveries d
              SET job_id = CASE WHEN c.claimed THEN d.job_id END,
                  claimed_by = CASE WHEN c.claimed THEN $1::uuid END,
                  claimed_at = CASE WHEN c.claimed THEN now() END,
                  status = CASE WHEN c.ending IS NULL THEN d.status ELSE 'failed' END,
                  next_attempt_at = CASE WHEN c.ending IS NULL THEN d.next_attempt_at END,
                  error = c.ending
             FROM decided c
            WHERE d.id = c.id AND d.job_id ${isSame} c.job_id AND d.claimed_by IS NULL
        RETURNING d.id AS "deliveryId", d.webhook_id AS "webhookId", d.account_id AS "accountId", d.job_id AS "jobId", c.failing`,
    values: [nodeId, jobs.map((job) => job.deliveryId), jobs.map((job) => job.id), callsAtOnce],
  });
  const claims = new Map<string, Claim>();
  for (const { jobId, ...rest } of rows) if (jobId) claims.set(jobId, { nodeId, jobId, ...rest });
  return jobs.flatMap((job) => claims.get(job.id) ?? []);
}

/** Loads calls by delivery id, with the endpoint's current URL and secrets. Leaves out those without an enabled endpoint. */
export async function load(db: Database, deliveryIds: string[]): Promise<Map<string, Call>> {
  const rows = await db.query<Call & { id: string }>({
    name: 'webhook-deliveries-load',
    text: `SELECT d.id, d.event, d.payload, d.attempt_count AS "attemptCount", w.url, w.times_enabled AS "timesEnabled", w.secret AS "sealedSecret",
                  CASE WHEN w.previous_secret_until > now() THEN w.previous_secret END AS "sealedPreviousSecret"
             FROM unnest(${unseen('$1::uuid[]')}) AS wanted (id)
            CROSS JOIN LATERAL ${rowOf('webhook_deliveries', 'id = wanted.id')} d
            CROSS JOIN LATERAL ${rowOf('webhooks', "id = d.webhook_id AND status = 'enabled'")} w`,
    values: [deliveryIds],
  });
  return new Map(rows.map(({ id, ...call }) => [id, call]));
}

/**
 * Records the outcomes of deliveries and what they say about the endpoints. A delivery that another node has taken over
 * since is left to that node, except that a success counts whichever node reports it; not one from before the delivery was
 * over and its owner asked for it again, perhaps because what had arrived was lost.
 *
 * @returns what is new about the endpoints
 */
export async function settle(tx: Sql, outcomes: CallOutcome[]): Promise<EndpointNews> {
  const givenUpOld: string[] = [];
  for (const part of partsWithEachOnce(outcomes)) givenUpOld.push(...(await settlePart(tx, part)));
  return recordVerdicts(tx, verdictsOf(outcomes, new Set(givenUpOld)));
}

/**
 * The outcomes in parts, usually one, that have each delivery once, in the same order on every node, to avoid deadlocks: of two in one
 * statement, PostgreSQL would apply either. A success comes first: if it counts, the other one does not any more.
 */
function partsWithEachOnce(outcomes: CallOutcome[]): CallOutcome[][] {
  const place = ({ claim, status }: CallOutcome) => `${claim.deliveryId} ${status === 'succeeded' ? 1 : 2}`;
  const turns = new Map<string, number>();
  const parts: CallOutcome[][] = [];
  for (const outcome of outcomes.toSorted((a, b) => (place(a) < place(b) ? -1 : 1))) {
    const { deliveryId } = outcome.claim;
    const turn = turns.get(deliveryId) ?? 0;
    turns.set(deliveryId, turn + 1);
    const part = parts[turn];
    if (part) part.push(outcome);
    else parts.push([outcome]);
  }
  return parts;
}

/** @returns the deliveries that are given up by this, and are older than `notNewFor` */
async function settlePart(tx: Sql, ordered: CallOutcome[]): Promise<string[]> {
  const isHolder = 'd.claimed_by = s.node_id AND d.job_id = s.job_id';
  // If its owner asks for a delivery again, the count of attempts starts over while the log goes on. This is the last attempt in
  // the log from before that: the one with which the delivery was over.
  const lastBefore = `(d.attempts -> (-1 - d.attempt_count) ->> 'at')::timestamptz`;
  const isStale = `coalesce((s.attempt ->> 'at')::timestamptz <= ${lastBefore}, false)`;
  // An erasure waits only for the holder: a response body stored by any other node could bring the address back.
  const attempt = `CASE WHEN ${isHolder} THEN s.attempt ELSE s.attempt || '{"response_body": null}' END`;
  const settled = await tx.query<{ id: string; gave_up_old: boolean }>({
    name: 'webhook-deliveries-settle',
    text: `UPDATE webhook_deliveries d
              SET status = s.status, next_attempt_at = s.next_attempt_at, attempt_count = coalesce(s.attempt_count, d.attempt_count), error = s.error,
                  attempts = CASE WHEN s.attempt IS NULL THEN d.attempts
                                  WHEN jsonb_array_length(d.attempts) < ${attemptsKept} THEN d.attempts || ${attempt}
                                  ELSE (d.attempts - 0) || ${attempt} END,
                  ${letGo}
             FROM unnest(${unseen('$1::uuid[]')}, $2::uuid[], $3::uuid[], $4::webhook_delivery_status[], $5::timestamptz[], $6::smallint[], $7::jsonb[], $8::text[])
                  AS s (id, job_id, node_id, status, next_attempt_at, attempt_count, attempt, error)
            WHERE d.id = s.id AND d.next_attempt_at IS NOT NULL
              AND ((${isHolder}) OR s.status = 'succeeded' AND NOT ${isStale})
        RETURNING d.id, d.status = 'failed' AND d.created_at < now() - interval '${notNewFor}' AS gave_up_old`,
    values: [
      ordered.map(({ claim }) => claim.deliveryId),
      ordered.map(({ claim }) => claim.jobId),
      ordered.map(({ claim }) => claim.nodeId),
      ordered.map(({ status }) => status),
      ordered.map(({ nextAttemptAt }) => nextAttemptAt),
      ordered.map(({ made }) => made?.attemptCount),
      ordered.map(({ made }) => made && JSON.stringify(stored(made.attempt))),
      ordered.map(({ error }) => error),
    ],
  });
  return settled.flatMap(({ id, gave_up_old: gaveUpOld }) => (gaveUpOld ? id : []));
}

const stored = ({ at, responseStatus, responseBody, error, durationMs }: CallAttempt) => ({
  at: at.toISOString(),
  response_status: responseStatus,
  response_body: responseBody,
  error,
  duration_ms: durationMs,
});

/** What outcomes say about an endpoint at the URL that was called. */
interface Verdict {
  webhookId: string;
  url: string;
  timesEnabled: number;
  works: boolean;
  gone: boolean;
  /** When the first of the calls began. */
  since: Date;
  /** A delivery older than `notNewFor` was given up. */
  gaveUpOld: boolean;
}

/** One verdict for each endpoint and URL, in the same order on every node, to avoid deadlocks. */
function verdictsOf(outcomes: CallOutcome[], givenUpOld: ReadonlySet<string>): Verdict[] {
  const verdicts = new Map<string, Verdict>();
  for (const { claim, status, made } of outcomes) {
    if (!made || made.endpoint === 'unknown') continue;
    const { endpoint, attempt, url, timesEnabled } = made;
    const { webhookId, deliveryId } = claim;
    const key = `${webhookId} ${timesEnabled} ${url}`;
    const initial = { webhookId, url, timesEnabled, works: false, gone: false, since: attempt.at, gaveUpOld: false };
    const verdict = verdicts.get(key) ?? initial;
    verdict.works ||= endpoint === 'works';
    verdict.gone ||= endpoint === 'gone';
    verdict.gaveUpOld ||= endpoint === 'fails' && status === 'failed' && givenUpOld.has(deliveryId);
    if (attempt.at < verdict.since) verdict.since = attempt.at;
    verdicts.set(key, verdict);
  }
  return [...verdicts.values()].sort((a, b) => (a.webhookId < b.webhookId ? -1 : 1));
}

/** What calls have shown about endpoints. */
export interface EndpointNews {
  /** Those that are failing now. */
  failing: string[];
  /** One endpoint answers again, or for the first time, so more of its deliveries could go out. */
  answering: boolean;
}

/** Notes in the endpoints' rows whether they work, and disables those that are gone or have only failed for days. */
async function recordVerdicts(tx: Sql, verdicts: Verdict[]): Promise<EndpointNews> {
  if (verdicts.length === 0) return { failing: [], answering: false };
  const rows = await tx.query<{ id: string; failing: boolean; answering: boolean }>({
    name: 'webhooks-judge',
    // Its owner may be changing it at this moment, so what was called is compared with the row that is updated. An endpoint
    // that keeps answering is only updated from time to time.
    text: `UPDATE webhooks w
              SET failing_since = CASE WHEN NOT v.works THEN coalesce(w.failing_since, greatest(v.since, now() - interval '${longestCall}')) END,
                  failed_at = CASE WHEN v.works THEN w.failed_at ELSE now() END,
                  steady_failure_since = CASE WHEN v.works THEN NULL
                                                WHEN ${isSteady('w')} THEN least(w.steady_failure_since, now()) ELSE now() END,
                  answered_at = CASE WHEN v.works THEN now() ELSE w.answered_at END,
                  status = CASE WHEN v.disabling IS NULL THEN w.status ELSE 'disabled' END,
                  disabled_reason = coalesce(v.disabling, w.disabled_reason)
             FROM (SELECT u.*, ${isAnswering('x')} AS answered,
                          CASE WHEN x.status <> 'enabled' THEN NULL
                               WHEN u.gone THEN 'the endpoint answered 410 Gone'
                               WHEN NOT u.works AND ${isTooLongAgo('x.failing_since')}
                                AND (u.gave_up_old OR ${isSteady('x')} AND ${isTooLongAgo('x.steady_failure_since')})
                               THEN 'no call has succeeded for ${disableAfterDays} days' END AS disabling
                     FROM unnest($1::uuid[], $2::text[], $3::boolean[], $4::boolean[], $5::timestamptz[], $6::boolean[], $7::integer[])
                          AS u (id, url, works, gone, since, gave_up_old, times_enabled)
                     JOIN webhooks x ON x.id = u.id) v
            WHERE w.id = v.id AND w.url = v.url AND w.times_enabled = v.times_enabled
              AND (NOT v.works OR v.gone OR w.failing_since IS NOT NULL OR w.answered_at IS NULL
                   OR w.answered_at < now() - interval '${answerNotedEvery}')
        RETURNING w.id, ${isFailing('w')} AS failing, v.works AND NOT v.answered AS answering`,
    values: [
      verdicts.map(({ webhookId }) => webhookId),
      verdicts.map(({ url }) => url),
      verdicts.map(({ works }) => works),
      verdicts.map(({ gone }) => gone),
      verdicts.map(({ since }) => since),
      verdicts.map(({ gaveUpOld }) => gaveUpOld),
      verdicts.map(({ timesEnabled }) => timesEnabled),
    ],
  });
  return {
    failing: rows.filter((row) => row.failing).map((row) => row.id),
    answering: rows.some((row) => row.answering),
  };
}

/** Gives claimed deliveries back untouched, due at once. */
export async function release(db: Database, claims: Claim[]): Promise<void> {
  if (claims.length === 0) return;
  await db.query({
    text: `UPDATE webhook_deliveries d SET ${letGo}
             FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS c (id, job_id, node_id)
            WHERE d.id = c.id AND d.job_id ${isSame} c.job_id AND d.claimed_by = c.node_id`,
    values: [
      claims.map((entry) => entry.deliveryId),
      claims.map((entry) => entry.jobId),
      claims.map((entry) => entry.nodeId),
    ],
  });
}
