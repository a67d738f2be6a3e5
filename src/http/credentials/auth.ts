import type { Context, Middleware } from 'koa';
import * as keys from '../../core/accounts/keys.ts';
import { currentUser, type User } from '../../core/accounts/users.ts';
import type { Database } from '../../db/client.ts';
import { clientGone, forbidden, unauthorized } from '../../errors.ts';
import type { AccountTurns } from '../../pace/account-turns.ts';
import { refuseQuery } from '../input/query-fault.ts';
import type { Services } from '../services.ts';
import { aboutCredential, type Wanted } from './credential.ts';
import { type Claims, claimsOf, verifyToken } from './login-token.ts';
import { isForAnother, refuseForged, sessionToken } from './session-cookie.ts';

/** Who is logged in, according to a current token. */
export interface Session extends Claims {
  /** The current role, not the one in the token. */
  role: User['role'];
  user: User;
}

/** What gates need to check a credential. */
type Gate = Pick<Services, 'db' | 'jwtSecret' | 'limiter' | 'readTurns'>;

/**
 * Requires a current token, in a header or, from a browser, in a cookie; `sessionOf` then has the session. Reads wait for their
 * account's turn.
 */
export const demandLogin = (gate: Omit<Gate, 'limiter'>): Middleware => inOrder(demandSession(gate), inTurn(gate));

/**
 * Requires an API key with this scope or, without a key, a current token; `senderOf` then has the sender. Reads wait for their
 * account's turn.
 */
export const demandLoginOrKey = (gate: Gate, scope: keys.Scope): Middleware =>
  inOrder(demandSessionOrKey(gate, scope), inTurn(gate));

/** Like `demandLogin`, but without a turn: for calls that spend their time on something other than the database. */
export function demandSession({ db, jwtSecret }: Pick<Gate, 'db' | 'jwtSecret'>, wanted: Wanted = 'login'): Middleware {
  const verify = verifyToken(jwtSecret);
  const current: Middleware = async (ctx, next) => {
    ctx.state.session = await currentSession(db, ctx);
    refuseQuery(ctx);
    await next();
  };
  return withAdvice(inOrder(verify, current), wanted);
}

/** Like `demandLoginOrKey`, but without a turn: for calls that spend their time on something other than the database. */
export function demandSessionOrKey(gate: Omit<Gate, 'readTurns'>, scope: keys.Scope): Middleware {
  const session = demandSession(gate, 'key or login');
  const apiKey = demandKey(gate, scope);
  return async (ctx, next) => {
    const enter = () => {
      ctx.state.sender = asSender(sessionOf(ctx));
      return next();
    };
    await (ctx.get('X-API-Key') ? apiKey(ctx, next) : session(ctx, enter));
  };
}

/** Requires an API key with this scope; `senderOf` then has its holder. */
function demandKey({ db, limiter }: Pick<Gate, 'db' | 'limiter'>, scope: keys.Scope): Middleware {
  return withAdvice(async (ctx, next) => {
    const holder = await keys.authenticate(db, ctx.get('X-API-Key'));
    limiter.count(ctx, holder.keyId);
    keys.demandScope(holder, scope);
    refuseQuery(ctx);
    ctx.state.sender = holder;
    await next();
  }, 'key or login');
}

/** Use after `demandLogin`: lets only operators of the server in. */
export const demandAdmin: Middleware = async function admin(ctx, next) {
  if (sessionOf(ctx).role !== 'admin') throw forbidden('only operators of the server can do this');
  await next();
};

/** Use after `demandLoginOrKey`: refuses keys that are restricted to some domains, for actions that affect all of them. */
export const demandWholeAccount: Middleware = async function wholeAccount(ctx, next) {
  if (senderOf(ctx).domains.length > 0)
    throw forbidden('the API key is restricted to sender domains: use one that is not');
  await next();
};

/** @throws ApiError 401 if the login has ended, or is not that of the user whom the page is shown to; 403 if a page of another site sent the cookie */
async function currentSession(db: Database, ctx: Context): Promise<Session> {
  const claims = claimsOf(ctx);
  const user = await currentUser(db, claims);
  if (!user) throw unauthorized();
  if (sessionToken(ctx) !== null) {
    refuseForged(ctx);
    if (isForAnother(ctx, user.id)) throw unauthorized();
  }
  return { ...claims, role: user.role, user };
}

/** Wraps a gate so that its own 401s say what to do. */
function withAdvice(gate: Middleware, wanted: Wanted): Middleware {
  return async (ctx, next) => {
    let isIn = false;
    try {
      await gate(ctx, () => {
        isIn = true;
        return next();
      });
    } catch (error) {
      // A new error, because koa-jwt throws its own kind.
      const isRefused = !isIn && (error as { status?: unknown } | null)?.status === 401;
      throw isRefused ? unauthorized(aboutCredential(ctx, wanted)) : error;
    }
  };
}

/** Makes a read wait for its account's turn. It has no body, so no turn is spent waiting for the client. */
function inTurn({ readTurns }: Pick<Gate, 'readTurns'>): Middleware {
  return async (ctx, next) => {
    const accountId = accountOf(ctx);
    const isRead = ctx.method === 'GET' || ctx.method === 'HEAD';
    if (accountId === null || !isRead) return next();
    await takeTurn(readTurns, accountId, ctx, next);
  };
}

/**
 * Does the work in a turn of the account.
 *
 * @throws ApiError 499 if the client has gone by then: nobody needs it
 */
export const takeTurn = (
  turns: AccountTurns,
  accountId: string,
  ctx: Context,
  work: () => Promise<void>,
): Promise<void> =>
  turns.take(accountId, async () => {
    if (ctx.req.socket.destroyed) throw clientGone();
    await work();
  });

const inOrder =
  (first: Middleware, second: Middleware): Middleware =>
  (ctx, next) =>
    first(ctx, () => second(ctx, next));

/** The session, after `demandLogin` or `demandSession`. */
export const sessionOf = (ctx: Context): Session => ctx.state.session as Session;

/** The sender, after `demandLoginOrKey` or `demandSessionOrKey`. */
export const senderOf = (ctx: Context): keys.Sender => ctx.state.sender as keys.Sender;

/** The authenticated account; null if there is none (yet). */
export const accountOf = (ctx: Context): string | null => {
  const { sender, session } = ctx.state as { sender?: keys.Sender; session?: Session };
  return (sender ?? session)?.accountId ?? null;
};

const asSender = ({ user }: Session): keys.Sender => ({
  accountId: user.account.id,
  keyId: null,
  plan: user.account.plan,
  domains: [],
});
