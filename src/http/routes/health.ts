import { setTimeout as sleep } from 'node:timers/promises';
import type Router from '@koa/router';
import { unavailable } from '../../errors.ts';
import type { Services } from '../services.ts';

const answerWithinMs = 3_000;

/**
 * `GET /healthz`: the process responds. `GET /readyz`: so does the database, which has the tables of the queue and has not run
 * out of disk space.
 */
export function healthRoutes(router: Router, { db }: Services): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });

  router.get('/readyz', async (ctx) => {
    if (db.isDiskFull()) throw unavailable();
    const asked = db.query({ text: 'SELECT 1 FROM accounts, pgboss.version LIMIT 1' }).then(
      () => true,
      () => false,
    );
    // Statements wait for a database that silently vanished; a load balancer should get its answer sooner.
    if (!(await Promise.race([asked, sleep(answerWithinMs, false, { ref: false })]))) throw unavailable();
    ctx.body = { status: 'ready' };
  });
}
