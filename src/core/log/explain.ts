import type { Attempt, Email, Recipient, Return } from '../../generated/prisma/client.ts';
import { type Classification, saysNobodyThere } from '../../smtp/deliver.ts';
import { tlsSetting } from '../outgoing/outgoing.ts';
import type { TlsOutlook } from '../outgoing/tls-outlook.ts';
import { crashedNote, heldNote, warmUpOf } from '../recipients/waiting-for.ts';
import { stoppedNote } from './stopping.ts';

/** Where a recipient stands and why, for people and for programs. */
export interface RecipientExplanation {
  address: string;
  status: Recipient['status'];
  /** What keeps it where it is; null if it is delivered. */
  cause: Cause | null;
  /** What a failure is about, as the attempt log has it. */
  classification: string | null;
  sentence: string;
  /** What somebody can do about it; null if there is nothing to do. */
  advice: string | null;
  attempts: number;
  lastAttempt: { at: Date; mxHost: string | null; phase: string; response: string; uncertain: boolean } | null;
  /** The TLS that will be demanded; null once settled, or if it was not looked up. */
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

/** What each class of failure means to a person, and what they can do. */
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
    meaning: 'Something on the sending side stands in the way: the sender’s address or domain, the key or the account.',
    advice:
      'Verify the sending domain again, and check that its DNS records and those of this server can be looked up.',
  },
  other: {
    meaning: 'The server gave no reason that we recognize.',
    advice: 'The text of the reply may name one.',
  },
};

const policyAdvice = {
  own: 'The sending side asks for this: with less in `tls`, of the email or of its domain, it would be sent.',
  theirs: 'The receiving domain demands this itself, and only its operators can fix it.',
};

/** Whom to turn to if a policy forbade the connection; null: none did. */
function policyAdviceFor({ phase, verification, reason }: Attempt): string | null {
  if ((phase !== 'starttls' && phase !== 'dns') || verification === 'none') return null;
  return reason.includes(tlsSetting) ? policyAdvice.own : policyAdvice.theirs;
}

const warmUpAdvice =
  'New sending addresses may send a little more each day (WARM_UP_PLAN). An operator sees them at /api/v1/admin/destinations, and can add an address to the pool or give the domain another one.';

/** The way to the recipient leads back here (RFC 3463 section 3.5). */
const isLoop = ({ classification, enhancedCode }: Attempt) => classification === 'sender' && enhancedCode === '5.4.6';
const loopAdvice =
  'The MX records of the recipient’s domain lead to this server, which keeps no mailboxes: they belong to the server that does.';

const uncertainAdvice =
  'The server may have taken the message although its answer never came. Each attempt has the same Message-ID, by which most receivers show a second copy only once.';

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
 * Says in words and in fields where each recipient stands, why, and what happens next.
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
    const own = attempts.filter((attempt) => attempt.recipient === recipient.address);
    const outlook = tls.get(recipient.destination) ?? null;
    const back = returns.filter((one) => one.recipient === recipient.address);
    const explanation = explainOne({ email, recipient, attempts: own, givesUpAt, onHoldSince, now });
    return { ...withReturns(explanation, back), tls: recipient.nextAttemptAt ? outlook : null };
  });
  return { summary: summarize(email, explained), recipients: explained };
}

interface One {
  email: Email;
  recipient: Recipient;
  attempts: Attempt[];
  givesUpAt: Date;
  onHoldSince: Date | null;
  now: Date;
}

function explainOne({
  email,
  recipient,
  attempts,
  givesUpAt,
  onHoldSince,
  now,
}: One): Omit<RecipientExplanation, 'tls'> {
  const last = attempts.at(-1) ?? null;
  // What a killed process knew is recorded when it starts again, perhaps after the recipient was given up or decided about.
  const arrived = attempts.findLast(({ outcome }) => outcome === 'delivered') ?? null;
  const cause = causeOf(email, recipient, arrived ?? last, { onHoldSince, now });
  const isWarmUp = cause === 'held_back' && (recipient.waitingFor?.startsWith(warmUpOf('')) ?? false);
  const classification = last?.outcome === 'delivered' ? null : (last?.classification ?? null);
  const waits = isHeld(cause);
  const mayHaveArrived = cause !== null && arrived === null && attempts.some((attempt) => attempt.uncertain);
  const isStopped = recipient.lastResponse === stoppedNote && arrived === null;
  return {
    address: recipient.address,
    status: recipient.status,
    cause,
    classification,
    sentence:
      sentenceOf({ email, recipient, last: arrived ?? last, cause, onHoldSince }) +
      (mayHaveArrived ? ` ${doubt(attempts)}` : ''),
    advice: cause === null || isStopped ? null : isWarmUp ? warmUpAdvice : adviceOf(cause, arrived ?? last),
    attempts: recipient.attempts,
    lastAttempt: last && {
      at: last.at,
      mxHost: last.mxHost,
      phase: last.phase,
      response: last.reply ?? last.reason,
      uncertain: last.uncertain,
    },
    nextAttemptAt: waits ? null : recipient.nextAttemptAt,
    givesUpAt: recipient.nextAttemptAt && !waits ? givesUpAt : null,
  };
}

