import type { Attempt, Email, Recipient, Return } from '../../generated/prisma/client.ts';
import type { TlsOutlook } from '../outgoing/tls-outlook.ts';
import { pausedBy } from '../recipients/waiting-for.ts';
import { adviceAbout, adviceBefore, adviceOf, adviceWithoutNode } from './advice.ts';
import { type Cause, causeOf, type Facts, isHeld } from './cause.ts';

/** Why a recipient has its status, for people and for programs. */
export interface RecipientExplanation {
  address: string;
  status: Recipient['status'];
  /** What keeps it from being delivered; null if it is delivered. */
  cause: Cause | null;
  /** What a failure is about, as the attempt log has it. */
  classification: string | null;
  sentence: string;
  /** What people can do about it; null if there is nothing to do. */
  advice: string | null;
  attempts: number;
  lastAttempt: { at: Date; mxHost: string | null; phase: string; response: string; uncertain: boolean } | null;
  /** The TLS that the next attempt demands; null once settled, or if it was not looked up. */
  tls: TlsOutlook | null;
  nextAttemptAt: Date | null;
  /** When it is given up if nothing changes; null once settled. */
  givesUpAt: Date | null;
}

export interface Explanation {
  summary: string;
  recipients: RecipientExplanation[];
}

interface Explained {
  email: Email;
  recipients: Recipient[];
  attempts: Attempt[];
  /** What came back later. */
  returns: Return[];
  /** By destination. */
  tls: ReadonlyMap<string, TlsOutlook>;
  /** Since when the whole service sends nothing; null: it is not on hold. */
  onHoldSince: Date | null;
  /** Whether a node that delivers mail is running. */
  delivers: boolean;
  /** Why it would not be sent if it were due now; null: it would. */
  objection: string | null;
}

/**
 * Says in words and in fields why each recipient has its status, and what happens next.
 *
 * @param retryForMs how long after it was due a recipient is tried
 */
export function explain(
  { email, recipients, attempts, returns, tls, onHoldSince, delivers, objection }: Explained,
  retryForMs: number,
  now: Date,
): Explanation {
  const givesUpAt = new Date(dueAt(email).getTime() + retryForMs);
  const explained = recipients.map((recipient) => {
    const isAbout = (row: Attempt | Return) => row.recipient === recipient.address;
    // Not by their times: the clock of the database may have been set back in between.
    const own = attempts.filter(isAbout).toSorted((a, b) => a.number - b.number);
    const facts = { email, recipient, attempts: own, givesUpAt, onHoldSince, now };
    const explanation = explainOne(facts, delivers, objection);
    const outlook = recipient.nextAttemptAt ? (tls.get(recipient.destination) ?? null) : null;
    return { ...withReturns(explanation, returns.filter(isAbout)), tls: outlook };
  });
  return { summary: summarize(email, explained), recipients: explained };
}

function explainOne(facts: Facts, delivers: boolean, objection: string | null): Omit<RecipientExplanation, 'tls'> {
  const { recipient, attempts, givesUpAt, now } = facts;
  const last = attempts.at(-1) ?? null;
  // What a killed process knew is recorded when it starts again, perhaps after the recipient was given up or decided about.
  const arrival = attempts.findLast(({ outcome }) => outcome === 'delivered') ?? null;
  const decisive = arrival ?? last;
  const cause = causeOf(facts, decisive);
  const isInDoubt = cause !== null && arrival === null && attempts.some(({ uncertain }) => uncertain);
  const nextAttemptAt = isHeld(cause) ? null : recipient.nextAttemptAt;
  // The email of an attempt that has begun was looked at then.
  const foreseen = nextAttemptAt && cause !== 'being_delivered' ? objection : null;
  const sentence = `${sentenceOf(facts, cause, decisive)}${foreseen === null ? '' : ` As things are it will not be sent: ${foreseen}.`}`;
  // What is under way, or waits for the end of a hold, says so itself.
  const isDue = cause !== 'being_delivered' && cause !== 'on_hold' && nextAttemptAt !== null && nextAttemptAt <= now;
  const lacksNode = isDue && !delivers;
  const advised = lacksNode ? adviceWithoutNode : adviceOf(recipient, cause, decisive);
  return {
    address: recipient.address,
    status: recipient.status,
    cause,
    // Somebody may have decided that it was delivered although the last attempt failed.
    classification: cause === null || last?.outcome === 'delivered' ? null : (last?.classification ?? null),
    sentence: [sentence, ...(lacksNode ? [noNode] : []), ...(isInDoubt ? [doubtOf(attempts)] : [])].join(' '),
    advice: foreseen === null ? advised : adviceBefore(foreseen),
    attempts: recipient.attempts,
    lastAttempt: last && {
      at: last.at,
      mxHost: last.mxHost,
      phase: last.phase,
      response: last.reply ?? last.reason,
      uncertain: last.uncertain,
    },
    nextAttemptAt,
    givesUpAt: nextAttemptAt ? givesUpAt : null,
  };
}

const noNode = 'No node that delivers mail is running.';

/** When the email was due at first. */
const dueAt = ({ scheduledAt, createdAt }: Email): Date => scheduledAt ?? createdAt;

