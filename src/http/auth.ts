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
/** How far the clocks of two nodes may be apart. */
const skewSeconds = 300;
const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');
/** What `jsonwebtoken` begins each token of ours with: no `kid`, `jku`, `x5u`, `jwk` or `crit` has a say in anything. */
const header = encode({ alg: algorithm, typ: 'JWT' });

/** Who is logged in, from a token that was checked. */
export interface Session {
  /** Of the token; null for one that cannot be ended before its time. */
  id: string | null;
  /** The change of the password that the token was issued after, in ms. */
  passwordAt: number;
  expiresAt: Date;
  userId: string;
  accountId: string;
  /** As it is now, not as the token says. */
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

/** A token for this user, good for 12 hours or until the password changes. */
export function issueToken(secret: string, user: User): { token: string; expiresAt: Date } {
  const issuedAt = Math.floor(Date.now() / 1000);
  const token = jsonwebtoken.sign(
    {
      acc: user.account.id,
      role: user.role,
      // Not `iat`, which is in seconds and by the clock of one node: a token of the same second would stay.
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

/** What the log and the metrics have of a request that nobody waits for any more; nginx calls it so too. */
export const clientGone = 499;

/** What lets somebody in. */
type Gate = Pick<Services, 'db' | 'jwtSecret' | 'limiter' | 'readTurns'>;

/**
 * Lets in whoever has a current token, as a header or, in a browser, as a cookie: `sessionOf` says who it is. Reads take
 * turns.
 */
export const demandLogin = (gate: Omit<Gate, 'limiter'>): Middleware[] => [...demandSession(gate), inTurn(gate)];

/** As `demandLogin`, for what takes its time with others than the database: no turn is held meanwhile. */
export function demandSession(
  { db, jwtSecret: secret }: Pick<Gate, 'db' | 'jwtSecret'>,
  wanted: Wanted = 'login',
): [verify: Middleware, current: Middleware] {
  // koa-jwt says 401 in words of its own, which the error middleware replaces by ours.
  const verify = koaJwt({
    secret,
    algorithms: [algorithm],
    issuer,
    audience,
    key: 'claims',
    tokenKey: 'token',
    // Without one it looks for a header.
    getToken: sessionToken,
  }) as Middleware;
  const current: Middleware = async (ctx, next) => {
    const { sub: userId, acc: accountId, jti, iat: issuedAt, exp, pwd: passwordAt } = ctx.state.claims as Claims;
    // koa-jwt checks when a token ends where it says so, and takes one that does not.
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

/** The same gate, whose own 401s say what to do. */
function sayingWhatToDo(gate: Middleware, wanted: Wanted): Middleware {
  return async function sayingWhatToDo(ctx, next) {
    let isIn = false;
    try {
      await gate(ctx, () => {
        isIn = true;
        return next();
      });
    } catch (error) {
      // koa-jwt throws errors of its own, so it is made anew.
      const isRefused = !isIn && (error as { status?: unknown } | null)?.status === 401;
      throw isRefused ? unauthorized(aboutCredential(ctx, wanted)) : error;
    }
  };
}

/** Whether a token that is signed with our key is written as we write them: one in which a claim is there twice is not. */
function isAsIssued(token: string, claims: unknown): boolean {
  const [head, payload] = token.split('.');
  return head === header && payload === encode(claims);
}

/** After `demandLogin`: lets in the operators of the server. */
export const demandAdmin: Middleware = async function admin(ctx, next) {
  if (sessionOf(ctx).role !== 'admin') throw forbidden('this is for operators of the server');
  await next();
};

/** Lets in whoever has an API key with this scope, and leaves the `KeyHolder` in `ctx.state.holder`. */
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
 * Lets in whoever has an API key with this scope or, without a key, a current token: `senderOf` says who it is. Reads take
 * turns.
 */
export function demandLoginOrKey(gate: Gate, scope: keys.Scope): Middleware {
  const letIn = demandSessionOrKey(gate, scope);
  const turn = inTurn(gate);
  return (ctx, next) => letIn(ctx, () => turn(ctx, next));
}

/** As `demandLoginOrKey`, for what takes its time with others than the database: no turn is held meanwhile. */
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

/** Has a request that changes nothing wait for its account's turn. What it brings is not waited for: it has no body. */
function inTurn({ readTurns }: Pick<Gate, 'readTurns'>): Middleware {
  return async function inTurn(ctx, next) {
    const accountId = ctx.method === 'GET' || ctx.method === 'HEAD' ? accountOf(ctx) : null;
    if (accountId === null) await next();
    else
      await readTurns.take(accountId, async () => {
        // Whoever has gone meanwhile is not read for.
        if (ctx.req.socket.destroyed) ctx.status = clientGone;
        else await next();
      });
  };
}

/** After `demandLoginOrKey`: lets in whoever may act for all domains of the account, as what is done reaches into each. */
export const demandWholeAccount: Middleware = async function wholeAccount(ctx, next) {
  if (senderOf(ctx).domains.length > 0) throw forbidden('the API key is restricted to some sender domains');
  await next();
};

/** Who is logged in, after `demandLogin` or `demandSession`. */
export const sessionOf = (ctx: Context): Session => ctx.state.session as Session;

/** Who acts, after `demandLoginOrKey` or `demandSessionOrKey`. */
export const senderOf = (ctx: Context): keys.Sender => ctx.state.sender as keys.Sender;

/** The account that has been let in; null where none has, or none needs to be. */
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
