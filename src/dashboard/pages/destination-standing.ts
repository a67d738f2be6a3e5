import type { Destination } from '../../client/index.ts';

/** Without a message taken for so long it is not taken for a pause between two of them, in ms. */
const silenceMs = 15 * 60_000;

export const waitingAt = ({ queued, deferred }: Destination): number => queued + deferred;

/** What keeps mail from it, its own name left out; null: nothing that is known. */
export const causeAt = ({ site, reason, waiting_for: waiting }: Destination): string | null =>
  reason ?? waiting?.replace(`${site}: `, '') ?? null;

/**
 * Whether mail waits for it and none was taken for a while, though it may be tried: between two back-offs, or where one of
 * the domains behind it cannot be reached, it is `open` or `slowed` all the same.
 */
export function isStalled(destination: Destination, now = Date.now()): boolean {
  const { state, waiting_for: waiting, last_success_at: success } = destination;
  const isTried = state === 'open' || state === 'slowed';
  const isSilent = success === null || now - new Date(success).getTime() > silenceMs;
  return isTried && isSilent && waiting !== null && waitingAt(destination) > 0;
}
