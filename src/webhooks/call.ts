import type { Clock } from '../clock.ts';
import type { Call, CallOutcome, Claim } from '../core/webhooks/webhook-calls.ts';
import { openSecret } from '../core/webhooks/webhooks.ts';
import type { Keyring } from '../crypto/seal.ts';
import type { Logger } from '../log.ts';
import type { Metrics } from '../process/metrics.ts';
import { decide, defaultSchedule, undone } from './outcome.ts';
import { type Poster, post, unanswered } from './post.ts';
import { signatureHeaders } from './sign.ts';

/** What all calls share. */
export interface CallTools {
  poster: Poster;
  keyring: Keyring;
  /** This node's right to make calls: the name it claims under, and whether the right still holds. */
  lease: { readonly nodeId: string; readonly onHold: boolean; valid(): boolean };
  /** The clock by which times are set; see `DatabaseClock`. */
  clock: Clock;
  log: Logger;
  metrics: Metrics;
  /** See `outcome.ts`. */
  schedule?: number[];
}

/**
 * Makes one call of a delivery, signed with the endpoint's secrets, unless this node may make none.
 *
 * @param signal ends it early; it is then as if it had not been made
 * @param line as for `post`
 * @returns the outcome to store; does not throw
 */
export async function makeCall(
  { poster, keyring, lease, clock, log, schedule = defaultSchedule }: CallTools,
  claim: Claim,
  call: Call,
  signal: AbortSignal,
  line: string | null,
): Promise<CallOutcome> {
  // By the database's clock, because it is compared with the time at which an endpoint began to fail.
  const startedAt = clock.now();
  try {
    const secrets = [call.sealedSecret, call.sealedPreviousSecret].flatMap((sealed) =>
      sealed ? [openSecret(keyring, claim.webhookId, sealed)] : [],
    );
    const body = Buffer.from(call.payload);
    const signed = { id: claim.deliveryId, timestamp: Math.floor(startedAt.getTime() / 1000), body };
    // If this process was frozen and taken for dead, another node makes this call. On hold none does.
    if (!lease.valid() || lease.nodeId !== claim.nodeId || lease.onHold) return undone(claim, clock.now());
    const headers = signatureHeaders(signed, secrets);
    const answer = await post(poster, { url: call.url, headers, body }, signal, line);
    return answer.status === null && signal.aborted
      ? undone(claim, clock.now())
      : decide(claim, call, { ...answer, startedAt }, clock.now(), { schedule });
  } catch (error) {
    log.error({ deliveryId: claim.deliveryId, error: (error as Error).stack }, 'a webhook call could not be made');
    const answer = unanswered('the call could not be made; the log of the server says why', true);
    return decide(claim, call, { ...answer, startedAt, durationMs: 0 }, clock.now(), { schedule });
  }
}
