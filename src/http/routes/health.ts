import { setTimeout as sleep } from 'node:timers/promises';
import type Router from '@koa/router';
import { unavailable } from '../../errors.ts';
import type { Services } from '../services.ts';

const answerWithinMs = 3_000;

/** `GET /healthz`: the process answers. `GET /readyz`: so do the database and the queue's tables in it. */
export function healthRoutes(router: Router, { db }: Services): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });

  router.get('/readyz', async (ctx) => {
    const asked = db.query({ text: 'SELECT 1 FROM accounts, pgboss.version LIMIT 1' }).then(
      () => true,
      () => false,
    );
    // A database that is gone without a word is waited for by statements, not by whoever decides where requests go.
    if (!(await Promise.race([asked, sleep(answerWithinMs, false, { ref: false })]))) throw unavailable();
    ctx.body = { status: 'ready' };
  });
}
