import { createSecretKey } from 'node:crypto';
import jsonwebtoken from 'jsonwebtoken';
import type { Context, Middleware } from 'koa';
import koaJwt from 'koa-jwt';
import type { User } from '../../core/accounts/users.ts';
import { unauthorized } from '../../errors.ts';
import { isId, newId } from '../../ids.ts';
import { sessionToken } from './session-cookie.ts';

const issuer = 'sendwright';
const audience = 'sendwright-api';
const algorithm = 'HS256';
/** How long a login lasts, unless the password is changed or the user logs out. */
export const lifetimeSeconds = 12 * 3_600;
/** How far apart the clocks of two nodes may be. */
const skewSeconds = 300;

/** A token for this user, valid for 12 hours or until the password changes. */
export function issueToken(secret: string, user: User): { token: string; expiresAt: Date } {
  const issuedAt = Math.floor(Date.now() / 1000);
  const token = jsonwebtoken.sign(
    {
      acc: user.account.id,
      role: user.role,
      // `iat` is not enough: it has whole seconds by one node's clock, so a token of the same second would stay valid.
      pwd: user.passwordChangedAt.getTime(),
      iat: issuedAt,
      exp: issuedAt + lifetimeSeconds,
      jti: newId(),
    },
    secret,
    { algorithm, issuer, audience, subject: user.id },
  );
  return { token, expiresAt: new Date((issuedAt + lifetimeSeconds) * 1000) };
}

/** Who a token was issued to, and when. */
export interface Claims {
  /** The id of the token; null if it has none. */
  id: string | null;
  userId: string;
  accountId: string;
  /** When the password had last been changed when the token was issued, in ms. */
  passwordAt: number;
  expiresAt: Date;
}

/** Requires a token with a valid signature, in a header or, from a browser, in a cookie; `claimsOf` then has its claims. */
export const verifyToken = (secret: string): Middleware =>
  // koa-jwt has its own 401, which the error middleware replaces with ours.
  koaJwt({
    // As a key: of a text `jsonwebtoken` first tries with each call whether it is a public key, which throws. Its types know no keys.
    secret: createSecretKey(Buffer.from(secret)) as unknown as Buffer,
    algorithms: [algorithm],
    issuer,
    audience,
    key: 'claims',
    tokenKey: 'token',
    // If this returns null, koa-jwt looks for a header.
    getToken: sessionToken,
  }) as Middleware;

interface TokenPayload {
  sub: string;
  acc: string;
  jti?: string;
  iat?: number;
  exp?: number;
  pwd?: number;
}

/**
 * The claims of a token that `verifyToken` let in.
 *
 * @throws ApiError 401 if the token is not as we issue them
 */
export function claimsOf(ctx: Context): Claims {
  const { sub: userId, acc: accountId, jti, iat: issuedAt, exp, pwd: passwordAt } = ctx.state.claims as TokenPayload;
  // koa-jwt checks the expiry only if the token has one, and accepts a token without.
  if (typeof issuedAt !== 'number' || typeof exp !== 'number' || typeof passwordAt !== 'number') throw unauthorized();
  if (exp - issuedAt > lifetimeSeconds || issuedAt > Date.now() / 1000 + skewSeconds) throw unauthorized();
  if (!isEncodedAsOurs(ctx.state.token as string, ctx.state.claims)) throw unauthorized();
  if (!isId(userId) || !isId(accountId)) throw unauthorized();
  const id = jti !== undefined && isId(jti) ? jti : null;
  return { id, userId, accountId, passwordAt, expiresAt: new Date(exp * 1000) };
}

/** A token that was signed with our key may still be encoded in another way, such as with a duplicate claim. */
function isEncodedAsOurs(token: string, claims: unknown): boolean {
  const [encodedHeader, payload] = token.split('.');
  return encodedHeader === header && payload === encode(claims);
}

const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');
/** The header that `jsonwebtoken` gives each of our tokens: without `kid`, `jku`, `x5u`, `jwk` or `crit`, which are never honored. */
const header = encode({ alg: algorithm, typ: 'JWT' });
