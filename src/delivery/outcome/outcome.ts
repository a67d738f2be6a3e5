import { isIPv6 } from 'node:net';
import type { AttemptRow } from '../../core/recipients/attempts.ts';
import type { Decision } from '../../core/recipients/settlement.ts';
import { timeInWords } from '../../numbers.ts';
import type { Delivery, Phase, RecipientResult } from '../../smtp/deliver.ts';
import { isRefusal } from '../../smtp/replies/reply.ts';
import { beforeMail } from '../../smtp/replies/result.ts';
import { slowDown } from '../../smtp/rules/classify.ts';
import { retryHintMs } from '../../smtp/rules/retry-hint.ts';
import type { Verdict } from '../sites/throttle.ts';
import { type History, nextAttempt, type RetryPolicy } from './schedule.ts';

/** What an attempt means for one recipient. */
export type Outcome = Decision & { lastResponse: string };

/** The result that counts for this recipient: that of the last session that names it. */
export function finalResult(delivery: Delivery, recipient: string): RecipientResult {
  for (const session of delivery.sessions.toReversed()) {
    const result = session.results.find((entry) => entry.recipient === recipient);
    if (result) return result;
  }
  throw new Error('a delivery came back without a result for one of its recipients');
}

/**
 * Decides by the result's own verdict, never by the text that came with it: delivered, to be tried again, or failed for good.
 * The text can only set the time of the next attempt, within an hour.
 *
 * @param history includes the attempt that ended in this result
 */
export function decide(
  result: RecipientResult,
  history: Omit<History, 'askedMs'>,
  policy: RetryPolicy,
  now: Date,
  random?: () => number,
): Outcome {
  // A success code where none was expected, such as 250 to DATA, explains nothing to people: our own sentence does.
  const isOdd = result.outcome !== 'delivered' && result.reply !== null && !isRefusal(result.reply);
  const lastResponse = isOdd ? result.reason : responseOf(result);
  if (result.outcome === 'delivered') return { status: 'delivered', nextAttemptAt: null, lastResponse };
  if (result.outcome === 'bounced') return { status: 'failed', nextAttemptAt: null, lastResponse };
  const askedMs = result.reply && retryHintMs(result.reply);
  const next = nextAttempt(policy, { ...history, askedMs }, now, random);
  if (next) return { status: 'deferred', nextAttemptAt: next, lastResponse };
  return {
    status: 'failed',
    nextAttemptAt: null,
    lastResponse: `given up after ${timeInWords(policy.forMs)}; the last answer was: ${lastResponse}`,
  };
}

/** What the server said, word for word, or our own sentence if no server said anything. */
export function responseOf(result: RecipientResult): string {
  if (!result.reply) return result.reason;
  const { code, enhanced, text } = result.reply;
  return [code, enhanced, text].filter((part) => part !== null && part !== '').join(' ');
}

/** True if the result was decided before the mail transaction began. */
export const isBeforeMail = (phase: Phase) => beforeMail.includes(phase);

/** True if a transaction was begun from one of our addresses of this family. */
export const leftFrom = (at: Pick<AttemptRow, 'phase' | 'localAddress'>, ipv6: boolean) =>
  at.localAddress !== null && isIPv6(at.localAddress) === ipv6 && at.phase !== 'local' && !isBeforeMail(at.phase);

/** True if the attempt only failed because it had no address of the hosts' family. */
export const lacksFamily = (rows: Pick<AttemptRow, 'phase' | 'classification'>[]) =>
  rows.length > 0 && rows.every(({ phase, classification }) => phase === 'local' && classification === 'network');

/** What an attempt says about the site, in which words, and the host that said so; null if none did. */
export type Judgment =
  | { verdict: Exclude<Verdict, 'nothing'>; reply: string; host: string | null }
  | { verdict: 'nothing'; reply: string | null; host: string | null };

/** What a delivery says about the site. */
export function verdictOf({ sessions }: Delivery): Judgment {
  const results = sessions.flatMap((session) => session.results);
  const as = (verdict: Verdict, by: RecipientResult): Judgment => {
    const host = by.reply && (sessions.findLast((session) => session.results.includes(by))?.host ?? null);
    return { verdict, reply: responseOf(by), host };
  };
  const slower = results.find(
    ({ outcome, phase, reply }) => outcome !== 'delivered' && reply !== null && slowDown(phase, reply) !== null,
  );
  if (slower) return as('slower', slower);
  const judged = results.findLast((result) => result.reply !== null);
  if (judged) {
    const decided = results.some(({ outcome, reply }) => outcome === 'delivered' || (outcome === 'bounced' && reply));
    // With 421 the server closes the connection, as when it is overloaded or shuts down: less mail is better until it is back.
    const leaves = judged.reply?.code === 421;
    return as(decided ? 'fine' : leaves ? 'slower' : 'nothing', judged);
  }
  const last = results.at(-1);
  if (last && results.every((result) => isUnreached(result) || isUntried(result))) {
    const unreached = results.findLast(isUnreached);
    return unreached ? as('unreachable', unreached) : as('untried', last);
  }
  return { verdict: 'nothing', reply: null, host: null };
}

const isUnreached = ({ outcome, phase, class: kind }: RecipientResult) =>
  outcome === 'deferred' && isBeforeMail(phase) && kind === 'network';

/**
 * True if this server could not even ask DNS, or try to connect. The other codes of DNS failures of the class `sender` say that
 * the MX records lead back to this server.
 */
const isUntried = ({ phase, class: kind, enhanced }: RecipientResult) =>
  kind === 'sender' && (phase === 'connect' || (phase === 'dns' && enhanced === '4.4.3'));
