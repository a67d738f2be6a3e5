import type Router from '@koa/router';
import type Koa from 'koa';
import * as accounts from '../../core/accounts/accounts.ts';
import * as sessions from '../../core/accounts/sessions.ts';
import type { User } from '../../core/accounts/users.ts';
import { anyDelivers } from '../../core/nodes/nodes.ts';
import * as hold from '../../core/operations/hold.ts';
import { forbidden } from '../../errors.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { issueToken, lifetimeSeconds } from '../credentials/login-token.ts';
import { refuseElsewhere, setSessionCookie } from '../credentials/session-cookie.ts';
import { logIn } from '../login.ts';
import * as present from '../present.ts';
import type { Services, SubmissionAddress } from '../services.ts';

const shownSubmission = ({ host, starttlsPort, tlsPort, selfSigned }: SubmissionAddress) => ({
  host,
  starttls_port: starttlsPort,
  tls_port: tlsPort,
  self_signed: selfSigned,
});

/** `POST`, `GET` and `DELETE /session`: the login of a browser, in a cookie that no script can read. A logout emits `logged out` on the app. */
export function sessionRoutes(router: Router, app: Koa, services: Services): void {
  const { db, jwtSecret, baseUrl, submission, sandbox, clock } = services;
  const loggedIn = demandLogin(services);
  const cookie = { https: baseUrl.startsWith('https:'), maxAgeSeconds: lifetimeSeconds };
  const shown = async (user: User, expiresAt: Date) => {
    const [account, since, delivers] = await Promise.all([
      accounts.get(db, user.account.id),
      hold.find(db),
      anyDelivers(db),
    ]);
    return {
      expires_at: expiresAt.toISOString(),
      ...present.session(user, account, clock.now()),
      service: {
        base_url: baseUrl,
        submission: submission && shownSubmission(submission),
        sandbox,
        on_hold_since: since?.toISOString() ?? null,
        delivers,
      },
    };
  };

  router.post('/session', async (ctx) => {
    refuseElsewhere(ctx);
    const user = await logIn(ctx, db);
    // Always a new token, so that a cookie planted beforehand is worthless (session fixation).
    const { token, expiresAt } = issueToken(jwtSecret, user);
    ctx.body = await shown(user, expiresAt);
    setSessionCookie(ctx, token, cookie);
  });

  router.get('/session', loggedIn, async (ctx) => {
    const { user, expiresAt } = sessionOf(ctx);
    ctx.body = await shown(user, expiresAt);
  });

  router.delete('/session', loggedIn, async (ctx) => {
    const { id, expiresAt } = sessionOf(ctx);
    if (id === null) throw forbidden('this token cannot be ended before it expires');
    await sessions.end(db, { id, expiresAt });
    app.emit('logged out', id);
    setSessionCookie(ctx, null, cookie);
    ctx.body = { message: 'logged out' };
  });
}
