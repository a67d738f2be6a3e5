import { isIP } from 'node:net';
import type Router from '@koa/router';
import type { Context } from 'koa';
import { z } from 'zod';
import * as passwords from '../../core/passwords.ts';
import { login } from '../../core/users.ts';
import { demandLogin, issueToken, lifetimeSeconds, sessionOf } from '../auth.ts';
import { readJson } from '../body.ts';
import type { Services } from '../services.ts';
import { sessionToken, setSessionCookie } from '../session-cookie.ts';
import { line, parse, password, text } from '../validation.ts';

const bodyLimit = 16 * 1024;

export const credentials = z.object({
  email: line(254).describe('In any case.'),
  password: text(1_000).describe('As it is.'),
});

export const newPassword = z.object({
  current_password: text(1_000).describe('The one until now.'),
  new_password: password.describe('At least 8 characters, and none of the passwords that are tried first.'),
});

/** `POST /auth/login` and `POST /auth/password`. */
export function authRoutes(router: Router, services: Services): void {
  const { db, jwtSecret, baseUrl } = services;
  router.post('/auth/password', ...demandLogin(services), async (ctx) => {
    const { current_password: current, new_password: next } = parse(newPassword, await readJson(ctx, bodyLimit));
    const { user } = sessionOf(ctx);
    const changed = await passwords.change(db, user.id, { current, next });
    const { token, expiresAt } = issueToken(jwtSecret, { ...user, ...changed });
    // What came in a cookie stays where no script can read it.
    const isCookie = sessionToken(ctx) !== null;
    const https = baseUrl.startsWith('https:');
    if (isCookie) setSessionCookie(ctx, token, { https, maxAgeSeconds: lifetimeSeconds });
    ctx.body = { token: isCookie ? null : token, token_type: 'Bearer', expires_at: expiresAt.toISOString() };
  });

  router.post('/auth/login', async (ctx) => {
    const { email, password } = parse(credentials, await readJson(ctx, bodyLimit));
    const user = await login(db, { email, password, address: addressOf(ctx) });
    const { token, expiresAt } = issueToken(jwtSecret, user);
    ctx.body = {
      token,
      token_type: 'Bearer',
      expires_at: expiresAt.toISOString(),
      user: { id: user.id, email: user.email, role: user.role },
      account: user.account,
    };
  });
}

/** The client's, as far as the proxies say so; whatever else they pass on is not an address. */
export function addressOf(ctx: Context): string {
  return isIP(ctx.ip) === 0 ? (ctx.socket.remoteAddress ?? '') : ctx.ip;
}
