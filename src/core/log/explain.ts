import type { Attempt, Email, Recipient, Return } from '../../generated/prisma/client.ts';
import { type Classification, saysNobodyThere } from '../../smtp/deliver.ts';
import { tlsSetting } from '../outgoing/outgoing.ts';
import type { TlsOutlook } from '../outgoing/tls-outlook.ts';
import { crashedNote, heldNote, warmUpOf } from '../recipients/waiting-for.ts';
import { stoppedNote } from './stopping.ts';

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

export type Cause =
  | 'scheduled'
  | 'in_queue'
  | 'on_hold'
  | 'being_delivered'
  | 'held_back'
  | 'uncertain'
  | 'crashed'
  | 'retrying'
  | 'refused'
  | 'given_up'
  | 'suppressed'
  | 'canceled';

export interface Explanation {
  summary: string;
  recipients: RecipientExplanation[];
}

/** What each class of failure means, and what people can do about it. */
export const meanings: Record<Classification, { meaning: string; advice: string }> = {
  bad_mailbox: {
    meaning: 'The mailbox does not exist.',
    advice: 'Check the part before the @ for typing errors, or ask the recipient for their current address.',
  },
  bad_domain: {
    meaning: 'The domain does not exist or takes no mail.',
    advice: 'Check the part after the @ for typing errors.',
  },
  mailbox_full: {
    meaning: 'The mailbox is full.',
    advice: 'Only its owner can free space: contact them another way.',
  },
  content: {
    meaning:
      'The server objects to the message itself: its size, its form, an attachment, a link, or words that look like spam.',
    advice: 'The reply may say which. To find out, send one without the attachment or the links.',
  },
  policy: {
    meaning:
      'The server does not accept mail from here, or not yet: because of a blocklist, a poor reputation, greylisting or a rule of its own.',
    advice:
      'If the reply names a blocklist or a page, look up the sending address there; otherwise ask the postmaster of the receiving side.',
  },
  authentication: {
    meaning:
      'The server doubts who is sending: SPF, DKIM, DMARC, or the reverse DNS and EHLO name of the sending address.',
    advice:
      'Verify the sending domain again, publish a DMARC record, and give the sending address a reverse DNS name that leads back to it.',
  },
  rate: {
    meaning: 'The server wants to receive less mail at a time.',
    advice: 'Spread large mailings over several hours; this server slows down automatically.',
  },
  network: {
    meaning: 'The receiving side could not be reached, or has a problem of its own.',
    advice:
      'The receiving side has to fix this, unless mail to other domains fails in the same way: then check the network and the resolver here.',
  },
  protocol: {
    meaning: 'The conversation with the server went wrong.',
    advice: 'If it happens again, tell its postmaster; the attempt log shows what was said.',
  },
  sender: {
    meaning:
      'Something on the sending side stands in the way: the sender’s address or domain, the key, the account or this server.',
    advice:
      'Verify the sending domain again, and check that its DNS records and those of this server can be looked up; if this server is named, its operator has to act.',
  },
  other: {
    meaning: 'The server gave no reason that we recognize.',
    advice: 'The text of the reply may name one.',
  },
};

interface Explained {
  email: Email;
  recipients: Recipient[];
  attempts: Attempt[];
  /** What came back later. */
  returns?: Return[];
  /** By destination. */
  tls?: ReadonlyMap<string, TlsOutlook>;
  /** Since when the whole service sends nothing; null: it is not on hold. */
  onHoldSince?: Date | null;
}

/**
 * Says in words and in fields why each recipient has its status, and what happens next.
 *
 * @param retryForMs how long after it was due a recipient is tried
 */
export function explain(
  { email, recipients, attempts, returns = [], tls = new Map(), onHoldSince = null }: Explained,
  retryForMs: number,
  now: Date = new Date(),
): Explanation {
  const givesUpAt = new Date((email.scheduledAt ?? email.createdAt).getTime() + retryForMs);
  const explained = recipients.map((recipient) => {
    const isAbout = (row: Attempt | Return) => row.recipient === recipient.address;
    const own = attempts.filter(isAbout);
    const explanation = explainOne({ email, recipient, attempts: own, givesUpAt, onHoldSince, now });
    const outlook = recipient.nextAttemptAt ? (tls.get(recipient.destination) ?? null) : null;
    return { ...withReturns(explanation, returns.filter(isAbout)), tls: outlook };
  });
  return { summary: summarize(email, explained), recipients: explained };
}

