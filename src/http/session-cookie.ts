import type { Context } from 'koa';
import { forbidden } from '../errors.ts';

const name = 'sendwright_session';

/** What a page of another site cannot send along: a browser would ask us first, and we do not answer that. */
const ownPageHeader = 'X-Sendwright-Page';

/**
 * The token that a browser keeps for us. Whoever shows another credential means that one.
 *
 * @returns null where there is none
 */
export function sessionToken(ctx: Context): string | null {
  if (ctx.get('Authorization') !== '' || ctx.get('X-API-Key') !== '') return null;
  return ctx.cookies.get(name) ?? null;
}

/** Gives the browser a token that no script can read, and that no other site can make it send; null takes it away. */
export function setSessionCookie(
  ctx: Context,
  token: string | null,
  { https, maxAgeSeconds }: { https: boolean; maxAgeSeconds: number },
): void {
  const parts = [`${name}=${token ?? ''}`, 'Path=/', 'HttpOnly', 'SameSite=Strict'];
  parts.push(`Max-Age=${token === null ? 0 : maxAgeSeconds}`);
  // Behind a proxy the connection says nothing: how we are reached does.
  if (https) parts.push('Secure');
  ctx.append('Set-Cookie', parts.join('; '));
}

/**
 * A browser sends the cookie whoever asks it to, so what changes something must come from a page of ours.
 *
 * @throws ApiError 403
 */
export function refuseForged(ctx: Context): void {
  if (['GET', 'HEAD'].includes(ctx.method)) return;
  if (ctx.get(ownPageHeader) === '')
    throw forbidden(`who has the cookie of a login changes things with the header ${ownPageHeader}`);
  refuseElsewhere(ctx);
}

/** @throws ApiError 403 where the browser says that a page of somebody else asks */
export function refuseElsewhere(ctx: Context): void {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '' && site !== 'same-origin') throw forbidden('a page of another site asks');
}
