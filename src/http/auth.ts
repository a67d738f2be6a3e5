import jsonwebtoken from 'jsonwebtoken';
import type { Context, Middleware } from 'koa';
import koaJwt from 'koa-jwt';
import * as keys from '../core/accounts/keys.ts';
import { currentUser, type User } from '../core/accounts/users.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { isId, newId } from '../ids.ts';
import { aboutCredential, type Wanted } from './credential.ts';
import type { Services } from './services.ts';
import { refuseForged, sessionToken } from './session-cookie.ts';

const issuer = 'sendwright';
const audience = 'sendwright-api';
const algorithm = 'HS256';
export const lifetimeSeconds = 12 * 3_600;
/** How far apart the clocks of two nodes may be. */
const skewSeconds = 300;
const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');
/** The header that `jsonwebtoken` gives each of our tokens: without `kid`, `jku`, `x5u`, `jwk` or `crit`, which are never honored. */
const header = encode({ alg: algorithm, typ: 'JWT' });

/** Who is logged in, according to a verified token. */
export interface Session {
  /** The id of the token; null: it cannot be ended before it expires. */
  id: string | null;
  /** When the password had last been changed when the token was issued, in ms. */
  passwordAt: number;
  expiresAt: Date;
  userId: string;
  accountId: string;
  /** The current role, not the one in the token. */
  role: User['role'];
  user: User;
}

interface Claims {
  sub: string;
  acc: string;
  jti?: string;
  iat?: number;
  exp?: number;
  pwd?: number;
}

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

/** The status in the log and the metrics of a request whose client has gone, as in nginx. */
export const clientGone = 499;

/** What it takes to check a credential. */
type Gate = Pick<Services, 'db' | 'jwtSecret' | 'limiter' | 'readTurns'>;

/**
 * Requires a current token, in a header or, from a browser, in a cookie; `sessionOf` then has the session. Reads wait for their
 * account's turn.
 */
export const demandLogin = (gate: Omit<Gate, 'limiter'>): Middleware[] => [...demandSession(gate), inTurn(gate)];

/** Like `demandLogin`, but without a turn: for calls that spend their time on something other than the database. */
export function demandSession(
  { db, jwtSecret: secret }: Pick<Gate, 'db' | 'jwtSecret'>,
  wanted: Wanted = 'login',
): [verify: Middleware, current: Middleware] {
  // koa-jwt has its own 401, which the error middleware replaces with ours.
  const verify = koaJwt({
    secret,
    algorithms: [algorithm],
    issuer,
    audience,
    key: 'claims',
    tokenKey: 'token',
    // If this returns null, koa-jwt looks for a header.
    getToken: sessionToken,
  }) as Middleware;
  const current: Middleware = async (ctx, next) => {
    const { sub: userId, acc: accountId, jti, iat: issuedAt, exp, pwd: passwordAt } = ctx.state.claims as Claims;
    // koa-jwt checks the expiry only if the token has one, and accepts a token without.
    if (typeof issuedAt !== 'number' || typeof exp !== 'number' || typeof passwordAt !== 'number') throw unauthorized();
    if (exp - issuedAt > lifetimeSeconds || issuedAt > Date.now() / 1000 + skewSeconds) throw unauthorized();
    if (!isAsIssued(ctx.state.token as string, ctx.state.claims)) throw unauthorized();
    if (!isId(userId) || !isId(accountId)) throw unauthorized();
    const id = jti !== undefined && isId(jti) ? jti : null;
    const user = await currentUser(db, { id, userId, accountId, passwordAt });
    if (!user) throw unauthorized();
    if (sessionToken(ctx) !== null) refuseForged(ctx);
    const expiresAt = new Date(exp * 1000);
    const session: Session = { id, passwordAt, expiresAt, userId, accountId, role: user.role, user };
    ctx.state.session = session;
    await next();
  };
  return [sayingWhatToDo(verify, wanted), sayingWhatToDo(current, wanted)];
}

