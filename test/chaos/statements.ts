import type { Matches, Seen } from './wire.ts';

/*
 * The service's database statements, recognized by their text: if one is renamed or split, a stage is no longer
 * reached, and the run fails and says so.
 */

const text =
  (pattern: RegExp): Matches =>
  (statement) =>
    pattern.test(statement.text);

const fetches =
  (queue: string): Matches =>
  ({ text }) =>
    /SKIP LOCKED/.test(text) && text.includes(`'${queue}'`) && /state = 'active'/.test(text);

const commitAfter =
  (pattern: RegExp): Matches =>
  (statement: Seen) =>
    /^COMMIT\b/i.test(statement.text) && statement.before.some((one) => pattern.test(one.text));

const patterns = {
  accept: /INSERT INTO emails\b/,
  settle: /UPDATE recipients r\s+SET status = s\.status/,
  settleCalls: /UPDATE webhook_deliveries d\s+SET status = s\.status/,
  returns: /INSERT INTO returns\b/,
  claim: /UPDATE recipients r SET claimed_by = \$1/,
  claimCalls: /UPDATE webhook_deliveries d\s+SET job_id = CASE WHEN c\.claimed/,
  wake: /UPDATE recipients r SET job_id = due\.job_id/,
};

export const anyBegin = text(/^BEGIN\b/i);

/** The statements that accept an email, before their COMMIT. */
export const acceptSteps: Matches[] = [
  text(/INSERT INTO idempotency_keys\b/),
  text(/UPDATE accounts a\s+SET usage_day/),
  text(patterns.accept),
  text(/INSERT INTO recipients\b/),
  text(/INSERT INTO webhook_deliveries\b/),
];

export const commitOfAccept = commitAfter(patterns.accept);
export const fetchOfMail = fetches('deliver');
export const fetchOfCalls = fetches('webhook');
export const loadOfMail = text(/dkim_private_key[\s\S]* AS wanted \(id, tried, ahead\b/);
export const settle = text(patterns.settle);
export const commitOfSettle = commitAfter(patterns.settle);
export const settleOfCalls = text(patterns.settleCalls);
export const commitOfSettledCalls = commitAfter(patterns.settleCalls);
export const returns = text(patterns.returns);
export const commitOfReturns = commitAfter(patterns.returns);
export const wake = text(patterns.wake);
export const commitOfWake = commitAfter(patterns.wake);
/** The outcome is unknown if the connection breaks at the answer to its COMMIT. */
export const commits: Record<string, Matches> = {
  'an acceptance': commitOfAccept,
  'a claim': commitAfter(patterns.claim),
  'an outcome': commitOfSettle,
  'a claim of calls': commitAfter(patterns.claimCalls),
  "a call's outcome": commitOfSettledCalls,
  'a wake-up': commitOfWake,
};
export const sweep = text(/WITH stretch AS/);
export const addUp = text(/DELETE FROM email_count_changes\b/);
export const partitions = text(/FROM pg_class WHERE relname = ANY/);
export const journalOfDead = text(/SELECT email_id, recipient, at FROM attempts/);

/** The n-th statement from now on, whatever it is. */
export function nth(n: number): Matches {
  let seen = 0;
  return () => ++seen >= n;
}
