import type { Call, CallOutcome, Claim, MadeCall } from '../core/webhooks/webhook-calls.ts';
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
export type CallAnswer = Answer & { startedAt: Date };

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
  const madeTo = (endpoint: MadeCall['endpoint']): MadeCall => {
    return { attempt, attemptCount, endpoint, url: call.url, timesEnabled: call.timesEnabled };
  };
  const over = { claim, nextAttemptAt: null };
  if (status !== null && status >= 200 && status < 300)
    return { ...over, status: 'succeeded', error: null, made: madeTo('works') };
  if (status === 410) {
    const reason = 'the endpoint answered 410 Gone and was disabled';
    return { ...over, status: 'failed', error: reason, made: madeTo('gone') };
  }
  // A test is for the person who waits for its result, and says nothing about how long an endpoint has been failing.
  if (call.event === testEvent) return { ...over, status: 'failed', error: null, made: madeTo('unknown') };
  const made = madeTo(answer.status === null && answer.untried ? 'unknown' : 'fails');
  const delay = schedule[attemptCount - 1];
  if (delay === undefined) return { ...over, status: 'failed', error: `given up after ${attemptCount} attempts`, made };
  const asked = status === 429 || status === 503 ? waitOf(answer.retryAfter, now) : 0;
  const waitMs = Math.max(delay * (1 + spread * (2 * random() - 1)), asked);
  return { claim, status: 'pending', nextAttemptAt: new Date(now.getTime() + waitMs), error: null, made };
}

/** A delivery that was claimed but not tried: it is due again at once, and no attempt is counted. */
export const undone = (claim: Claim, now: Date): CallOutcome => ({
  claim,
  made: null,
  status: 'pending',
  nextAttemptAt: now,
  error: null,
});

/** A delivery whose endpoint was disabled or deleted while it waited here. */
export const withoutEndpoint = (claim: Claim): CallOutcome => ({
  claim,
  made: null,
  status: 'failed',
  nextAttemptAt: null,
  error: 'the endpoint was deleted or disabled',
});

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