/** What the explanation of a recipient is made from. */
interface Facts {
  email: Email;
  recipient: Recipient;
  attempts: Attempt[];
  givesUpAt: Date;
  onHoldSince: Date | null;
  now: Date;
}

function explainOne(facts: Facts): Omit<RecipientExplanation, 'tls'> {
  const { recipient, attempts, givesUpAt } = facts;
  const last = attempts.at(-1) ?? null;
  // What a killed process knew is recorded when it starts again, perhaps after the recipient was given up or decided about.
  const arrival = attempts.findLast(({ outcome }) => outcome === 'delivered') ?? null;
  const decisive = arrival ?? last;
  const cause = causeOf(facts, decisive);
  const isInDoubt = cause !== null && arrival === null && attempts.some(({ uncertain }) => uncertain);
  const sentence = sentenceOf(facts, cause, decisive);
  const nextAttemptAt = isHeld(cause) ? null : recipient.nextAttemptAt;
  return {
    address: recipient.address,
    status: recipient.status,
    cause,
    classification: last?.outcome === 'delivered' ? null : (last?.classification ?? null),
    sentence: isInDoubt ? `${sentence} ${doubtOf(attempts)}` : sentence,
    advice: adviceOf(recipient, cause, decisive),
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

/** @param attempt the one that delivered it, or the last one; null: there was none */
function causeOf({ email, recipient, onHoldSince, now }: Facts, attempt: Attempt | null): Cause | null {
  const { status, attempts, claimedBy, waitingFor, nextAttemptAt } = recipient;
  if (status === 'delivered') return null;
  if (status === 'suppressed' || status === 'canceled') return status;
  if (status === 'failed') return attempt === null || attempt.outcome === 'bounced' ? 'refused' : 'given_up';
  if (claimedBy) return 'being_delivered';
  if (waitingFor === heldNote) return 'uncertain';
  if (waitingFor === crashedNote) return 'crashed';
  // A recipient that is not due yet would wait in any case.
  if (onHoldSince && nextAttemptAt && nextAttemptAt <= now) return 'on_hold';
  if (waitingFor !== null) return 'held_back';
  if (attempts > 0) return 'retrying';
  return email.scheduledAt && email.scheduledAt > now ? 'scheduled' : 'in_queue';
}

function sentenceOf({ email, recipient, onHoldSince }: Facts, cause: Cause | null, attempt: Attempt | null): string {
  const host = attempt?.mxHost ?? `the mail server of ${recipient.destination}`;
  const said = withoutFullStop(attempt?.reply ? `${host} answered: ${attempt.reply}` : (attempt?.reason ?? ''));
  const next = recipient.nextAttemptAt?.toISOString() ?? '';
  switch (cause) {
    case null:
      return `Delivered to ${host}, which answered: ${attempt?.reply ?? recipient.lastResponse ?? ''}`;
    case 'scheduled':
      return `Waits for its scheduled time, ${email.scheduledAt?.toISOString()}.`;
    case 'in_queue':
      return `Has been in the queue since ${email.createdAt.toISOString()}; no attempt has been made yet.`;
    case 'on_hold':
      return `Waits, because the whole service is on hold and has sent nothing since ${onHoldSince?.toISOString() ?? 'just now'}.`;
    case 'being_delivered':
      return `Has been in delivery since ${recipient.claimedAt?.toISOString() ?? 'just now'}.`;
    case 'uncertain':
      return 'Is not tried again until somebody decides, because `on_uncertain` is `hold`.';
    case 'crashed':
      return `Is not tried again until somebody decides: a process of this service ended ${recipient.crashes} times in a row while it was delivering it.`;
    case 'held_back':
      return `Waits without using up an attempt. ${withoutFullStop(recipient.waitingFor ?? '')}.`;
    case 'retrying':
      return `Attempt ${recipient.attempts} did not succeed: ${said}. The next one is due at ${next}.`;
    case 'refused':
      return `${attempt === null || attempt.phase === 'local' ? 'Not sent' : 'Refused for good'}: ${said || recipient.lastResponse}.`;
    case 'given_up':
      return attempt?.outcome === 'delivered'
        ? `Counts as failed (${withoutFullStop(recipient.lastResponse ?? '')}), but did arrive, which was not known then: ${said}.`
        : `Tried ${times(Math.max(recipient.attempts, attempt?.number ?? 0))} and ${withoutFullStop(recipient.lastResponse ?? '')}.`;
    case 'suppressed':
      return `Nothing was sent: ${recipient.address} is on the suppression list.`;
    case 'canceled':
      return email.status === 'canceled'
        ? 'The email was canceled before it was sent.'
        : 'Nothing was sent, because another recipient is suppressed.';
  }
}

/** Whether it is held until somebody decides. */
const isHeld = (cause: Cause | null) => cause === 'uncertain' || cause === 'crashed';

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);

const withoutFullStop = (text: string) => text.replace(/\.{1,9}$/, '');

function doubtOf(attempts: Attempt[]): string {
  const numbers = [...new Set(attempts.filter((attempt) => attempt.uncertain).map((attempt) => attempt.number))];
  const which = `${numbers.length > 1 ? 'Attempts' : 'Attempt'} ${numbers.join(', ')}`;
  return `${which} ended after the whole message and before an answer to it, so it may have arrived all the same.`;
}

function adviceOf(recipient: Recipient, cause: Cause | null, attempt: Attempt | null): string | null {
  const hasArrived = attempt?.outcome === 'delivered';
  if (recipient.lastResponse === stoppedNote && !hasArrived) return null;
  switch (cause) {
    case null:
    case 'scheduled':
    case 'being_delivered':
    case 'canceled':
      return null;
    case 'in_queue':
      return 'If this lasts, check that a node with the role mta is running.';
    case 'on_hold':
      return 'An operator ends the hold with `sendwright release --waiting send`, or `--waiting fail` if the waiting mail must not be sent.';
    case 'held_back':
      return recipient.waitingFor?.startsWith(warmUpOf(''))
        ? 'New sending addresses may send a little more each day (WARM_UP_PLAN). An operator sees them at /api/v1/admin/destinations, and can add an address to the pool or give the domain another one.'
        : 'An operator sees the destination, and can resume or flush it, at /api/v1/admin/destinations.';
    case 'uncertain':
      return 'Ask the recipient, or the postmaster of the receiving side, whether its Message-ID arrived; then choose retry, delivered or failed with POST /api/v1/emails/:id/release.';
    case 'crashed':
      return 'The log of the service, or of the program that starts it, says why it ended; it may have run out of memory. Once that is fixed, choose retry with POST /api/v1/emails/:id/release, or failed.';
    case 'suppressed':
      return 'If the address works again, take it off the suppression list and send again.';
    case 'retrying':
      return `${adviceAfter(attempt)} It is tried again automatically.`;
    case 'refused':
      return saysNobodyThere(classificationOf(attempt))
        ? `${adviceAfter(attempt)} The address went onto the suppression list.`
        : `${adviceAfter(attempt)} ${sendAgain}`;
    case 'given_up':
      return hasArrived ? 'There is no need to send it again.' : `${adviceAfter(attempt)} ${sendAgain}`;
  }
}

const sendAgain = 'It is not tried again; send it again once that is fixed.';

const classificationOf = (attempt: Attempt | null) => (attempt?.classification ?? 'other') as Classification;

/** The meaning of a class, and what people can do about it. @param classification null: not known */
function adviceAbout(classification: string | null): string {
  const { meaning, advice } = meanings[(classification ?? 'other') as Classification];
  return `${meaning} ${advice}`;
}

/** Advice after an attempt that did not succeed. */
function adviceAfter(attempt: Attempt | null): string {
  const special = attempt && specialAdvice(attempt);
  return special ?? adviceAbout(classificationOf(attempt));
}

/** Advice if the failure tells more than its class; null: it does not. */
function specialAdvice({
  uncertain,
  phase,
  reason,
  classification,
  enhancedCode,
  verification,
}: Attempt): string | null {
  if (uncertain)
    return 'The server may have taken the message although its answer never came. Each attempt has the same Message-ID, by which most receivers show a second copy only once.';
  if (phase === 'dns' && reason.includes('ALLOW_PRIVATE_NETWORKS'))
    return 'This server does not deliver to private addresses; its operator can allow it with ALLOW_PRIVATE_NETWORKS.';
  // The way to the recipient leads back here (RFC 3463 section 3.5).
  if (classification === 'sender' && enhancedCode === '5.4.6')
    return 'The MX records of the recipient’s domain lead to this server, which keeps no mailboxes: they belong to the server that does.';
  const isForbiddenByPolicy = (phase === 'starttls' || phase === 'dns') && verification !== 'none';
  if (!isForbiddenByPolicy) return null;
  return reason.includes(tlsSetting)
    ? 'The sending side demands this: with a lower `tls` level, of the email or of its domain, it would be sent.'
    : 'The receiving domain demands this itself, and only its operators can fix it.';
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
