/** What is known of a failure; all but `error` may be missing. */
export interface Failure {
  error: string;
  status?: number | null;
  detail?: string | null;
  body?: unknown;
  retryAfterMs?: number | null;
  requestId?: string | null;
  idempotencyKey?: string | null;
  attempts?: number;
  cause?: unknown;
}

/**
 * Whatever the service refused, and whatever went wrong on the way to it. It never holds a credential.
 *
 * Only what the service says has a `status` and one of its errors, such as `invalid request`. What has none is one of
 * `network error`, `timeout` and `webhook not verified`; an answer that is not from Sendwright, a proxy's error page for
 * instance, is an `unexpected answer`, or an `answer too large`.
 */
export class SendwrightError extends Error {
  /** The HTTP status; null when there was no answer. */
  readonly status: number | null;
  /** Which error it is: for programs. */
  readonly error: string;
  /** The field and the reason, or what to do about it: for people. */
  readonly detail: string | null;
  /** The body of the answer: `missing` and `checks` of a failed verification are in it. */
  readonly body: unknown;
  /** When the service said that it is worth trying again. */
  readonly retryAfterMs: number | null;
  /** Under which the server's log has the request. */
  readonly requestId: string | null;
  /** The key of a send: with it the same call can be made again later, and sends once. */
  readonly idempotencyKey: string | null;
  /** How often it was tried. Above 1 an earlier attempt may have been the one that did it. */
  readonly attempts: number;

  constructor(failure: Failure) {
    const { error, status = null, detail = null, cause } = failure;
    super(
      `${status === null ? '' : `${status} `}${error}${detail === null ? '' : `: ${detail}`}`,
      cause === undefined ? {} : { cause },
    );
    this.name = 'SendwrightError';
    this.status = status;
    this.error = error;
    this.detail = detail;
    this.body = failure.body ?? null;
    this.retryAfterMs = failure.retryAfterMs ?? null;
    this.requestId = failure.requestId ?? null;
    this.idempotencyKey = failure.idempotencyKey ?? null;
    this.attempts = failure.attempts ?? 1;
  }
}
