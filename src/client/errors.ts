/** What is known about a failure. Only `error` is always there. */
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
 * A refusal of the service, or a failure on the way to it. It never holds a credential.
 *
 * A refusal has a `status` and one of the errors of the service, such as `invalid request`. Without a `status`, the error is
 * `network error`, `timeout` or `webhook not verified`. An answer that is not from Sendwright, such as the error page of a proxy,
 * is an `unexpected answer` or an `answer too large`, with its status.
 */
export class SendwrightError extends Error {
  /** The HTTP status; null if there was no answer. */
  readonly status: number | null;
  /** The error, for programs: one of a fixed set. */
  readonly error: string;
  /** The field and the reason, or what to do, for people. */
  readonly detail: string | null;
  /** The body of the answer, such as one with `missing` and `checks` after a failed verification. */
  readonly body: unknown;
  /** How long to wait before trying again, according to the service. */
  readonly retryAfterMs: number | null;
  /** The id of the request in the server's log. */
  readonly requestId: string | null;
  /** The idempotency key of a send: with it, you can repeat the same call later and it sends only once. */
  readonly idempotencyKey: string | null;
  /** How often it was tried. If above 1, an earlier attempt may have succeeded. */
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
