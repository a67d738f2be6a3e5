import type { Destination } from '../../../client/index.ts';
import { now } from '../../words/clock.ts';

/** If no message was accepted for this long, it is more than a pause between two messages, in ms. */
const silenceMs = 15 * 60_000;

export const waitingAt = ({ queued, deferred }: Destination): number => queued + deferred;

/** What keeps mail from it, without its own name; null: nothing that is known. */
export const causeAt = ({ site, reason, waiting_for: waiting }: Destination): string | null =>
  reason ?? waiting?.replace(`${site}: `, '') ?? null;

/** When it last accepted or judged mail: as the running nodes have seen, or noted before they began; null: that is not known. */
export function lastHeardOf({ last_success_at: success, last_delivered_at: delivered }: Destination): string | null {
  // Both are written in the same way, so that the later one is the greater one.
  return success !== null && delivered !== null && delivered > success ? delivered : (success ?? delivered);
}

/** Whether it judges mail and takes none: the last that arrived is long before the last that it answered. */
export function onlyRefuses({ last_success_at: success, last_delivered_at: delivered }: Destination): boolean {
  return success !== null && delivered !== null && Date.parse(success) - Date.parse(delivered) > silenceMs;
}

/**
 * Whether mail waits for it and none was accepted for a while, although it may be tried: its state is `open` or `slowed`
 * between two back-offs too, and if only one of its domains cannot be reached.
 */
export function isStalled(destination: Destination): boolean {
  const { state, waiting_for: waiting } = destination;
  const heard = lastHeardOf(destination);
  const isTried = state === 'open' || state === 'slowed';
  // Held mail, whose notes begin like this, waits for its owner and not for the destination.
  const isKeptBack = waiting !== null && !waiting.startsWith('held: ');
  const isSilent = heard === null || now() - Date.parse(heard) > silenceMs;
  return isTried && isSilent && isKeptBack && waitingAt(destination) > 0;
}

/** Whether mail waits for it that it does not get for now, or does not accept: since when is what people ask. */
export const lacksMail = (destination: Destination): boolean =>
  isStalled(destination) || (destination.state === 'backing_off' && waitingAt(destination) > 0);