/** Wraps a gate so that its own 401s say what to do. */
function sayingWhatToDo(gate: Middleware, wanted: Wanted): Middleware {
  return async function sayingWhatToDo(ctx, next) {
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

/** Whether a token signed with our key is encoded exactly as we encode tokens: one with a duplicate claim is not. */
function isAsIssued(token: string, claims: unknown): boolean {
  const [head, payload] = token.split('.');
  return head === header && payload === encode(claims);
}

/** Use after `demandLogin`: lets only operators of the server in. */
export const demandAdmin: Middleware = async function admin(ctx, next) {
  if (sessionOf(ctx).role !== 'admin') throw forbidden('this is for operators of the server');
  await next();
};

/** Requires an API key with this scope, and leaves the `KeyHolder` in `ctx.state.holder`. */
export function demandKey({ db, limiter }: Pick<Gate, 'db' | 'limiter'>, scope: keys.Scope): Middleware {
  return sayingWhatToDo(async function apiKey(ctx, next) {
    const holder = await keys.authenticate(db, ctx.get('X-API-Key') || undefined);
    limiter.count(ctx, holder.keyId);
    keys.demandScope(holder, scope);
    ctx.state.holder = holder;
    await next();
  }, 'key or login');
}

/**
 * Requires an API key with this scope or, without a key, a current token; `senderOf` then has the sender. Reads wait for their
 * account's turn.
 */
export function demandLoginOrKey(gate: Gate, scope: keys.Scope): Middleware {
  const letIn = demandSessionOrKey(gate, scope);
  const turn = inTurn(gate);
  return (ctx, next) => letIn(ctx, () => turn(ctx, next));
}

/** Like `demandLoginOrKey`, but without a turn: for calls that spend their time on something other than the database. */
export function demandSessionOrKey(gate: Omit<Gate, 'readTurns'>, scope: keys.Scope): Middleware {
  const [verify, current] = demandSession(gate, 'key or login');
  const apiKey = demandKey(gate, scope);
  return async function sessionOrKey(ctx, next) {
    const enter = (sender: keys.Sender) => {
      ctx.state.sender = sender;
      return next();
    };
    if (ctx.get('X-API-Key')) await apiKey(ctx, () => enter(ctx.state.holder as keys.KeyHolder));
    else await verify(ctx, () => current(ctx, () => enter(senderIn(sessionOf(ctx)))));
  };
}

/** Makes a read wait for its account's turn. It has no body, so no turn is spent waiting for the client. */
function inTurn({ readTurns }: Pick<Gate, 'readTurns'>): Middleware {
  return async function inTurn(ctx, next) {
    const accountId = ctx.method === 'GET' || ctx.method === 'HEAD' ? accountOf(ctx) : null;
    if (accountId === null) await next();
    else
      await readTurns.take(accountId, async () => {
        // The client has gone, so nothing needs to be read.
        if (ctx.req.socket.destroyed) ctx.status = clientGone;
        else await next();
      });
  };
}

/** Use after `demandLoginOrKey`: refuses keys that are restricted to some domains, for actions that affect all of them. */
export const demandWholeAccount: Middleware = async function wholeAccount(ctx, next) {
  if (senderOf(ctx).domains.length > 0) throw forbidden('the API key is restricted to some sender domains');
  await next();
};

/** The session, after `demandLogin` or `demandSession`. */
export const sessionOf = (ctx: Context): Session => ctx.state.session as Session;

/** The sender, after `demandLoginOrKey` or `demandSessionOrKey`. */
export const senderOf = (ctx: Context): keys.Sender => ctx.state.sender as keys.Sender;

/** The authenticated account; null if there is none (yet). */
export const accountOf = (ctx: Context): string | null => {
  const { sender, session } = ctx.state as { sender?: keys.Sender; session?: Session };
  return (sender ?? session)?.accountId ?? null;
};

const senderIn = ({ user }: Session): keys.Sender => ({
  accountId: user.account.id,
  keyId: null,
  plan: user.account.plan,
  domains: [],
});
