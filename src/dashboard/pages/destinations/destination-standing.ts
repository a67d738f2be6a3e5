import type { Destination } from '../../../client/index.ts';

/** If no message was accepted for this long, it is more than a pause between two messages, in ms. */
const silenceMs = 15 * 60_000;

export const waitingAt = ({ queued, deferred }: Destination): number => queued + deferred;

/** What keeps mail from it, without its own name; null: nothing that is known. */
export const causeAt = ({ site, reason, waiting_for: waiting }: Destination): string | null =>
  reason ?? waiting?.replace(`${site}: `, '') ?? null;

/**
 * Whether mail waits for it and none was accepted for a while, although it may be tried: its state is `open` or `slowed`
 * between two back-offs too, and if only one of its domains cannot be reached.
 */
export function isStalled(destination: Destination): boolean {
  const { state, waiting_for: waiting, last_success_at: success } = destination;
  const isTried = state === 'open' || state === 'slowed';
  // Held mail, whose notes begin like this, waits for its owner and not for the destination.
  const isKeptBack = waiting !== null && !waiting.startsWith('held: ');
  const isSilent = success === null || Date.now() - new Date(success).getTime() > silenceMs;
  return isTried && isSilent && isKeptBack && waitingAt(destination) > 0;
}

/** Whether mail waits for it that it does not get for now, or does not accept: since when is what people ask. */
export const lacksMail = (destination: Destination): boolean =>
  isStalled(destination) || (destination.state === 'backing_off' && waitingAt(destination) > 0);
