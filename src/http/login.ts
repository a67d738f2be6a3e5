import { isIP } from 'node:net';
import type { Context } from 'koa';
import { z } from 'zod';
import { login, type User } from '../core/accounts/users.ts';
import type { Database } from '../db/client.ts';
import { readJson } from './body/body.ts';
import { line, parse, text } from './input/validation.ts';

const bodyLimit = 16 * 1024;

export const credentials = z.object({
  email: line(254).describe('The email address of the user; case does not matter.'),
  password: text(1_000).describe('The password.'),
});

/**
 * The user whose email and password are in the body.
 *
 * @throws ApiError as `login` in `core/accounts/users.ts`, or 400
 */
export async function logIn(ctx: Context, db: Database): Promise<User> {
  const { email, password } = parse(credentials, await readJson(ctx, bodyLimit));
  return login(db, { email, password, address: addressOf(ctx) });
}

/** The client's address according to the proxies, some of which name its port too; the peer's if they pass on something else. */
function addressOf(ctx: Context): string {
  const [, ipv6, ipv4] = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/.exec(ctx.ip) ?? [];
  const address = ipv6 ?? ipv4 ?? ctx.ip;
  return isIP(address) === 0 ? (ctx.socket.remoteAddress ?? '') : address;
}
