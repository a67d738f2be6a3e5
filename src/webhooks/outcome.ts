import type { Call, CallOutcome, Claim } from '../core/webhooks/webhook-calls.ts';
import { testEvent } from '../core/webhooks/webhook-deliveries.ts';
import type { Answer } from './post.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** Delays in ms after the first, second, … attempt; after the last delay there is one final attempt. */
export const defaultSchedule = [5 * second, minute, 5 * minute, 30 * minute, 2 * hour, 6 * hour, 12 * hour, 24 * hour];

const spread = 0.1;
const longestWaitMs = 24 * hour;

/** The answer to a call that began at this moment. */
export interface CallAnswer extends Answer {
  startedAt: Date;
}

/** Decides what one answer means for its delivery and for the endpoint. */
export function decide(
  claim: Claim,
  call: Call,
  answer: CallAnswer,
  now: Date,
  { schedule = defaultSchedule, random = Math.random } = {},
): CallOutcome {
  const { status, body, error, startedAt, durationMs } = answer;
  const attemptCount = call.attemptCount + 1;
  const attempt = { at: startedAt, responseStatus: status, responseBody: body, error, durationMs };
  const over = { claim, attemptCount, attempt, nextAttemptAt: null, url: call.url, timesEnabled: call.timesEnabled };
  if (status !== null && status >= 200 && status < 300) {
    return { ...over, status: 'succeeded', error: null, endpoint: 'works' };
  }
  if (status === 410) {
    return { ...over, status: 'failed', error: 'the endpoint answered 410 Gone and was disabled', endpoint: 'gone' };
  }
  // A test is for the person who waits for its result, and says nothing about how long an endpoint has been failing.
  if (call.event === testEvent) return { ...over, status: 'failed', error: null, endpoint: 'unknown' };
  const endpoint = answer.untried ? 'unknown' : 'fails';
  const delay = schedule[attemptCount - 1];
  if (delay === undefined) {
    return { ...over, status: 'failed', error: `given up after ${attemptCount} attempts`, endpoint };
  }
  const asked = status === 429 || status === 503 ? waitOf(answer.retryAfter, now) : 0;
  const waitMs = Math.max(delay * (1 + spread * (2 * random() - 1)), asked);
  return {
    ...over,
    status: 'pending',
    nextAttemptAt: new Date(now.getTime() + waitMs),
    error: null,
    endpoint,
  };
}

/** A delivery that was claimed but not tried: it is due again at once, and no attempt is counted. */
export function undone(claim: Claim, call: Call, now: Date): CallOutcome {
  const { attemptCount } = call;
  return {
    claim,
    status: 'pending',
    nextAttemptAt: now,
    attemptCount,
    attempt: null,
    error: null,
    endpoint: 'unknown',
    url: null,
    timesEnabled: call.timesEnabled,
  };
}

/** A delivery whose endpoint was disabled or deleted while it waited here. */
export function withoutEndpoint(claim: Claim): CallOutcome {
  const error = 'the endpoint was deleted or disabled';
  const over = { claim, status: 'failed', nextAttemptAt: null, attemptCount: 0, attempt: null } as const;
  return { ...over, error, endpoint: 'unknown', url: null, timesEnabled: 0 };
}

/**
 * The wait that a `Retry-After` asks for, in ms (RFC 9110 section 10.2.3: seconds, or a date): at most a day, and 0 if it is
 * neither or in the past.
 */
export function waitOf(header: string | null, now: Date): number {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * second, longestWaitMs);
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text)) return 0;
  const until = Date.parse(text);
  return Number.isNaN(until) ? 0 : Math.min(Math.max(0, until - now.getTime()), longestWaitMs);
}
