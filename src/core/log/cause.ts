import type { Attempt, Email, Recipient } from '../../generated/prisma/client.ts';
import { crashedNote, heldNote } from '../recipients/waiting-for.ts';

/** What keeps a recipient's mail from being delivered. */
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

/** What the cause and the words of an explanation follow from. */
export interface Facts {
  email: Email;
  recipient: Recipient;
  attempts: Attempt[];
  givesUpAt: Date;
  onHoldSince: Date | null;
  now: Date;
}

/** @param attempt the one that delivered it, or the last one; null: there was none */
export function causeOf({ email, recipient, onHoldSince, now }: Facts, attempt: Attempt | null): Cause | null {
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

/** Whether it is held until somebody decides. */
export const isHeld = (cause: Cause | null) => cause === 'uncertain' || cause === 'crashed';
