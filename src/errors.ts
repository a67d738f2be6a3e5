/**
 * An error that a client is meant to see: `http/` turns it into `{"error": message, "detail"?: ...}` with this status.
 * Anything else that is thrown becomes a bare 500.
 */
export class ApiError extends Error {
  readonly status: number;
  readonly detail: string | undefined;
  /** More members of the body, such as `missing` of a failed verification. */
  readonly extra: Record<string, unknown>;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    message: string,
    options: {
      detail?: string | undefined;
      extra?: Record<string, unknown>;
      headers?: Record<string, string>;
      cause?: unknown;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'ApiError';
    this.status = status;
    this.detail = options.detail;
    this.extra = options.extra ?? {};
    this.headers = options.headers ?? {};
  }
}

/** 400; `detail` names the field and the reason, such as `to[0]: not an email address`, as far as they are known. */
export const invalidRequest = (detail?: string) => new ApiError(400, 'invalid request', { detail });

/** 400 for an email from a domain that its account may not send from yet. @param isAdded as for `notVerified` */
export const fromDomainNotVerified = (domain: string, isAdded: boolean) =>
  new ApiError(400, domainNotVerified, { detail: `from: ${notVerified(domain, isAdded)}` });

const domainNotVerified = 'from domain not verified';

export const isFromDomainNotVerified = ({ message }: ApiError) => message === domainNotVerified;

/** @param isAdded whether the account has the domain, unverified */
export const notVerified = (domain: string, isAdded: boolean) =>
  `${domain} is not a verified domain of this account: ${isAdded ? 'it is added; publish its DNS records and verify it' : 'add it first, then verify it'}`;

export const domainAlreadyExists = (domain: string) =>
  new ApiError(400, 'domain already exists', { detail: `domain: this account already has ${domain}` });

/** 400; the body says which records are missing, and what was found in the place of each. */
export const dnsVerificationFailed = (detail: string, extra: { missing: string[]; checks: unknown }) =>
  new ApiError(400, 'dns verification failed', { detail, extra });

/** A key in a header of its own has no challenge (RFC 9110 section 11.6.1), so this one names the other way, a login. */
export const unauthorized = (detail?: string) =>
  new ApiError(401, 'unauthorized', { detail, headers: { 'WWW-Authenticate': 'Bearer' } });

/** 403: it is known who is calling, and that they may not. */
export const forbidden = (detail: string) => new ApiError(403, 'forbidden', { detail });

export const accountSuspended = () => forbidden('the account is suspended: an operator of the server can resume it');

/** 404, and the same for what belongs to another account: nobody learns that it exists. */
export const notFound = (detail?: string) => new ApiError(404, 'not found', { detail });

/** 404 for a path or a method that no call has, so that nobody takes it for a missing row. */
export const noSuchCall = () =>
  new ApiError(404, 'not found', {
    headers: {
      'X-Error-Detail':
        'there is no such call: all begin with /api/v1/ and end without a slash, and the reference at /docs lists them',
    },
  });

export const methodNotAllowed = () => new ApiError(405, 'method not allowed');

/** 409: the call does not fit the state of what it is about; `detail` says which state. */
export const conflict = (detail: string) => new ApiError(409, 'conflict', { detail });

/** 410; `detail` says since when, or why, it is not there any more. */
export const gone = (detail: string) => new ApiError(410, 'gone', { detail });

export const payloadTooLarge = (detail: string) => new ApiError(413, 'payload too large', { detail });

export const unsupportedMediaType = (detail: string) => new ApiError(415, 'unsupported media type', { detail });

/** 499, as in nginx: the client has gone, and nobody gets this answer. The log and the metrics show the status. */
export const clientGone = () => new ApiError(499, 'client gone');

export const headersTooLarge = (detail: string) => new ApiError(431, 'headers too large', { detail });

/** 429: too many calls, or failures, in a short time. */
export const rateLimited = (retryAfterSeconds: number, detail: string) =>
  new ApiError(429, 'rate limited', { detail, headers: { 'Retry-After': String(retryAfterSeconds) } });

/** 429: the plan grants no more emails until then. */
export const quotaExceeded = (retryAfterSeconds: number, detail: string) =>
  new ApiError(429, 'quota exceeded', { detail, headers: { 'Retry-After': String(retryAfterSeconds) } });

/** What went wrong is only logged. */
export const internalError = () => new ApiError(500, 'internal error');

const serviceUnavailable = (retryAfterSeconds: number, cause?: Error) =>
  new ApiError(503, 'unavailable', { headers: { 'Retry-After': String(retryAfterSeconds) }, cause });

/** The answer to a balancer that is to send nothing more. Nothing is wrong, so it has no cause. */
export const stopping = () => serviceUnavailable(1);

/** @param why for the log alone: the error that led to it, or what there is too much of */
export const unavailable = (why: Error | string, retryAfterSeconds = 1) =>
  serviceUnavailable(retryAfterSeconds, typeof why === 'string' ? new Error(why) : why);
