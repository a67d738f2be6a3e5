import { isIP } from 'node:net';
import type Router from '@koa/router';
import type { Context } from 'koa';
import { z } from 'zod';
import { login } from '../../core/users.ts';
import { issueToken } from '../auth.ts';
import { readJson } from '../body.ts';
import type { Services } from '../services.ts';
import { line, parse, text } from '../validation.ts';

const bodyLimit = 16 * 1024;

export const credentials = z.object({
  email: line(254).describe('In any case.'),
  password: text(1_000).describe('As it is.'),
});

/** `POST /auth/login`. */
export function authRoutes(router: Router, { db, jwtSecret }: Services): void {
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
function addressOf(ctx: Context): string {
  return isIP(ctx.ip) === 0 ? (ctx.socket.remoteAddress ?? '') : ctx.ip;
}
