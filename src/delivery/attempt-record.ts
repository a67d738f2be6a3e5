import type { Clock } from '../clock.ts';
import type { AttemptRow } from '../core/attempts.ts';
import type { OutgoingEmail } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Settlement } from '../core/settlement.ts';
import { heldNote, pausedUntil } from '../core/waiting-for.ts';
import { comparable } from '../mail/address.ts';
import { type Delivery, type RecipientResult, type Session, saysNobodyThere } from '../smtp/deliver.ts';
import { decide, finalResult, responseOf, verdictOf } from './outcome.ts';
import type { RetryPolicy } from './schedule.ts';
import type { Verdict } from './throttle.ts';
import type { Ending } from './winding-down.ts';

/** What one attempt came to, ready to be written down. */
export interface AttemptRecord {
  /** Whose email it is; null where that is gone. */
  accountId: string | null;
  settlements: Settlement[];
  attempts: AttemptRow[];
  /** What it says about the site, in which words, and which host said it; null where none did. */
  verdict: Verdict;
  reply: string | null;
  host: string | null;
}

/** What is to be known about an email to write an attempt down. */
export type Settled = Pick<OutgoingEmail, 'accountId' | 'dueAt' | 'onUncertain'> &
  Partial<Pick<OutgoingEmail, 'suppressed'>>;

/** By which schedule and whose time the next attempt is named. */
export interface Judgement {
  policy: RetryPolicy;
  clock: Clock;
}

/** What to write down about a delivery. @param ending of the node; null: it was not there when it was made */
export function record(
  { policy, clock }: Judgement,
  claim: Claim,
  delivery: Delivery,
  email: Settled | undefined,
  ending: Ending | null,
): AttemptRecord {
  const now = clock.now();
  // One draw for all: those who were put off together are one message again.
  const draw = Math.random();
  const begunAt = delivery.sessions[0]?.startedAt ?? null;
  const settlements = claim.recipients.map(({ position, address, attempts }): Settlement => {
    const result = finalResult(delivery, address);
    // Said for good: a server that says "later" for three days has not said that the mailbox does not exist.
    const nobodyThere = result.outcome === 'bounced' && saysNobodyThere(result.class);
    const { nodeId, emailId, jobId } = claim;
    return {
      ...{ nodeId, emailId, position, jobId },
      ...stepOf(
        result,
        { attempts, email, ending, begunAt, isSuppressed: isSuppressed(email, address) },
        policy,
        now,
        draw,
      ),
      uncertain: result.uncertain,
      suppress: nobodyThere && email ? { accountId: email.accountId, address } : null,
    };
  });
  const number = new Map(claim.recipients.map((recipient) => [recipient.address, recipient.attempts + 1]));
  const attempts = delivery.sessions.filter(isTried).flatMap((session) =>
    session.results.map((result, index) => ({
      ...rowOf(claim.emailId, session, result, number.get(result.recipient) ?? 1),
      conversation: index === 0 ? conversationOf(session) : null,
    })),
  );
  return { accountId: email?.accountId ?? null, settlements, attempts, ...verdictOf(delivery) };
}

/** False for one of those whose turn did not come: nothing was tried. */
const isTried = ({ host, results }: Session) => host !== null || !results.every(isGivenUpHere);

/** What a recipient comes to by a result. */
type Step = Pick<Settlement, 'status' | 'attempts' | 'undone' | 'nextAttemptAt' | 'waitingFor' | 'lastResponse'>;

interface Before {
  attempts: number;
  email: Settled | undefined;
  ending: Ending | null;
  begunAt: Date | null;
  isSuppressed: boolean;
}

function stepOf(
  result: RecipientResult,
  { attempts, email, ending, begunAt, isSuppressed }: Before,
  policy: RetryPolicy,
  now: Date,
  draw: number,
): Step {
  const isOpen = result.outcome === 'deferred' && !isSuppressed;
  const step: Step = {
    status: 'deferred',
    attempts: attempts + 1,
    nextAttemptAt: now,
    waitingFor: null,
    lastResponse: responseOf(result),
  };
  // No time-out decides, the end of its time neither.
  if (isOpen && result.uncertain && email?.onUncertain === 'hold')
    return { ...step, nextAttemptAt: pausedUntil, waitingFor: heldNote };
  // What this server left undone says nothing about the recipient's, and ends nothing.
  const isCutShort = ending?.signal.aborted && result.reply === null && !result.uncertain;
  const isLeft = isOpen && isGivenUpHere(result);
  if ((isOpen && isCutShort) || (isLeft && ending?.begun)) return { ...step, attempts, undone: true };
  const history = {
    attempts: step.attempts,
    dueAt: email?.dueAt ?? now,
    begunAt: result.phase === 'local' ? null : begunAt,
  };
  const { status, nextAttemptAt, response: lastResponse } = decide(result, history, policy, now, () => draw);
  // Counted, so that it comes less and less often where that goes on.
  if (isLeft && status === 'failed')
    return { ...step, nextAttemptAt: new Date(now.getTime() + (policy.scheduleMs.at(-1) ?? givenUpMs)) };
  // On the suppression list it is over, also where no server was asked: it would be counted again with each attempt.
  return isSuppressed
    ? { ...step, status: 'suppressed', nextAttemptAt: null, lastResponse }
    : { ...step, status, nextAttemptAt, lastResponse };
}

/** Where no schedule says it. */
const givenUpMs = 60_000;

/** True where this server ended the attempt before the dot, for reasons of its own. */
const isGivenUpHere = ({ phase, class: kind }: RecipientResult) => phase === 'local' && kind === 'other';

/** What is stored of what was said; a journal that was left behind has none of it. */
function conversationOf({ conversation = [] }: Partial<Session>): AttemptRow['conversation'] {
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
    // A journal that an earlier version left behind does not say.
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

/** True for a recipient that came onto the suppression list after the email was accepted. */
export const isSuppressed = (email: Partial<OutgoingEmail> | undefined, address: string) =>
  email?.suppressed?.has(comparable(address)) ?? false;
