import type { Clock } from '../../clock.ts';
import type { OutgoingEmail } from '../../core/outgoing/outgoing.ts';
import type { AttemptRow } from '../../core/recipients/attempts.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Decision, Settlement } from '../../core/recipients/settlement.ts';
import { heldNote, pausedUntil } from '../../core/recipients/waiting-for.ts';
import { comparable } from '../../mail/address/address.ts';
import { type Delivery, type RecipientResult, type Session, saysNobodyThere } from '../../smtp/deliver.ts';
import { decide, finalResult, type Judgment, responseOf, verdictOf } from './outcome.ts';
import { lastDelayMs, type RetryPolicy } from './schedule.ts';
import type { Ending } from './winding-down.ts';

/** The result of one attempt, ready to be stored. */
export type AttemptRecord = Judgment & {
  /** The email's account; null if the email is gone. */
  accountId: string | null;
  settlements: Settlement[];
  attempts: AttemptRow[];
};

/** What `record` needs to know about an email. */
export type AttemptedEmail = Pick<OutgoingEmail, 'accountId' | 'dueAt' | 'onUncertain'> &
  Partial<Pick<OutgoingEmail, 'suppressed'>>;

/** What sets the time of the next attempt: the schedule, and the clock that it goes by. */
export interface RetryRules {
  policy: RetryPolicy;
  clock: Clock;
}

/** The record of a delivery. @param ending the node's shutdown; null if it cannot have cut the delivery short */
export function record(
  { policy, clock }: RetryRules,
  claim: Claim,
  delivery: Delivery,
  email: AttemptedEmail | undefined,
  ending: Ending | null,
): AttemptRecord {
  const shared: Shared = {
    policy,
    now: clock.now(),
    draw: Math.random(),
    email,
    ending,
    begunAt: delivery.sessions[0]?.startedAt ?? null,
  };
  const { nodeId, emailId, jobId } = claim;
  const settlements = claim.recipients.map(({ position, address, attempts }): Settlement => {
    const result = finalResult(delivery, address);
    // Only a permanent refusal: a server that says "later" for three days has not said that the mailbox does not exist.
    const nobodyThere = result.outcome === 'bounced' && saysNobodyThere(result.class);
    return {
      nodeId,
      emailId,
      position,
      jobId,
      ...stepOf(result, attempts, isSuppressed(email, address), shared),
      uncertain: result.uncertain,
      suppress: nobodyThere && email ? { accountId: email.accountId, address } : null,
    };
  });
  const number = new Map(claim.recipients.map((recipient) => [recipient.address, recipient.attempts + 1]));
  const attempts = delivery.sessions.filter(isTried).flatMap((session) =>
    session.results.map((result, index) => ({
      ...rowOf(emailId, session, result, number.get(result.recipient) ?? 1),
      conversation: index === 0 ? conversationOf(session) : null,
    })),
  );
  return { accountId: email?.accountId ?? null, settlements, attempts, ...verdictOf(delivery) };
}

/** False for a session whose turn did not come: nothing was tried. */
const isTried = ({ host, results }: Session) => host !== null || !results.every(isGivenUpHere);

/** What a result means for a recipient. */
type Step = Decision & Pick<Settlement, 'attempts' | 'undone' | 'waitingFor' | 'lastResponse'>;

/** What all recipients of an attempt have in common. */
interface Shared {
  policy: RetryPolicy;
  now: Date;
  /** One random number for all, so that recipients deferred together are one message again. */
  draw: number;
  email: AttemptedEmail | undefined;
  ending: Ending | null;
  begunAt: Date | null;
}

/** @param before attempts before this one */
function stepOf(result: RecipientResult, before: number, suppressed: boolean, shared: Shared): Step {
  const { policy, now, draw, email, ending, begunAt } = shared;
  const attempts = before + 1;
  const isOpen = result.outcome === 'deferred' && !suppressed;
  const base = { status: 'deferred', attempts, waitingFor: null, lastResponse: responseOf(result) } as const;
  // Held until it is released: no timeout decides, nor does the end of its retry time.
  if (isOpen && result.uncertain && email?.onUncertain === 'hold')
    return { ...base, nextAttemptAt: pausedUntil, waitingFor: heldNote };
  if (isOpen && isUndone(result, ending)) return { ...base, attempts: before, undone: true, nextAttemptAt: now };
  const history = {
    attempts,
    dueAt: email?.dueAt ?? now,
    begunAt: result.phase === 'local' ? null : begunAt,
  };
  const decided = decide(result, history, policy, now, () => draw);
  // A suppressed recipient is settled even if no server was asked: otherwise each attempt would count it again.
  if (suppressed) return { ...base, ...decided, status: 'suppressed', nextAttemptAt: null };
  // No delivery ends for what this server left undone. The attempt counts, so that retries get rarer if this goes on.
  if (decided.status === 'failed' && isOpen && isGivenUpHere(result))
    return { ...base, nextAttemptAt: new Date(now.getTime() + lastDelayMs(policy)) };
  return { ...base, ...decided };
}

/** True if the shutdown of this server ended the attempt: that says nothing about the recipient's server, and ends no delivery. */
function isUndone(result: RecipientResult, ending: Ending | null): boolean {
  if (ending === null) return false;
  const isCutShort = ending.signal.aborted && result.reply === null && !result.uncertain;
  return isCutShort || (ending.begun && isGivenUpHere(result));
}

/** True if this server ended the attempt before the dot, for reasons of its own. */
const isGivenUpHere = ({ phase, class: kind }: RecipientResult) => phase === 'local' && kind === 'other';

/** The conversation as it is stored; null if there is none, as in a session read from a journal. */
function conversationOf({ conversation }: Session): AttemptRow['conversation'] {
  return conversation.length === 0 ? null : conversation.map(({ ms, by, text }) => [ms, by, text]);
}

function rowOf(
  emailId: string,
  session: Session,
  result: RecipientResult,
  number: number,
): Omit<AttemptRow, 'conversation'> {
  return {
    emailId,
    recipient: result.recipient,
    number,
    at: session.startedAt,
    durationMs: Math.max(0, Math.round(session.durationMs)),
    mxHost: session.host,
    remoteAddress: session.remoteAddress,
    localAddress: session.localAddress,
    tlsVersion: session.tls?.version ?? null,
    tlsCipher: session.tls?.cipher ?? null,
    // A journal of an earlier version does not say.
    verification: session.verification ?? 'none',
    phase: result.phase,
    outcome: result.outcome,
    uncertain: result.uncertain,
    replyCode: result.reply?.code ?? null,
    enhancedCode: result.enhanced,
    reply: result.reply ? responseOf(result) : null,
    reason: result.reason,
    classification: result.class,
  };
}

/** True for a recipient who was suppressed after the email was accepted. */
export const isSuppressed = (email: Partial<OutgoingEmail> | undefined, address: string) =>
  email?.suppressed?.has(comparable(address)) ?? false;