/** What came back later does not change the status of the recipient, but people want to know it first. */
function withReturns<E extends Omit<RecipientExplanation, 'tls'>>(explanation: E, returns: Return[]): E {
  if (returns.length === 0) return explanation;
  const sentences = returns.map(({ kind, receivedAt, diagnostic }) => {
    const reason = diagnostic ? `: ${withoutFullStop(diagnostic)}` : '';
    return `${cameBack[kind]} on ${receivedAt.toISOString()}${reason}.`;
  });
  const bounce = returns.find(({ kind }) => kind === 'bounce');
  return {
    ...explanation,
    sentence: [`${withoutFullStop(explanation.sentence)}.`, ...sentences].join(' '),
    ...(bounce && { classification: bounce.classification, advice: adviceAbout(bounce.classification) }),
  };
}

const cameBack: Record<Return['kind'], string> = {
  bounce: 'It came back',
  delay: 'It was reported as delayed',
  complaint: 'Its reader called it spam',
  unsubscribe: 'Its reader unsubscribed',
};

function sentenceOf({ email, recipient, onHoldSince }: Facts, cause: Cause | null, attempt: Attempt | null): string {
  const host = attempt?.mxHost ?? `the mail server of ${recipient.destination}`;
  // Success where none was expected, such as 250 to DATA: the reason says to what.
  const isOdd =
    attempt !== null && attempt.outcome !== 'delivered' && attempt.replyCode !== null && attempt.replyCode < 400;
  const said = withoutFullStop(
    attempt?.reply && !isOdd ? `${host} answered: ${attempt.reply}` : (attempt?.reason ?? ''),
  );
  const next = recipient.nextAttemptAt?.toISOString() ?? '';
  // Erasing a recipient removes what was said about it.
  const known = recipient.lastResponse === null ? null : withoutFullStop(recipient.lastResponse);
  switch (cause) {
    case null: {
      // Somebody has decided: no server answered that it has it.
      if (attempt?.outcome !== 'delivered') return `Counts as delivered: ${known ?? 'that was decided'}.`;
      const answer = attempt.reply ?? recipient.lastResponse;
      return answer === null ? `Delivered to ${host}.` : `Delivered to ${host}, which answered: ${answer}`;
    }
    case 'scheduled':
      return `Waits for its scheduled time, ${email.scheduledAt?.toISOString()}.`;
    case 'in_queue':
      return `Has been in the queue since ${dueAt(email).toISOString()}; no attempt has been made yet.`;
    case 'on_hold':
      return `Waits, because the whole service is on hold and has sent nothing since ${onHoldSince?.toISOString() ?? 'just now'}.`;
    case 'being_delivered':
      return `Has been in delivery since ${recipient.claimedAt?.toISOString() ?? 'just now'}.`;
    case 'uncertain':
      return 'Is not tried again until somebody decides, because `on_uncertain` is `hold`.';
    case 'crashed':
      return `Is not tried again until somebody decides: a process of this service ended ${recipient.crashes} times in a row while it was delivering it.`;
    case 'held_back':
      return `Waits without using up an attempt: ${reasonIn(recipient.waitingFor ?? '')}.`;
    case 'retrying':
      return `Attempt ${recipient.attempts} did not succeed: ${said}. The next one is due at ${next}.`;
    case 'refused':
      return `${attempt === null || attempt.phase === 'local' ? 'Not sent' : 'Refused for good'}: ${said || (known ?? 'the reason was erased')}.`;
    case 'given_up':
      return attempt?.outcome === 'delivered'
        ? `Counts as failed (${known ?? 'the reason was erased'}), but did arrive, which was not known then: ${said}.`
        : `Tried ${times(Math.max(recipient.attempts, attempt?.number ?? 0))} and ${known ?? 'given up'}.`;
    case 'suppressed':
      return `Nothing was sent: ${recipient.address} is on the suppression list.`;
    case 'canceled':
      if (email.status === 'canceled') return 'The email was canceled before it was sent.';
      return email.status === 'suppressed'
        ? 'Nothing was sent, because another recipient is suppressed.'
        : 'Was canceled before it was sent, because the data of this recipient was to be erased.';
  }
}

/** Why a recipient waits, as it goes on after a colon: the notes begin in lower case, or with a name. */
function reasonIn(note: string): string {
  const paused = pausedBy(note);
  return paused === null ? withoutFullStop(note) : `${paused} is paused`;
}

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);

const withoutFullStop = (text: string) => text.replace(/\.{1,9}$/, '');

function doubtOf(attempts: Attempt[]): string {
  const numbers = [...new Set(attempts.filter((attempt) => attempt.uncertain).map((attempt) => attempt.number))];
  const which = `${numbers.length > 1 ? 'Attempts' : 'Attempt'} ${numbers.join(', ')}`;
  return `${which} ended after the whole message and before an answer to it, so it may have arrived all the same.`;
}

function summarize(email: Email, recipients: RecipientExplanation[]): string {
  const counts = new Map<string, number>();
  for (const { status } of recipients) counts.set(status, (counts.get(status) ?? 0) + 1);
  const parts = [...counts].map(([status, n]) => `${n} ${status}`).join(', ');
  const [only, ...others] = recipients;
  if (only && others.length === 0) return `${email.status}: 1 recipient (${parts}). ${only.sentence}`;
  const shown =
    recipients.find(({ cause }) => isHeld(cause)) ??
    recipients.find(({ status }) => status === 'failed') ??
    recipients.find(({ nextAttemptAt }) => nextAttemptAt !== null);
  const detail = shown ? ` ${shown.address}: ${shown.sentence}` : '';
  return `${email.status}: ${recipients.length} recipients (${parts}).${detail}`;
}