/** What came back later does not change where the recipient stands, but people want to know it first. */
function withReturns<E extends Omit<RecipientExplanation, 'tls'>>(explanation: E, returns: Return[]): E {
  const told = returns.map(({ kind, receivedAt, diagnostic }) => {
    const said = diagnostic ? `: ${withoutFullStop(diagnostic)}` : '';
    return ` ${later[kind]} on ${receivedAt.toISOString()}${said}.`;
  });
  const bounce = returns.find(({ kind }) => kind === 'bounce');
  const { meaning, advice } = meanings[(bounce?.classification ?? 'other') as Classification];
  return {
    ...explanation,
    sentence: told.length === 0 ? explanation.sentence : `${withoutFullStop(explanation.sentence)}.${told.join('')}`,
    ...(bounce ? { classification: bounce.classification, advice: `${meaning} ${advice}` } : {}),
  };
}

const later: Record<Return['kind'], string> = {
  bounce: 'It came back',
  delay: 'It was said to be delayed',
  complaint: 'Its reader called it spam',
  unsubscribe: 'Its reader unsubscribed',
};

function causeOf(
  email: Email,
  { status, attempts, claimedBy, waitingFor, nextAttemptAt }: Recipient,
  last: Attempt | null,
  { onHoldSince, now }: { onHoldSince: Date | null; now: Date },
): Cause | null {
  if (status === 'delivered') return null;
  if (status === 'suppressed' || status === 'canceled') return status;
  if (status === 'failed') return last === null || last.outcome === 'bounced' ? 'refused' : 'given_up';
  if (claimedBy) return 'being_delivered';
  if (waitingFor === heldNote) return 'uncertain';
  if (waitingFor === crashedNote) return 'crashed';
  // A recipient whose time has not come would wait in any case.
  if (onHoldSince && nextAttemptAt && nextAttemptAt <= now) return 'on_hold';
  if (waitingFor !== null) return 'held_back';
  if (attempts > 0) return 'retrying';
  return email.scheduledAt && email.scheduledAt > now ? 'scheduled' : 'in_queue';
}

interface Told extends Pick<One, 'email' | 'recipient' | 'onHoldSince'> {
  last: Attempt | null;
  cause: Cause | null;
}

function sentenceOf({ email, recipient, last, cause, onHoldSince }: Told): string {
  const host = last?.mxHost ?? `the mail server of ${recipient.destination}`;
  const said = withoutFullStop(last?.reply ? `${host} answered: ${last.reply}` : (last?.reason ?? ''));
  const next = recipient.nextAttemptAt?.toISOString() ?? '';
  switch (cause) {
    case null:
      return `Delivered to ${host}, which answered: ${last?.reply ?? recipient.lastResponse ?? ''}`;
    case 'scheduled':
      return `Waits for its scheduled time, ${email.scheduledAt?.toISOString()}.`;
    case 'in_queue':
      return `Has been in the queue since ${email.createdAt.toISOString()}; no attempt has been made yet.`;
    case 'on_hold':
      return `Waits, because the whole service is on hold and sends nothing since ${onHoldSince?.toISOString() ?? 'just now'}.`;
    case 'being_delivered':
      return `Has been in delivery since ${recipient.claimedAt?.toISOString() ?? 'just now'}.`;
    case 'uncertain':
      return 'Is not tried again until somebody decides, because `on_uncertain` is `hold`.';
    case 'crashed':
      return `Is not tried again until somebody decides: ${recipient.crashes} times in a row a process of this service ended while it was delivering it.`;
    case 'held_back':
      return `Waits without using up an attempt. ${withoutFullStop(recipient.waitingFor ?? '')}.`;
    case 'retrying':
      return `Attempt ${recipient.attempts} did not succeed: ${said}. The next one is due at ${next}.`;
    case 'refused':
      return `${last === null || last.phase === 'local' ? 'Not sent' : 'Refused for good'}: ${said || recipient.lastResponse}.`;
    case 'given_up':
      return last?.outcome === 'delivered'
        ? `Counts as failed (${withoutFullStop(recipient.lastResponse ?? '')}), but arrived, as was known only later: ${said}.`
        : `Tried ${times(Math.max(recipient.attempts, last?.number ?? 0))} and ${withoutFullStop(recipient.lastResponse ?? '')}.`;
    case 'suppressed':
      return `Nothing was sent: ${recipient.address} is on the suppression list.`;
    case 'canceled':
      return email.status === 'canceled'
        ? 'The email was canceled before it was sent.'
        : 'Nothing was sent, because another recipient is suppressed.';
  }
}

