import { Readable } from 'node:stream';
import type { Context, Middleware } from 'koa';
import { isConflict, isUnavailable } from '../db/errors.ts';
import {
  ApiError,
  internalError,
  invalidRequest,
  methodNotAllowed,
  noSuchCall,
  unauthorized,
  unavailable,
} from '../errors.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../log.ts';
import type { Metrics } from '../process/metrics.ts';
import { Trouble } from '../trouble.ts';

/** Gives the request an id, in the answer and in every log line about it (`ctx.state.log`). */
export function requestId(log: Logger): Middleware {
  return async function requestId(ctx, next) {
    const id = newId();
    ctx.set('X-Request-Id', id);
    ctx.state.log = log.child({ requestId: id });
    await next();
  };
}

/** The end of these paths is an address, or a token with which its reader could unsubscribe somebody. */
const personal = /^(\/api\/v1\/suppressions|\/unsubscribe)\/(?!import$|export$).+/is;

/**
 * Logs one line a request: method, path, status, duration, and the email that it is about. The metrics count the same by the
 * route's pattern. Of a path that names a person only the beginning is logged.
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
        path: ctx.path.replace(personal, '$1/…').slice(0, 200),
        status: ctx.status,
        ms: Math.round(ms),
        ...(emailId === undefined ? {} : { emailId }),
        ...(ctx.state.unavailable === undefined ? {} : { error: ctx.state.unavailable }),
      },
      'request',
    );
  };
}

const yearSeconds = 31_536_000;

/**
 * Answers are data for one reader: they may not be framed, sniffed or cached.
 *
 * @param https whether clients reach the service by https: then browsers are told to use nothing else (HSTS)
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

/** An HTTP/1.1 request has exactly one Host (RFC 9112 section 3.2). With two, a proxy may have routed by the other one. */
export const demandHost: Middleware = async function demandHost(ctx, next) {
  const hosts = ctx.req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && ctx.req.httpVersion !== '1.0'))
    throw invalidRequest('Host: must be given exactly once');
  await next();
};

/** The first line of a request may have a whole URL (RFC 9112 section 3.2.2). Koa throws wherever the path of a bad one is read. */
export const demandUrl: Middleware = async function demandUrl(ctx, next) {
  if (!hasPath(ctx)) {
    // The log, which is written later, reads the path as well.
    ctx.url = '/';
    throw invalidRequest('the address of the request is not a URL');
  }
  await next();
};

function hasPath(ctx: Context): boolean {
  try {
    return typeof ctx.path === 'string';
  } catch {
    return false;
  }
}

/** The bodies of these have only an `error`: what to do about it is in a header. */
const bare = [401, 403, 404];

/**
 * The only place that writes error bodies, except to requests that are not HTTP (`server.ts`). Why a request was answered with
 * 503 is in its own line of the log; how many there are depends on the clients, so a warning comes once a minute.
 */
export function errors(log: Logger): Middleware {
  const refusing = new Trouble(log, { failing: 'requests are answered with 503' });
  return async function errors(ctx, next) {
    try {
      await next();
      // The router only sets a status. For a method that it does not know at all, that is 501 on any path.
      if (ctx.status === 501) throw ctx.response.get('Allow') ? methodNotAllowed() : noSuchCall();
      if (ctx.status === 404 && ctx.body === undefined) throw noSuchCall();
      if (ctx.status === 405) throw methodNotAllowed();
    } catch (error) {
      const shown = toApiError(error);
      if (shown.status === 500) (ctx.state.log as Logger).error({ error: (error as Error).stack }, 'a request failed');
      if (shown.cause instanceof Error) {
        ctx.state.unavailable = shown.cause.message;
        refusing.failed(shown.cause);
      }
      answer(ctx, shown);
    }
  };
}

function answer(ctx: Context, shown: ApiError): void {
  ctx.status = shown.status;
  ctx.set(shown.headers);
  const rest = discardRest(ctx);
  const isBare = bare.includes(shown.status);
  // The detail of a 404 echoes input, and is only for the command line.
  if (isBare && shown.status !== 404 && shown.detail !== undefined) ctx.set('X-Error-Detail', shown.detail);
  ctx.body = {
    error: shown.message,
    ...(shown.detail === undefined || isBare ? {} : { detail: shown.detail }),
    ...shown.extra,
  };
  if (!ctx.res.shouldKeepAlive && !ctx.req.complete) endAfter(ctx, rest);
}

/** With the end of such an answer Node closes the connection, although the client is still writing: it gets the answer at once, and its end later. */
function endAfter(ctx: Context, rest: Promise<void>): void {
  const text = JSON.stringify(ctx.body);
  ctx.body = Readable.from(
    (async function* () {
      yield Buffer.from(text);
      await rest;
    })(),
  );
  ctx.type = 'json';
  ctx.length = Buffer.byteLength(text);
}

/** How long a client may keep writing a refused body, as with nginx and Apache: 40 MB take a link of 16 Mbit/s twenty seconds. */
const lingerMs = 30_000;

/**
 * Reads the rest of a refused body and discards it. A client that is still writing would otherwise get stuck, or lose the
 * answer to a connection reset.
 */
async function discardRest({ req, res }: Context): Promise<void> {
  // A client that hung up sends no rest, and the request is closed already: it would be kept for as long as its rest is waited for.
  if (req.complete || req.destroyed) return;
  req.resume();
  await new Promise<void>((resolve) => {
    const enough = setTimeout(() => (res.shouldKeepAlive ? req.destroy() : resolve()), lingerMs).unref();
    req.once('close', () => {
      clearTimeout(enough);
      resolve();
    });
  });
}

function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (isUnavailable(error) || isConflict(error)) return unavailable(error as Error);
  // koa and koa-jwt throw their own errors, which have a status.
  const status = (error as { status?: unknown } | null)?.status;
  if (status === 401) return unauthorized();
  if (status === 400) return invalidRequest();
  return internalError();
}
