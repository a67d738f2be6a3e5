import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { isUnavailable } from '../db/client.ts';
import {
  ApiError,
  internalError,
  invalidRequest,
  methodNotAllowed,
  notFound,
  unauthorized,
  unavailable,
} from '../errors.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../log.ts';
import type { Metrics } from '../metrics.ts';

/** Names the request, in the answer and in every line that is logged for it (`ctx.state.log`). */
export function requestId(log: Logger): Middleware {
  return async function requestId(ctx, next) {
    const id = newId();
    ctx.set('X-Request-Id', id);
    ctx.state.log = log.child({ requestId: id });
    await next();
  };
}

/**
 * One line a request: who was asked what, with which answer, in how many milliseconds, and about which email. The same is
 * counted by the route's own path.
 */
export function accessLog(metrics: Metrics): Middleware {
  return async function accessLog(ctx, next) {
    const started = performance.now();
    await next();
    const ms = performance.now() - started;
    const route = (ctx as { _matchedRoute?: unknown })._matchedRoute;
    metrics.requested(ctx.method, typeof route === 'string' ? route : null, ctx.status, ms);
    const emailId = (ctx.body as { email?: { id?: string } } | null | undefined)?.email?.id;
    (ctx.state.log as Logger).info(
      {
        method: ctx.method,
        path: ctx.path.slice(0, 200),
        status: ctx.status,
        ms: Math.round(ms),
        ...(emailId === undefined ? {} : { emailId }),
      },
      'request',
    );
  };
}

const yearSeconds = 31_536_000;

/**
 * Answers are data for one reader: nothing may frame, guess or keep them.
 *
 * @param https whether the service is reached by https: then browsers are told to ask for nothing else
 */
export function securityHeaders(https: boolean): Middleware {
  return async function securityHeaders(ctx, next) {
    ctx.set({
      'X-Content-Type-Options': 'nosniff',
      'X-Frame-Options': 'DENY',
      'Referrer-Policy': 'no-referrer',
      'Cache-Control': 'no-store',
      'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      ...(https ? { 'Strict-Transport-Security': `max-age=${yearSeconds}` } : {}),
    });
    await next();
  };
}

/** RFC 9112 section 3.2: by HTTP/1.1 a request names its host, and once. With two, a proxy may have gone by the other. */
export const demandHost: Middleware = async function demandHost(ctx, next) {
  const hosts = ctx.req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && ctx.req.httpVersion !== '1.0')) throw invalidRequest('Host: must be there, once');
  await next();
};

/** Their bodies are an `error` and nothing else: what a person can do about it is in a header. */
const bare = [401, 403, 404];

/** The one place that writes an error body. */
export const errors: Middleware = async function errors(ctx, next) {
  try {
    await next();
    // The router says all of it by status alone. To a method that it never heard of it says 501, whatever the path.
    if (ctx.status === 501) throw ctx.response.get('Allow') ? methodNotAllowed() : notFound();
    if (ctx.status === 404 && ctx.body === undefined) throw notFound();
    if (ctx.status === 405) throw methodNotAllowed();
  } catch (error) {
    const shown = toApiError(error);
    const log = ctx.state.log as Logger;
    if (shown.status === 500) log.error({ error: (error as Error).stack }, 'a request failed');
    if (shown.status === 503) log.warn({ error: (error as Error).message }, 'a request could not be served now');
    ctx.status = shown.status;
    ctx.set(shown.headers);
    discardRest(ctx.req);
    const isBare = bare.includes(shown.status);
    // What is not there has a detail for operators alone, with what they typed in it.
    if (isBare && shown.status !== 404 && shown.detail !== undefined) ctx.set('X-Error-Detail', shown.detail);
    ctx.body = {
      error: shown.message,
      ...(shown.detail === undefined || isBare ? {} : { detail: shown.detail }),
      ...shown.extra,
    };
  }
};

/** How long a client may go on writing a body that was refused. */
const lingerMs = 10_000;

/**
 * Reads what is left of a refused body and throws it away. A client that is still writing would otherwise be stuck, or lose
 * the answer to a connection that is reset under it.
 */
function discardRest(req: IncomingMessage): void {
  if (req.complete) return;
  const enough = setTimeout(() => req.destroy(), lingerMs).unref();
  req.once('close', () => clearTimeout(enough));
  req.resume();
}

function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (isUnavailable(error)) return unavailable();
  // koa and koa-jwt throw errors of their own that carry a status.
  const status = (error as { status?: unknown } | null)?.status;
  if (status === 401) return unauthorized();
  if (status === 400) return invalidRequest();
  return internalError();
}