/** Whether somebody has to decide about it. */
const isHeld = (cause: Cause | null) => cause === 'uncertain' || cause === 'crashed';

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);

const withoutFullStop = (text: string) => text.replace(/\.{1,9}$/, '');

function doubt(attempts: Attempt[]): string {
  const numbers = [...new Set(attempts.filter((attempt) => attempt.uncertain).map((attempt) => attempt.number))];
  const which = `${numbers.length > 1 ? 'Attempts' : 'Attempt'} ${numbers.join(', ')}`;
  return `${which} ended after the whole message and before an answer to it, so it may have arrived all the same.`;
}

function adviceOf(cause: Cause, last: Attempt | null): string | null {
  if (cause === 'given_up' && last?.outcome === 'delivered') return 'There is no need to send it again.';
  if (cause === 'suppressed') return 'If the address works again, take it off the suppression list and send again.';
  if (cause === 'scheduled' || cause === 'being_delivered' || cause === 'canceled') return null;
  if (cause === 'uncertain')
    return 'Ask the recipient, or the postmaster of the receiving side, whether its Message-ID arrived; then choose retry, delivered or failed with POST /api/v1/emails/:id/release.';
  if (cause === 'crashed')
    return 'The log of the service, or of whatever starts it, says why it ended; it may have run out of memory. Once that is fixed, choose retry with POST /api/v1/emails/:id/release, or failed.';
  if (cause === 'on_hold')
    return 'An operator ends the hold with `sendwright release --waiting send`, or `--waiting fail` where what waits is not to be sent.';
  if (cause === 'held_back')
    return 'An operator sees the destination, and can resume or flush it, at /api/v1/admin/destinations.';
  if (cause === 'in_queue') return 'If this lasts, check that a node with the role mta is running.';
  const classification = (last?.classification ?? 'other') as Classification;
  const { meaning, advice } = meanings[classification];
  const about = last?.uncertain
    ? uncertainAdvice
    : last?.phase === 'dns' && last.reason.includes('ALLOW_PRIVATE_NETWORKS')
      ? 'This server does not deliver to private addresses; its operator can allow it with ALLOW_PRIVATE_NETWORKS.'
      : last && isLoop(last)
        ? loopAdvice
        : ((last && policyAdviceFor(last)) ?? `${meaning} ${advice}`);
  if (cause === 'retrying') return `${about} It is tried again automatically.`;
  if (cause === 'refused' && saysNobodyThere(classification))
    return `${about} The address went onto the suppression list.`;
  return `${about} It is not tried again; send it again once that is fixed.`;
}

function summarize(email: Email, recipients: RecipientExplanation[]): string {
  const counts = new Map<string, number>();
  for (const { status } of recipients) counts.set(status, (counts.get(status) ?? 0) + 1);
  const parts = [...counts].map(([status, n]) => `${n} ${status}`).join(', ');
  const open = recipients.find((recipient) => recipient.nextAttemptAt !== null);
  const failed = recipients.find((recipient) => recipient.status === 'failed');
  const held = recipients.find(({ cause }) => isHeld(cause));
  const concerned = held ?? failed ?? open;
  const detail = recipients.length === 1 ? recipients[0]?.sentence : concerned && ofOne(concerned);
  return `${email.status}: ${recipients.length} recipient${recipients.length === 1 ? '' : 's'} (${parts}).${detail ? ` ${detail}` : ''}`;
}

const ofOne = ({ address, sentence }: RecipientExplanation) => `${address}: ${sentence}`;
