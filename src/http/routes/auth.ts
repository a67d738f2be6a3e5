import type Router from '@koa/router';
import { z } from 'zod';
import * as passwords from '../../core/accounts/passwords.ts';
import { readJson } from '../body/body.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { issueToken, lifetimeSeconds } from '../credentials/login-token.ts';
import { sessionToken, setSessionCookie } from '../credentials/session-cookie.ts';
import { parse, password, text } from '../input/validation.ts';
import { logIn } from '../login.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 16 * 1024;

export const passwordChange = z.object({
  current_password: text(1_000).describe('The current password.'),
  new_password: password.describe('The new password: at least 8 characters, and not easy to guess.'),
});

/** `POST /auth/login` and `POST /auth/password`. */
export function authRoutes(router: Router, services: Services): void {
  const { db, jwtSecret, baseUrl } = services;
  router.post('/auth/password', demandLogin(services), async (ctx) => {
    const { current_password: current, new_password: next } = parse(passwordChange, await readJson(ctx, bodyLimit));
    const { user } = sessionOf(ctx);
    const changed = await passwords.change(db, user.id, { current, next });
    const { token, expiresAt } = issueToken(jwtSecret, { ...user, ...changed });
    // A token from a cookie stays out of the reach of scripts.
    const isCookie = sessionToken(ctx) !== null;
    const https = baseUrl.startsWith('https:');
    if (isCookie) setSessionCookie(ctx, token, { https, maxAgeSeconds: lifetimeSeconds });
    ctx.body = { token: isCookie ? null : token, token_type: 'Bearer', expires_at: expiresAt.toISOString() };
  });

  router.post('/auth/login', async (ctx) => {
    const user = await logIn(ctx, db);
    const { token, expiresAt } = issueToken(jwtSecret, user);
    ctx.body = {
      token,
      token_type: 'Bearer',
      expires_at: expiresAt.toISOString(),
      ...present.loggedIn(user),
    };
  });
}
