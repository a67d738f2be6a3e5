import type { Context } from 'koa';
import { forbidden } from '../../errors.ts';

const name = 'sendwright_session';

/** A page of another site cannot send this header: the browser would send a CORS preflight, which we do not answer. */
const ownPageHeader = 'X-Sendwright-Page';

/** Whom the page is shown to. All tabs of a browser have one cookie, and another one of them may have logged in as somebody else. */
const shownToHeader = 'X-Sendwright-User';

/**
 * The token in the cookie. Another credential in the request takes precedence over it, except a user name and password: those are for
 * a proxy in front of the dashboard, for which the browser sends them with every call.
 *
 * @returns null if there is none, or there is another credential
 */
export function sessionToken(ctx: Context): string | null {
  const authorization = ctx.get('Authorization');
  const isForProxy = /^basic /i.test(authorization);
  if ((authorization !== '' && !isForProxy) || ctx.get('X-API-Key') !== '') return null;
  return ctx.cookies.get(name) ?? null;
}

/** Sets a cookie that no script can read and that the browser does not send for other sites; null removes it. */
export function setSessionCookie(
  ctx: Context,
  token: string | null,
  { https, maxAgeSeconds }: { https: boolean; maxAgeSeconds: number },
): void {
  const parts = [`${name}=${token ?? ''}`, 'Path=/', 'HttpOnly', 'SameSite=Strict'];
  parts.push(`Max-Age=${token === null ? 0 : maxAgeSeconds}`);
  // Behind a proxy the connection itself does not show whether clients use https; the base URL does.
  if (https) parts.push('Secure');
  ctx.append('Set-Cookie', parts.join('; '));
}

/**
 * A browser sends the cookie with any request to us, so a change must come from one of our own pages (CSRF).
 *
 * @throws ApiError 403
 */
export function refuseForged(ctx: Context): void {
  if (['GET', 'HEAD'].includes(ctx.method)) return;
  if (ctx.get(ownPageHeader) === '')
    throw forbidden(`with a login cookie, requests that change something need the header ${ownPageHeader}`);
  refuseElsewhere(ctx);
}

/** Whether the request is of a page that says it is shown to another user than this one, whose cookie the browser has by now. */
export function isForAnother(ctx: Context, userId: string): boolean {
  const shownTo = ctx.get(shownToHeader);
  return shownTo !== '' && shownTo !== userId;
}

/** @throws ApiError 403 if the browser says that the request comes from a page of another site */
export function refuseElsewhere(ctx: Context): void {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '' && site !== 'same-origin') throw forbidden('the request comes from a page of another site');
}
